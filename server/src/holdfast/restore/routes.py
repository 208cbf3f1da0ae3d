"""HTTP for restores to a machine."""

from typing import Annotated, Any

from fastapi import Depends

from holdfast.access.caller import LoginOnly, SignedInToRead
from holdfast.access.idempotency import Once
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import TheDatabase, Writing
from holdfast.api.router import router
from holdfast.operations.kinds import Kind, kind_named
from holdfast.operations.schemas import StartAnswer
from holdfast.repositories import jobs
from holdfast.repositories.job_routes import JobRoutes, starts
from holdfast.repositories.own_places import ThePlaces
from holdfast.restore import start as starting
from holdfast.restore.present import statuses
from holdfast.restore.preview import PREVIEWS, Previews
from holdfast.restore.schemas import RestoreJobs, RestorePreview, RestoreRequest, RestoreStatus
from holdfast.restore.store import KIND
from holdfast.runner.engine_requests import asks_engine

routes = router("/api/restore", "restore")


TheKind = Annotated[Kind, Depends(kind_named(KIND))]
ThePreviews = Annotated[Previews, Depends(PREVIEWS)]


@starts(routes, "/start", "Start a restore")
def start_restore(
    caller: LoginOnly, wanted: RestoreRequest, session: Writing, kind: TheKind, once: Once, places: ThePlaces
) -> Any:
    """The restore waits for exclusive work on the repository, and is never refused because the repository is busy. It
    never writes outside the destination, nor through a symbolic link that already exists there.
    """

    def begin() -> StartAnswer:
        return jobs.started(starting.start(session, caller, kind, wanted, places), KIND)

    return once(session, begin)


@routes.post("/preview", summary="Preview a restore", responses=documented(404, 413, 423))
@asks_engine
def preview_restore(
    caller: SignedInToRead, wanted: RestoreRequest, database: TheDatabase, places: ThePlaces, previews: ThePreviews
) -> RestorePreview:
    """Runs the engine, but writes nothing."""
    with database.reading() as session:
        checked = starting.check(session, caller, wanted, Role.VIEWER, places)
    return previews.preview(checked)


JOBS = JobRoutes(routes=routes, kind=KIND, present=statuses)
JOBS.page("/jobs", RestoreJobs, name="restore_jobs", summary="Restores, newest first")
JOBS.status("/status/{job_id}", RestoreStatus, name="restore_status", summary="Get the status of a restore")
JOBS.cancel(
    "/cancel/{job_id}",
    name="cancel_restore",
    summary="Cancel a restore",
    description="A pending restore is cancelled immediately; a running one when the engine has stopped.\n\n"
    "Files already in place stay.",
)
