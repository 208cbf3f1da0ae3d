"""All statements on repositories."""

import os
from collections.abc import Iterable
from typing import Any, Literal, get_args

from sqlalchemy import bindparam, or_, select, update
from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.errors import Conflict, Forbidden
from holdfast.kit import clock
from holdfast.operations import outbox
from holdfast.operations.event_schemas import RepositoryPart
from holdfast.operations.locks import Sharing
from holdfast.operations.queue import Subject
from holdfast.repositories import errors, size_records, ssh_address
from holdfast.repositories.models import Repository
from holdfast.storage.rows import find_row

SHARED_WRITERS = frozenset({2})
"""Engine majors that allow several runs to add to a repository at the same time, while others read it."""

PARTS: tuple[RepositoryPart, ...] = get_args(RepositoryPart)
PARTS_BY_CHANGE: dict[str, tuple[RepositoryPart, ...]] = {
    "created": PARTS,
    "changed": ("settings",),
    "evidence": ("evidence",),
    "deleted": PARTS,
}
PART_OF: dict[str, RepositoryPart] = {
    "archive_count": "archives",
    "last_history": "history",
    "history_generation": "history",
    "total_size": "sizes",
    "unique_size": "sizes",
    "typical_size": "sizes",
    "storage_free_bytes": "sizes",
    "storage_total_bytes": "sizes",
    "storage_seen_at": "sizes",
}
"""The part of a repository to which a column belongs; all other columns are evidence."""

EVERY = select(Repository).order_by(Repository.name, Repository.id)
THESE = EVERY.where(Repository.id.in_(bindparam("ids", expanding=True)))


def get(session: Session, repository_id: int) -> Repository | None:
    return find_row(session, Repository, repository_id)


def require(session: Session, caller: Caller, repository_id: int, role: Role) -> Repository:
    """Return the repository if the caller may see it and has the role. Raise NotFound or Forbidden."""
    repository = get(session, repository_id)
    if repository is None:
        raise errors.unknown(repository_id)
    rights.require_repository(session, caller, repository_id, role)
    return repository


def require_administered(session: Session, caller: Caller, repository_id: int) -> Repository:
    """Return the repository for an admin of the service; the role admin on the repository alone is not enough.

    For settings that let the service read or change things outside the repository. Raise NotFound or Forbidden.
    """
    repository = require(session, caller, repository_id, Role.ADMIN)
    if caller.role is not Role.ADMIN:
        raise Forbidden("access.forbidden", "This needs the role admin.", required="admin")
    return repository


def by_path(session: Session, path: str) -> Repository | None:
    """Return the repository at a path, however the path is spelled."""
    normal = normal_path(path)
    statement = select(Repository).where(or_(Repository.path == normal, Repository.identity == identity_of(normal)))
    found = list(session.scalars(statement.limit(3)))
    here = [repository for repository in found if repository.execution_target == "local"]
    if len(found) > 1 and not here:
        raise errors.path_ambiguous(path)
    return next(iter(here or found), None)


def by_engine_id(session: Session, engine_id: str) -> int | None:
    """Return the id of the repository that has this id in the engine."""
    return session.scalars(select(Repository.id).where(Repository.engine_id == engine_id).limit(1)).first()


def at_place(session: Session, identity: str) -> Repository | None:
    """Return the repository at a place, as named by `identity_of` or `identity_on_agent`."""
    return session.scalars(select(Repository).where(Repository.identity == identity)).first()


def paths_on_agent(session: Session, agent_machine_id: int | None) -> list[str]:
    """Return the paths of repositories on an agent's machine."""
    statement = select(Repository.path).where(
        Repository.agent_machine_id == agent_machine_id, Repository.path.startswith("/")
    )
    return list(session.scalars(statement.order_by(Repository.path)))


def paths_on_host(session: Session, host: str) -> list[str]:
    """Return the paths of repositories on a host reached by ssh, for all accounts."""
    addresses = map(ssh_address.parse, session.scalars(select(Repository.identity)))
    return sorted({address.path for address in addresses if address is not None and address.account.host == host})


def visible(session: Session, ids: frozenset[int] | None) -> list[Repository]:
    found = session.scalars(EVERY) if ids is None else session.scalars(THESE, {"ids": list(ids)})
    return list(found)


