"""All statements on repositories."""

import os
from collections.abc import Iterable
from typing import Any, Literal

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.operations import outbox
from holdfast.operations.store import Subject
from holdfast.repositories import errors
from holdfast.repositories.models import Repository


def get(session: Session, repository_id: int) -> Repository | None:
    return session.get(Repository, repository_id) if 0 < repository_id < 2**63 else None


def require(session: Session, caller: Caller, repository_id: int, role: Role) -> Repository:
    """The repository, if the caller may see it and has the role. Raise NotFound or Forbidden."""
    repository = get(session, repository_id)
    if repository is None:
        raise errors.unknown(repository_id)
    rights.require_repository(session, caller, repository_id, role)
    return repository


def by_path(session: Session, path: str) -> Repository | None:
    """The repository of a path, however the path is spelled."""
    normal = normal_path(path)
    statement = select(Repository).where(or_(Repository.path == normal, Repository.identity == identity_of(normal)))
    return session.scalars(statement).first()


def visible(session: Session, ids: frozenset[int] | None) -> list[Repository]:
    statement = select(Repository).order_by(Repository.name, Repository.id)
    if ids is not None:
        statement = statement.where(Repository.id.in_(ids))
    return list(session.scalars(statement))


def taken(session: Session, *, path: str | None = None, name: str | None = None, but: int | None = None) -> None:
    """Raise Conflict if another repository has this path or name."""
    if path is not None and (found := by_path(session, path)) is not None and found.id != but:
        raise errors.path_taken()
    if name is not None:
        found = session.scalars(select(Repository).where(Repository.name == name)).first()
        if found is not None and found.id != but:
            raise errors.name_taken()


def note_evidence(session: Session, repository_id: int, **values: Any) -> None:
    """Store what an operation has proven about a repository."""
    known = {name: value for name, value in values.items() if value is not None}
    if known:
        session.execute(update(Repository).where(Repository.id == repository_id).values(**known))
        tell(session, repository_id, "evidence")


def tell(session: Session, repository_id: int, change: Literal["created", "changed", "evidence", "deleted"]) -> None:
    """Let those who watch the repository know that its answer is another one now."""
    payload = {"id": repository_id, "change": change}
    outbox.tell(session, "repository.updated", payload, repository_id=repository_id)


def subject(repository: Repository) -> Subject:
    return Subject(repository.id, repository.name, repository.path, repository.agent_machine_id)


def names(session: Session, ids: Iterable[int]) -> dict[int, str]:
    statement = select(Repository.id, Repository.name).where(Repository.id.in_(list(ids)))
    return {row.id: row.name for row in session.execute(statement)}


def normal_path(path: str) -> str:
    return os.path.normpath(path) if path.startswith("/") else path


def identity_of(path: str) -> str:
    return os.path.realpath(path) if path.startswith("/") else path
