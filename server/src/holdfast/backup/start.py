"""Start a backup."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from backup_engine.own_places import is_really_within, is_within
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.backup.archive_name import archive_name
from holdfast.backup.schemas import BackupParams, BackupStart
from holdfast.errors import Conflict, Forbidden, Unprocessable
from holdfast.kit import clock
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin
from holdfast.operations.retrying import origin_of
from holdfast.operations.status import Trigger
from holdfast.repositories import errors, jobs, store
from holdfast.repositories.models import Repository

SOURCES_NOT_ALLOWED = (
    "Only an admin may back up paths outside the repository's sources. Omit source_paths, or choose paths below them."
)


def start(session: Session, caller: Caller, kind: Kind, wanted: BackupStart) -> Operation:
    """Queue a backup of a registered repository. Raise NotFound, Forbidden, Conflict or Unprocessable."""
    repository = store.by_path(session, wanted.repository)
    if repository is None:
        raise errors.not_registered(wanted.repository)
    try:
        store.require(session, caller, repository.id, Role.OPERATOR)
    except type(errors.unknown(0)) as error:
        raise errors.not_registered(wanted.repository) from error
    params = BackupParams(
        source_paths=wanted.source_paths, archive_name=wanted.archive_name, comment=wanted.comment or None
    )
    return enqueue(session, caller, kind, repository, params, Origin(Trigger.MANUAL, caller.user_id, caller.username))


def retry(session: Session, caller: Caller, kind: Kind, failed: Operation) -> Operation:
    repository = store.require(session, caller, failed.repository_id or 0, Role.OPERATOR)
    params = BackupParams.model_validate(failed.params)
    return enqueue(session, caller, kind, repository, params, origin_of(caller, failed))


def enqueue(
    session: Session, caller: Caller, kind: Kind, repository: Repository, params: BackupParams, origin: Origin
) -> Operation:
    _check(repository, params)
    if caller.role is not Role.ADMIN:
        params = _within_sources(repository, params)
    return jobs.start(session, caller, kind, repository, params, origin=origin)


def _within_sources(repository: Repository, params: BackupParams) -> BackupParams:
    """Restrict a user who is not an admin to the repository's own sources and paths below them.

    Raise Forbidden for other paths.
    """
    if params.source_paths is None:
        return params
    if outside := sources_outside(repository, params.source_paths):
        raise Forbidden("backup.sources_not_allowed", SOURCES_NOT_ALLOWED, sources=outside[:10])
    return params.model_copy(update={"within_sources": True})


def sources_outside(repository: Repository, paths: Sequence[str]) -> list[str]:
    """The paths outside the repository's sources. Links are resolved if the engine runs on this machine."""
    within = is_really_within if repository.execution_target == "local" else is_within
    return [path for path in paths if not within(path, repository.source_paths)]


def _check(repository: Repository, params: BackupParams) -> None:
    """Raise for problems that are known now. The operation itself reports what only the engine can find."""
    if repository.mode == "observe":
        raise Conflict("repository.observe_only", "The repository is in observe mode, which allows no backups.")
    sources = params.source_paths if params.source_paths is not None else repository.source_paths
    if not sources:
        raise Unprocessable("backup.no_sources", "The repository has no source paths; add some first.")
    if any(not source.startswith("/") for source in sources):
        raise Unprocessable("repository.source_not_absolute", "Source paths must be absolute.")
    archive_name(params.archive_name or repository.archive_name_template, repository=repository.name, now=clock.now())
