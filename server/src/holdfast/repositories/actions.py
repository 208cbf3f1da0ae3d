"""Which actions on a repository and its archives the caller may take now, and why the others are refused."""

from collections.abc import Iterable, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import permissions
from holdfast.access.caller import Caller
from holdfast.access.models import RepositoryRight
from holdfast.access.permissions import Action
from holdfast.access.roles import Role
from holdfast.errors import Conflict
from holdfast.repositories import agent_target, archive_records
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository

OBSERVE_ONLY = "repository.observe_only"


@frozen
class RepositoryAction(Action):
    is_job: bool = False
    """Whether it waits for the repository's setup and, if an agent opens the repository, needs one that takes work."""
    changes_repository: bool = False
    """Whether the action is refused if the repository is in observe mode."""


def _job(name: str, route: str, *, changes_repository: bool = False, least: Role = Role.OPERATOR) -> RepositoryAction:
    return RepositoryAction(name, route, least, needs_login=True, is_job=True, changes_repository=changes_repository)


OF_A_REPOSITORY = (
    _job("backup", "POST /api/backup/start", changes_repository=True),
    _job("restore", "POST /api/restore/start"),
    _job("check", "POST /api/repositories/{repository_id}/check"),
    _job("restore_check", "POST /api/repositories/{repository_id}/restore-check"),
    _job("prune", "POST /api/repositories/{repository_id}/prune", changes_repository=True),
    _job("compact", "POST /api/repositories/{repository_id}/compact", changes_repository=True),
    _job("delete_archive", "DELETE /api/archives/{archive_id}", changes_repository=True),
    _job("wipe", "POST /api/repositories/{repository_id}/wipe", changes_repository=True, least=Role.ADMIN),
    RepositoryAction(
        "protect", "PUT /api/repositories/{repository_id}/archives/{archive_id}", Role.OPERATOR, needs_login=True
    ),
    RepositoryAction("resync", "POST /api/repositories/{repository_id}/resync", Role.OPERATOR, needs_login=True),
    RepositoryAction("rebuild", "POST /api/repositories/{repository_id}/rebuild", Role.OPERATOR, needs_login=True),
    RepositoryAction(
        "break_lock", "POST /api/repositories/{repository_id}/break-lock", Role.OPERATOR, needs_login=True
    ),
    RepositoryAction("export_key", "GET /api/repositories/{repository_id}/key", Role.ADMIN, needs_login=True),
    RepositoryAction("change", "PUT /api/repositories/{repository_id}", Role.ADMIN),
    RepositoryAction("forget", "DELETE /api/repositories/{repository_id}", Role.ADMIN),
)
OF_AN_ARCHIVE = ("restore", "restore_check", "delete_archive", "protect")
READS_THE_ARCHIVE = ("download", "restore", "restore_check", "protect")
"""Actions that are refused for an archive of which only the record is left."""


@frozen
class Allowed:
    role: Role
    actions: list[str]
    refusals: dict[str, str]


def on_repository(session: Session, caller: Caller, repository: Repository) -> Allowed:
    return on_repositories(session, caller, [repository])[repository.id]


def on_repositories(session: Session, caller: Caller, repositories: Sequence[Repository]) -> dict[int, Allowed]:
    """Return the allowed actions for repositories that the caller may see."""
    roles = _roles(session, caller, repositories)
    return {
        repository.id: _allowed(session, caller, repository, roles.get(repository.id, Role.VIEWER))
        for repository in repositories
    }


def on_archive(session: Session, caller: Caller, repository: Repository, archive: Archive) -> Allowed:
    whole = on_repository(session, caller, repository)
    refused = {name: whole.refusals[name] for name in OF_AN_ARCHIVE if name in whole.refusals}
    names = ("download", *OF_AN_ARCHIVE)
    try:
        archive_records.require_present(archive)
    except Conflict as error:
        refused = {**dict.fromkeys(READS_THE_ARCHIVE, error.key), **refused}
    if archive.protected_at is not None:
        refused.setdefault("delete_archive", "archives.protected")
    return Allowed(whole.role, [name for name in names if name not in refused], refused)


def _allowed(session: Session, caller: Caller, repository: Repository, role: Role) -> Allowed:
    refused = permissions.refusals(OF_A_REPOSITORY, caller, role)
    left = [action for action in OF_A_REPOSITORY if action.name not in refused]
    refused.update(_refused_by_state(session, repository, left))
    return Allowed(role, [action.name for action in OF_A_REPOSITORY if action.name not in refused], refused)


def _refused_by_state(session: Session, repository: Repository, left: Iterable[RepositoryAction]) -> dict[str, str]:
    """Return the actions that the repository's own state forbids to any caller, in the order in which routes check."""
    jobs = [action for action in left if action.is_job]
    refused: dict[str, str] = {}
    if jobs and repository.execution_target == "agent":
        try:
            agent_target.awaited_setup(session, repository)
        except Conflict as error:
            refused = dict.fromkeys((action.name for action in jobs), error.key)
    if repository.mode == "observe":
        refused.update((action.name, OBSERVE_ONLY) for action in jobs if action.changes_repository)
    return refused


def _roles(session: Session, caller: Caller, repositories: Sequence[Repository]) -> dict[int, Role]:
    """Like `rights.repository_role`, for many repositories."""
    if caller.role is Role.ADMIN:
        return {repository.id: Role.ADMIN for repository in repositories}
    statement = select(RepositoryRight.repository_id, RepositoryRight.role)
    given = {
        row.repository_id: row.role
        for row in session.execute(statement.where(RepositoryRight.user_id == caller.user_id))
    }
    roles = {}
    for repository in repositories:
        held = [role for role in (caller.all_repositories_role, given.get(repository.id)) if role is not None]
        if held:
            roles[repository.id] = min(max(held), caller.role)
    return roles
