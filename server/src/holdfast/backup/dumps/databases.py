"""Read, add, change and remove the databases of a repository. Each change is recorded in the audit trail."""

import os
import shlex
import uuid
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from backup_engine.dumps import Database
from backup_protocol import DatabaseBlock, JobKind
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.access.vault import Vault
from holdfast.backup.dumps.models import DumpedDatabase, secret_context
from holdfast.backup.dumps.schemas import DatabaseAnswer, DatabaseBody, DatabaseKind
from holdfast.errors import Conflict, NotFound, Unprocessable
from holdfast.kit import clock
from holdfast.repositories import agent_target
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import ServicePlaces

MOST_DATABASES = 100
OPTIONS = ("database", "host", "port", "user")


def of_repository(session: Session, repository_id: int) -> list[DumpedDatabase]:
    found = select(DumpedDatabase).where(DumpedDatabase.repository_id == repository_id)
    return list(session.scalars(found.order_by(DumpedDatabase.name)))


def require(session: Session, repository_id: int, database_id: int) -> DumpedDatabase:
    found = session.get(DumpedDatabase, database_id)
    if found is None or found.repository_id != repository_id:
        raise NotFound("backup.database_not_found", "Not found, or not a database of this repository.")
    return found


def save(
    session: Session,
    caller: Caller,
    vault: Vault,
    places: ServicePlaces,
    repository: Repository,
    wanted: DatabaseBody,
    known: DumpedDatabase | None = None,
) -> DumpedDatabase:
    """Add a database, or replace the settings of an existing one.

    If no password is given, a stored one is kept. Raise Conflict, Unprocessable.
    """
    _check(session, places, repository, wanted)
    stored = known or DumpedDatabase(
        uuid=uuid.uuid4().hex, repository_id=repository.id, password=None, created_at=clock.now()
    )
    if known is None and len(of_repository(session, repository.id)) >= MOST_DATABASES:
        raise Conflict("backup.too_many_databases", f"A repository has at most {MOST_DATABASES} databases.")
    stored.name, stored.kind, stored.updated_at = wanted.name, wanted.kind, clock.now()
    stored.options = {name: value for name in OPTIONS if (value := getattr(wanted, name)) is not None}
    if wanted.password is not None:
        stored.password = vault.encrypt(wanted.password, secret_context(stored.uuid))
    session.add(stored)
    try:
        session.flush()
    except IntegrityError as error:
        raise Conflict(
            "backup.database_name_taken",
            f"The repository already has a database named {wanted.name}.",
            name=wanted.name,
        ) from error
    record(session, caller, "changed" if known else "created", stored)
    return stored


def remove(session: Session, caller: Caller, stored: DumpedDatabase) -> None:
    record(session, caller, "deleted", stored)
    session.delete(stored)


def record(session: Session, caller: Caller, word: str, stored: DumpedDatabase) -> None:
    details: dict[str, Any] = {"repository_id": stored.repository_id, "name": stored.name, "kind": stored.kind}
    audit.record(
        session,
        actor=caller,
        action=f"database.{word}",
        object_type="database",
        object_id=stored.id,
        details=details,
    )


def _check(session: Session, places: ServicePlaces, repository: Repository, wanted: DatabaseBody) -> None:
    require_able(session, repository)
    if wanted.kind != "postgresql_globals" and wanted.database is None:
        raise Unprocessable("backup.database_field_missing", "Specify the name of the database.", field="database")
    if wanted.kind != "sqlite":
        return
    path = wanted.database or ""
    if not path.startswith("/"):
        raise Unprocessable("backup.database_not_absolute", "The path of an SQLite file must be absolute.")
    if repository.execution_target == "local":
        _require_foreign(session, places, path)


def _require_foreign(session: Session, places: ServicePlaces, path: str) -> None:
    if places.here(session).holds(path):
        raise own_places()


def own_places() -> Unprocessable:
    return Unprocessable(
        "backup.own_places", "This file is part of the service's own data, which is left out of dumps."
    )


def require_able(session: Session, repository: Repository) -> None:
    """Raise Unprocessable unless the machine that runs the repository's engine can make dumps."""
    sentence = "This agent is too old to dump databases; update it."
    agent_target.require_able(session, repository, JobKind.BACKUP_DUMP, sentence)


def block_of(session: Session, places: ServicePlaces, stored: DumpedDatabase, *, here: bool) -> DatabaseBlock:
    """The database as passed to the host that dumps it.

    With `here`, an SQLite file is given by its real path on this machine. Raise Unprocessable if a link leads to the
    service's own data.
    """
    options = dict(stored.options)
    if stored.kind == "sqlite" and here:
        options["database"] = os.path.realpath(options.get("database") or "")
        _require_foreign(session, places, options["database"])
    reference = _reference(stored) if stored.password else None
    return DatabaseBlock(stored.name, stored.kind, password_ref=reference, **options)


def passwords(session: Session, vault: Vault, repository_id: int) -> dict[str, str]:
    """The passwords of a repository's databases, keyed by the references in their blocks."""
    return {
        _reference(stored): vault.decrypt(stored.password, secret_context(stored.uuid))
        for stored in of_repository(session, repository_id)
        if stored.password
    }


def _reference(stored: DumpedDatabase) -> str:
    return f"database-{stored.uuid}"


def answer(stored: DumpedDatabase) -> DatabaseAnswer:
    known = Database(name=stored.name, kind=stored.kind, **stored.options)
    return DatabaseAnswer(
        id=stored.id,
        repository_id=stored.repository_id,
        name=stored.name,
        kind=cast("DatabaseKind", known.kind),
        database=known.database,
        host=known.host,
        port=known.port,
        user=known.user,
        has_password=stored.password is not None,
        file=known.file,
        restore_command=restore_command(known),
        created_at=stored.created_at,
        updated_at=stored.updated_at,
    )


def restore_command(database: Database) -> str:
    """The command that loads a dump into an empty database."""
    file, name = shlex.quote(database.file), shlex.quote(database.database or "postgres")
    where = "".join(
        f" --{word}={shlex.quote(str(value))}"
        for word, value in (("host", database.host), ("port", database.port), ("username", database.user))
        if value is not None
    )
    if database.kind == "postgresql":
        return f"pg_restore{where} --dbname={name} --clean --if-exists --exit-on-error {file}"
    if database.kind == "postgresql_globals":
        return f"psql{where} --dbname=postgres --file={file}"
    if database.kind == "sqlite":
        return f"sqlite3 {name} < {file}"
    is_socket = (database.host or "").startswith("/")
    where = where.replace("--username=", "--user=").replace("--host=", "--socket=" if is_socket else "--host=")
    return f"mariadb{where}{' --password' if database.user else ''} {name} < {file}"
