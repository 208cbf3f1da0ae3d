"""HTTP for manual backups. All of it needs the token of a normal login."""

from typing import Annotated, Any

from fastapi import Depends
from fastapi.responses import FileResponse

from holdfast.access.caller import Caller, LoginOnly
from holdfast.access.idempotency import Once
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, TheSettings, Writing
from holdfast.api.router import router
from holdfast.backup import start as starting
from holdfast.backup.present import statuses
from holdfast.backup.schemas import BackupJobs, BackupStart, BackupStatus
from holdfast.kit.fields import RowId
from holdfast.operations.again import start_again, started_again
from holdfast.operations.cancel import cancel, waits_for_end
from holdfast.operations.job_status import page_of_jobs
from holdfast.operations.kinds import Kind, kind_named
from holdfast.operations.log_answers import LineLimit, Offset, log_download, log_page
from holdfast.operations.models import Operation
from holdfast.operations.routes import Cursor, PageLimit, ThePresenter
from holdfast.operations.schemas import CancelAnswer, LogAnswer, RetryAnswer, StartAnswer
from holdfast.operations.visible import require
from holdfast.repositories import jobs
from holdfast.storage.session import Database

routes = router("/api/backup", "backup")


TheKind = Annotated[Kind, Depends(kind_named("backup"))]
STARTS = documented(404, 409)


@routes.post("/start", summary="Start a backup", responses=STARTS, response_model=StartAnswer)
def start_backup(caller: LoginOnly, wanted: BackupStart, session: Writing, kind: TheKind, once: Once) -> Any:
    """Queued behind other work of the repository; never refused because it is busy."""
    return once(session, lambda: jobs.started(starting.start(session, caller, kind, wanted), "backup"))


@routes.post("/run", summary="Start a backup (alias of start)", responses=STARTS, response_model=StartAnswer)
def run_backup(caller: LoginOnly, wanted: BackupStart, session: Writing, kind: TheKind, once: Once) -> Any:
    return once(session, lambda: jobs.started(starting.start(session, caller, kind, wanted), "backup"))


@routes.get("/status/{job_id}", summary="Status of a backup", responses=documented(404))
def backup_status(caller: LoginOnly, job_id: RowId, session: Reading, settings: TheSettings) -> BackupStatus:
    operation = require(session, caller, job_id, Role.VIEWER, "backup")
    return statuses(session, settings.logs_dir, [operation], with_logs=True)[0]


@routes.get("/jobs", summary="Backups, newest first")
def backup_jobs(
    caller: LoginOnly,
    session: Reading,
    settings: TheSettings,
    repository_id: RowId | None = None,
    limit: PageLimit = 100,
    cursor: Cursor = None,
) -> BackupJobs:
    operations, next_cursor = page_of_jobs(session, caller, "backup", repository_id, limit, cursor)
    return BackupJobs(jobs=statuses(session, settings.logs_dir, operations, with_logs=False), next_cursor=next_cursor)


@routes.post(
    "/jobs/{job_id}/retry",
    summary="Start a backup again that did not succeed",
    responses=STARTS,
    response_model=RetryAnswer,
)
def retry_backup(caller: LoginOnly, job_id: RowId, session: Writing, presenter: ThePresenter, once: Once) -> Any:
    def again() -> RetryAnswer:
        failed = require(session, caller, job_id, Role.OPERATOR, "backup")
        return started_again(start_again(session, caller, presenter.registry, failed), presenter.registry)

    return once(session, again)


@routes.get("/logs/{job_id}/stream", summary="Log lines from an offset", responses=documented(404))
def stream_logs(
    caller: LoginOnly,
    job_id: RowId,
    session: Reading,
    settings: TheSettings,
    offset: Offset = 0,
    limit: LineLimit = 500,
) -> LogAnswer:
    """Poll with the last `total_lines` as `offset`: every line comes once."""
    operation = require(session, caller, job_id, Role.VIEWER, "backup")
    return log_page(settings.logs_dir, operation, offset, limit)


@routes.get(
    "/logs/{job_id}/download",
    summary="The log of a finished backup as a file",
    response_class=FileResponse,
    responses={**documented(404, 409), 200: {"content": {"text/plain": {}}, "description": "The log."}},
)
def download_logs(caller: LoginOnly, job_id: RowId, session: Reading, settings: TheSettings) -> FileResponse:
    operation = require(session, caller, job_id, Role.VIEWER, "backup")
    return log_download(settings.logs_dir, operation)


@routes.post("/cancel/{job_id}", summary="Cancel a backup", responses=documented(404, 409))
@waits_for_end
def cancel_backup(caller: LoginOnly, job_id: RowId, database: TheDatabase) -> CancelAnswer:
    """A pending one is cancelled at once; a running one when the engine has really stopped."""
    return cancel(database, caller, _operation(database, caller, job_id))


def _operation(database: Database, caller: Caller, job_id: int) -> Operation:
    with database.reading() as session:
        return require(session, caller, job_id, Role.OPERATOR, "backup")
