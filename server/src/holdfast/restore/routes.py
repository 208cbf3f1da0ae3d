"""HTTP for restores to a machine."""

from typing import Annotated, Any

from fastapi import Depends

from holdfast.access.caller import Caller, LoginOnly, SignedIn, SignedInToRead
from holdfast.access.idempotency import Once
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, TheSettings, Writing
from holdfast.api.router import router
from holdfast.kit.fields import RowId
from holdfast.operations.cancel import cancel, waits_for_end
from holdfast.operations.job_status import page_of_jobs
from holdfast.operations.kinds import Kind, kind_named
from holdfast.operations.models import Operation
from holdfast.operations.routes import Cursor, PageLimit
from holdfast.operations.schemas import CancelAnswer, StartAnswer
from holdfast.operations.visible import require
from holdfast.repositories import jobs
from holdfast.repositories.own_places import ThePlaces
from holdfast.restore import start as starting
from holdfast.restore.present import statuses
from holdfast.restore.preview import PREVIEWS, Previews
from holdfast.restore.schemas import RestoreJobs, RestorePreview, RestoreRequest, RestoreStatus
from holdfast.restore.store import KIND
from holdfast.runner.engine_requests import asks_engine
from holdfast.storage.session import Database

routes = router("/api/restore", "restore")


TheKind = Annotated[Kind, Depends(kind_named(KIND))]
ThePreviews = Annotated[Previews, Depends(PREVIEWS)]


@routes.post("/start", summary="Start a restore", responses=documented(404, 409), response_model=StartAnswer)
def start_restore(
    caller: LoginOnly, wanted: RestoreRequest, session: Writing, kind: TheKind, once: Once, places: ThePlaces
) -> Any:
    """Queued behind exclusive work of the repository; never refused because it is busy. Never writes outside the
    destination, nor through a symbolic link that is already there."""

    def begin() -> StartAnswer:
        return jobs.started(starting.start(session, caller, kind, wanted, places), KIND)

    return once(session, begin)


@routes.post("/preview", summary="Preview a restore", responses=documented(404, 413, 423))
@asks_engine
def preview_restore(
    caller: SignedInToRead, wanted: RestoreRequest, database: TheDatabase, places: ThePlaces, previews: ThePreviews
) -> RestorePreview:
    """Runs the engine; writes nothing."""
    with database.reading() as session:
        checked = starting.check(session, caller, wanted, Role.VIEWER, places)
    return previews.preview(checked)


@routes.get("/jobs", summary="Restores, newest first")
def restore_jobs(
    caller: SignedIn,
    session: Reading,
    settings: TheSettings,
    repository_id: RowId | None = None,
    limit: PageLimit = 100,
    cursor: Cursor = None,
) -> RestoreJobs:
    operations, next_cursor = page_of_jobs(session, caller, KIND, repository_id, limit, cursor)
    return RestoreJobs(jobs=statuses(session, settings.logs_dir, operations, with_logs=False), next_cursor=next_cursor)


@routes.get("/status/{job_id}", summary="Status of a restore", responses=documented(404))
def restore_status(caller: SignedIn, job_id: RowId, session: Reading, settings: TheSettings) -> RestoreStatus:
    operation = require(session, caller, job_id, Role.VIEWER, KIND)
    return statuses(session, settings.logs_dir, [operation], with_logs=True)[0]


@routes.post("/cancel/{job_id}", summary="Cancel a restore", responses=documented(404, 409))
@waits_for_end
def cancel_restore(caller: LoginOnly, job_id: RowId, database: TheDatabase) -> CancelAnswer:
    """A pending restore is cancelled immediately; a running one when the engine has stopped.

    Files already in place stay.
    """
    return cancel(database, caller, _operation(database, caller, job_id))


def _operation(database: Database, caller: Caller, job_id: int) -> Operation:
    with database.reading() as session:
        return require(session, caller, job_id, Role.OPERATOR, KIND)