def require_unused(
    session: Session,
    *,
    path: str | None = None,
    place: str | None = None,
    name: str | None = None,
    but: int | None = None,
) -> None:
    """Raise Conflict if another repository has this path on this machine, this place or this name."""
    if path is not None:
        on_this_machine = Repository.path == path, Repository.execution_target == "local"
        found = session.scalars(select(Repository).where(*on_this_machine)).first()
        if found is not None and found.id != but:
            raise errors.path_taken()
    if place is not None and (found := at_place(session, place)) is not None and found.id != but:
        raise errors.path_taken()
    if name is not None:
        found = session.scalars(select(Repository).where(Repository.name == name)).first()
        if found is not None and found.id != but:
            raise Conflict("repository.name_taken", "A repository with this name already exists.")


def note_evidence(session: Session, repository_id: int, *parts: RepositoryPart, **values: Any) -> None:
    """Store what an operation has proven about a repository. `parts` names further parts that changed with it."""
    known = {name: value for name, value in values.items() if value is not None}
    changed = {*parts, *_changed_parts(session, repository_id, known)}
    if known:
        session.execute(update(Repository).where(Repository.id == repository_id).values(**known))
        if "unique_size" in known:
            measured_at = known.get("last_stats") or clock.now()
            size_records.note(session, repository_id, measured_at, known["total_size"], known["unique_size"])
    if known or changed:
        publish(session, repository_id, "evidence", *changed)


def _changed_parts(session: Session, repository_id: int, values: dict[str, Any]) -> set[RepositoryPart]:
    """Return the parts of a repository for which these values differ from the stored ones."""
    if not values:
        return set()
    columns = (getattr(Repository, name) for name in values)
    stored = session.execute(select(*columns).where(Repository.id == repository_id)).mappings().first()
    return {PART_OF.get(name, "evidence") for name in values if stored is None or stored[name] != values[name]}


def is_another(session: Session, repository_id: int, reported: str | None) -> bool:
    """Whether an id reported by an engine differs from the stored one."""
    known = get(session, repository_id)
    return bool(reported and known and known.engine_id and known.engine_id != reported)


def learn_engine_id(session: Session, repository_id: int, reported: str | None) -> None:
    """Store the id of a repository that has none yet. A stored one is changed only after an admin's confirmation."""
    if reported:
        unknown = update(Repository).where(Repository.id == repository_id, Repository.engine_id.is_(None))
        session.execute(unknown.values(engine_id=reported[:64]))


def publish(
    session: Session,
    repository_id: int,
    change: Literal["created", "changed", "evidence", "deleted"],
    *parts: RepositoryPart,
) -> None:
    """Notify clients that a repository has changed, and which of its parts (default: those of this kind of change)."""
    payload = {"id": repository_id, "change": change, "changed": sorted(parts or PARTS_BY_CHANGE[change])}
    outbox.publish(session, "repository.updated", payload, repository_id=repository_id)


def _sharing(repository: Repository) -> Sharing:
    if repository.rclone_remote_id is not None:
        # There, an engine aborts if another engine's lock disappears while it checks.
        return Sharing.NOTHING
    return Sharing.WRITERS if repository.engine_version in SHARED_WRITERS else Sharing.READERS


def subject(repository: Repository) -> Subject:
    """Return the subject of an operation. A repository on an agent is opened only by that agent."""
    executor = "agent" if repository.execution_target == "agent" else "runner"
    return Subject(
        repository.id,
        repository.name,
        repository.path,
        repository.agent_machine_id,
        executor,
        sharing=_sharing(repository),
    )


def names(session: Session, ids: Iterable[int]) -> dict[int, str]:
    statement = select(Repository.id, Repository.name).where(Repository.id.in_(list(ids)))
    return {row.id: row.name for row in session.execute(statement)}


def normal_path(path: str) -> str:
    return os.path.normpath(path) if path.startswith("/") else path


def identity_of(path: str) -> str:
    if path.startswith("/"):
        return os.path.realpath(path)
    address = ssh_address.parse(path)
    return address.text if address else path


def identity_on_agent(agent_machine_id: int, path: str) -> str:
    """Return the place of a repository that an agent opens: a path on its machine, or an address valid anywhere."""
    return f"agent:{agent_machine_id}:{normal_path(path)}" if path.startswith("/") else identity_of(path)
