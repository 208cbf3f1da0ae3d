"""Callers' rights on repositories."""

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from holdfast.access.caller import Caller, forbidden
from holdfast.access.models import RepositoryRight
from holdfast.access.roles import Role
from holdfast.errors import NotFound

GIVEN_ROLE = select(RepositoryRight.role).where(
    RepositoryRight.user_id == bindparam("user_id"), RepositoryRight.repository_id == bindparam("repository_id")
)
GIVEN_REPOSITORIES = select(RepositoryRight.repository_id).where(RepositoryRight.user_id == bindparam("user_id"))


def sees_all(caller: Caller) -> bool:
    return caller.role is Role.ADMIN or caller.all_repositories_role is not None


def visible_repositories(session: Session, caller: Caller) -> frozenset[int] | None:
    """Ids of the repositories that the caller may see; None means all of them."""
    if sees_all(caller):
        return None
    return frozenset(session.connection().execute(GIVEN_REPOSITORIES, {"user_id": caller.user_id}).scalars())


def repository_role(session: Session, caller: Caller, repository_id: int) -> Role | None:
    """The caller's role on a repository, never above their global one; None if they may not see it."""
    if caller.role is Role.ADMIN:
        return Role.ADMIN
    key = {"user_id": caller.user_id, "repository_id": repository_id}
    given = session.connection().execute(GIVEN_ROLE, key).scalar_one_or_none()
    return effective_role(caller.role, caller.all_repositories_role, given)


def effective_role(role: Role, all_repositories_role: Role | None, given: Role | None) -> Role | None:
    """The role on a repository, given the global role, the right on all repositories, and the right on this one."""
    if role is Role.ADMIN:
        return Role.ADMIN
    roles = [one for one in (all_repositories_role, given) if one is not None]
    return min(max(roles), role) if roles else None


def require_repository(session: Session, caller: Caller, repository_id: int, required: Role) -> None:
    """Raise NotFound if the caller may not see the repository, Forbidden if they may but their role is too low."""
    role = repository_role(session, caller, repository_id)
    if role is None:
        raise repository_not_found(repository_id)
    if role < required:
        raise forbidden(required)


def repository_not_found(repository_id: int) -> NotFound:
    return NotFound("repository.not_found", "Repository not found.", repository_id=repository_id)
