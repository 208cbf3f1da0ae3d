"""Protected archives: no prune, deletion or wipe by the service removes them.

Those operations read the list of protected archives when they begin. So a change takes effect only while none of them
is running, and none is waiting for an agent, which may already have received it.
"""

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from backup_protocol import Capability
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.errors import Conflict
from holdfast.kit import clock
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories import agent_target, archive_records, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.storage.session import Database

REMOVES = ("prune", "delete_archive", "wipe")
MOST_PROTECTED = 1000
"""Limit per repository: each prune sends all of them to its machine."""


def engine_ids(session: Session, repository_id: int) -> tuple[str, ...]:
    """Return the engine's ids of a repository's protected archives, oldest first."""
    statement = select(Archive.engine_id).where(*_protected(repository_id)).order_by(Archive.start, Archive.id)
    return tuple(session.scalars(statement))


def count(session: Session, repository_id: int) -> int:
    return session.scalar(select(func.count(Archive.id)).where(*_protected(repository_id))) or 0


def is_meant(session: Session, repository_id: int, name: str, engine_id: str | None) -> bool:
    """Whether a protected archive has this engine id or, if none is given, this name."""
    named = Archive.name == name if engine_id is None else Archive.engine_id == engine_id
    return session.scalar(select(Archive.id).where(*_protected(repository_id), named).limit(1)) is not None


def refuse(session: Session, repository_id: int, name: str, engine_id: str | None) -> None:
    """Raise Conflict if the archive to be deleted is protected."""
    if is_meant(session, repository_id, name, engine_id):
        raise Conflict("archives.protected", "The archive is protected; unprotect it first.", archive=name)


def change(database: Database, caller: Caller, repository_id: int, archive_id: int, *, protected: bool) -> None:
    """Protect or unprotect an archive. Raise NotFound, Forbidden, or Conflict while archives are being removed."""
    with database.writing() as session:
        repository = store.require(session, caller, repository_id, Role.OPERATOR)
        archive = archive_records.of_repository(session, repository_id, archive_id)
        if (archive.protected_at is not None) == protected:
            return
        if protected:
            _require_possible(session, repository, archive)
        else:
            _refuse_while_removing(session, repository_id)
        _set(session, caller, archive, protected=protected)
    if protected:
        _promise(database, caller, repository_id, archive_id)


def _require_possible(session: Session, repository: Repository, archive: Archive) -> None:
    archive_records.require_present(archive)
    agent = repository.agent_machine_id if repository.execution_target == "agent" else None
    if not agent_target.can(session, agent, Capability.ARCHIVES_PROTECTED):
        raise Conflict(
            "archives.protection_unsupported",
            "This repository's agent is too old to spare protected archives; update it first.",
        )
    if count(session, repository.id) >= MOST_PROTECTED:
        raise Conflict(
            "archives.too_many_protected",
            f"{MOST_PROTECTED} archives of this repository are already protected; unprotect one first.",
        )


def _promise(database: Database, caller: Caller, repository_id: int, archive_id: int) -> None:
    """Confirm a protection: work that begins later will see it, but if any may have begun before, take it back."""
    try:
        with database.writing() as session:
            _refuse_while_removing(session, repository_id)
    except Conflict:
        with database.writing() as session:
            archive = archive_records.get(session, archive_id)
            if archive is not None:
                _set(session, caller, archive, protected=False)
        raise


def _refuse_while_removing(session: Session, repository_id: int) -> None:
    """Raise Conflict while archives are being removed. The row locks make a concurrent claim visible here."""
    statement = (
        select(Operation.id, Operation.kind, Operation.status, Operation.executor)
        .where(
            Operation.repository_id == repository_id,
            Operation.kind.in_(REMOVES),
            Operation.status.in_((Status.PENDING, Status.RUNNING)),
        )
        .order_by(Operation.id)
        .with_for_update()
    )
    for operation in session.execute(statement):
        if operation.status == Status.RUNNING or operation.executor == "agent":
            raise Conflict(
                "archives.being_removed",
                "Archives of this repository are being removed; try again once that has finished.",
                operation_id=operation.id,
                kind=operation.kind,
            )


def _set(session: Session, caller: Caller, archive: Archive, *, protected: bool) -> None:
    now = clock.now() if protected else None
    session.execute(update(Archive).where(Archive.id == archive.id).values(protected_at=now))
    audit.record(
        session,
        actor=caller,
        action="archive.protected" if protected else "archive.unprotected",
        object_type="archive",
        object_id=archive.id,
        details={"repository_id": archive.repository_id, "archive": archive.name},
    )
    store.note_evidence(session, archive.repository_id, "archives")


def _protected(repository_id: int) -> tuple[ColumnElement[bool], ...]:
    return Archive.repository_id == repository_id, Archive.protected_at.is_not(None), Archive.lost_at.is_(None)
