"""Routes for wipes. Administrators only, with the token of a normal login."""

from typing import Annotated, Any

from fastapi import Body, Depends
from sqlalchemy.orm import Session

from holdfast.access import audit
from holdfast.access.caller import Caller, LoginOnly
from holdfast.access.idempotency import Once, OnceRunner
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import TheDatabase, TheSettings
from holdfast.api.router import router
from holdfast.errors import Conflict
from holdfast.kit.fields import RowId
from holdfast.maintenance.wipe import start as starting
from holdfast.maintenance.wipe import store
from holdfast.maintenance.wipe.models import WipePreview
from holdfast.maintenance.wipe.present import jobs, preview_answer, wipe_answer
from holdfast.maintenance.wipe.preview import PREVIEWS, Previews
from holdfast.maintenance.wipe.schemas import WipeJob, WipePreviewBody, WipeStartBody
from holdfast.maintenance.wipe.start import WipeStart
from holdfast.operations.kinds import Kind, kind_named
from holdfast.operations.models import Operation
from holdfast.operations.schemas import CancelAnswer
from holdfast.operations.visible_operations import require, unknown
from holdfast.repositories import store as repositories
from holdfast.repositories.job_routes import Find, JobRoutes
from holdfast.runner.engine_requests import asks_engine
from holdfast.storage.session import Database

routes = router("/api/repositories", "wipe")


TheKind = Annotated[Kind, Depends(kind_named("wipe"))]
ThePreviews = Annotated[Previews, Depends(PREVIEWS)]


class _FirstTime(Exception):
    """No earlier request has used this idempotency key."""


@routes.post("/{repository_id}/wipe-preview", summary="Preview a wipe", responses=documented(404, 409, 423))
@asks_engine
def preview_wipe(
    caller: LoginOnly,
    repository_id: RowId,
    previews: ThePreviews,
    database: TheDatabase,
    wanted: Annotated[WipePreviewBody | None, Body()] = None,
) -> WipeJob:
    """Reads the archives of the repository now. Nothing is removed."""
    with database.reading() as session:
        repository = repositories.require(session, caller, repository_id, Role.ADMIN)
    preview = previews.make(caller, repository, run_compact=(wanted or WipePreviewBody()).run_compact)
    with database.reading() as session:
        return preview_answer(session, repository, preview)


@routes.post(
    "/{repository_id}/wipe",
    summary="Wipe all archives of a repository",
    responses=documented(404, 409, 423),
    response_model=WipeJob,
)
@asks_engine
def start_wipe(
    caller: LoginOnly,
    repository_id: RowId,
    wanted: WipeStartBody,
    kind: TheKind,
    previews: ThePreviews,
    database: TheDatabase,
    settings: TheSettings,
    once: Once,
) -> Any:
    """The repository itself is kept. The archives are read again and must match the preview."""
    if (first_answer := _answered_before(database, once)) is not None:
        return first_answer
    WipeStart(database, previews).check_archives(caller, repository_id, wanted)
    with database.writing() as session:

        def start() -> WipeJob:
            operation = starting.enqueue(session, caller, kind, repository_id, wanted)
            return wipe_answer(session, settings.logs_dir, operation)

        return once(session, start)


def _answered_before(database: Database, once: OnceRunner) -> Any:
    """The stored answer to this idempotency key, looked up before the engine is called; None for a new key."""

    def first_time() -> WipeJob:
        raise _FirstTime

    try:
        with database.writing() as session:
            return once(session, first_time)
    except _FirstTime:
        return None


async def preview_or_wipe(repository_id: RowId, job_id: RowId) -> Find:
    def found(session: Session, caller: Caller, least: Role) -> WipePreview | Operation:
        repositories.require(session, caller, repository_id, least)
        if store.is_preview(job_id):
            return store.of_repository(session, repository_id, job_id)
        operation = require(session, caller, job_id, least, "wipe")
        if operation.repository_id != repository_id:
            raise unknown(job_id)
        return operation

    return found


def _cancel_preview(database: Database, caller: Caller, preview: WipePreview) -> CancelAnswer:
    with database.writing() as session:
        current = store.of_repository(session, preview.repository_id, preview.public_id)
        if not store.leave_previewed(session, current, "cancelled"):
            raise _already_over(current)
        audit.note(session, caller, "wipe.preview_cancelled", "repository", preview.repository_id)
    said = "The preview was cancelled."
    return CancelAnswer(id=preview.public_id, status="cancelled", cancel_requested=True, message=said)


def _already_over(preview: WipePreview) -> Conflict:
    sentence, key = "The preview has already been started or cancelled.", "operations.already_finished"
    return Conflict(key, sentence, status=preview.status, operation_id=preview.operation_id)


JOBS = JobRoutes(routes=routes, present=jobs, find=preview_or_wipe)
JOBS.status("/{repository_id}/wipe-jobs/{job_id}", WipeJob, name="read_wipe", summary="Get a preview or wipe")
JOBS.cancel(
    "/{repository_id}/wipe-jobs/{job_id}/cancel",
    name="cancel_wipe",
    summary="Cancel a preview or wipe",
    description="Archives already removed by a running wipe stay removed; its status lists them.",
    least=Role.ADMIN,
    others=_cancel_preview,
)
