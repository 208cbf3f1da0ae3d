"""Routes for data derived from a repository: list the archives again, rebuild the index."""

from sqlalchemy.orm import Session

from backup_protocol import JobKind
from holdfast.access import audit
from holdfast.access.caller import LoginOnly
from holdfast.access.plans import require_feature
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import TheSettings, Writing
from holdfast.api.router import router
from holdfast.archives import history_stage
from holdfast.archives.archive_index import ArchiveIndex
from holdfast.archives.route_parameters import TheIndex
from holdfast.archives.schemas import RebuildFrom, StagesQueued
from holdfast.archives.stages import REBUILD, RESYNC, Stage, can_be_listed
from holdfast.kit.fields import RowId
from holdfast.operations.queue import Origin, require_room
from holdfast.operations.status import Trigger
from holdfast.repositories import errors, store
from holdfast.repositories.models import Repository

routes = router("/api/repositories/{repository_id}", "archives")


@routes.post("/rebuild", summary="Derive data again", responses=documented(404))
def rebuild(
    caller: LoginOnly,
    repository_id: RowId,
    wanted: RebuildFrom,
    session: Writing,
    settings: TheSettings,
    index: TheIndex,
) -> StagesQueued:
    """Runs once in any index mode; file history is never built for a mode that excludes it."""
    repository = store.require(session, caller, repository_id, Role.OPERATOR)
    if wanted.from_ == "history":
        require_feature(settings, "archive_history")
        if repository.index_mode == "full":
            history_stage.forget_index(session, repository_id)
    return _queue(session, caller, index, repository, REBUILD[wanted.from_], f"archives.rebuild_{wanted.from_}")


@routes.post("/resync", summary="Synchronize the stored archive list with the repository", responses=documented(404))
def resync(caller: LoginOnly, repository_id: RowId, session: Writing, index: TheIndex) -> StagesQueued:
    repository = store.require(session, caller, repository_id, Role.OPERATOR)
    return _queue(session, caller, index, repository, RESYNC, "archives.resync")


def _queue(
    session: Session,
    caller: LoginOnly,
    index: ArchiveIndex,
    repository: Repository,
    stages: tuple[Stage, ...],
    action: str,
) -> StagesQueued:
    if not can_be_listed(session, repository):
        raise errors.agent_unable(repository.agent_machine_id, JobKind.ARCHIVES_LIST)
    require_room(session, repository.id)
    origin = Origin(Trigger.MANUAL, caller.user_id, caller.username)
    queued = index.stages.enqueue(session, repository, stages, origin)
    audit.record(session, actor=caller, action=action, object_type="repository", object_id=repository.id)
    return StagesQueued(
        run_id=queued[0].run_id if queued else "",
        operations=[operation.id for operation in queued],
        index_mode=repository.index_mode,
        repeats=index.stages.repeats(stages, repository.index_mode),
    )
