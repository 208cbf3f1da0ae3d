"""Routes for manual backups. All of them require a login; account tokens are refused."""

from typing import Annotated, Any

from fastapi import Depends

from holdfast.access.caller import LoginOnly, login_only
from holdfast.access.idempotency import Once
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Writing
from holdfast.api.router import router
from holdfast.backup import start as starting
from holdfast.backup.present import statuses
from holdfast.backup.schemas import BackupJobs, BackupStart, BackupStatus
from holdfast.kit.fields import RowId
from holdfast.operations.kinds import Kind, kind_named
from holdfast.operations.present import ThePresenter
from holdfast.operations.retrying import queue_retry, retry_answer
from holdfast.operations.schemas import RetryAnswer
from holdfast.operations.visible_operations import require
from holdfast.repositories import jobs
from holdfast.repositories.job_routes import JobRoutes, starts

routes = router("/api/backup", "backup")


TheKind = Annotated[Kind, Depends(kind_named("backup"))]


@starts(routes, "/start", "Start a backup")
def start_backup(caller: LoginOnly, wanted: BackupStart, session: Writing, kind: TheKind, once: Once) -> Any:
    """Queued behind other work on the repository; never refused because the repository is busy."""
    return once(session, lambda: jobs.started(starting.start(session, caller, kind, wanted), "backup"))


@starts(routes, "/run", "Start a backup (alias of start)")
def run_backup(caller: LoginOnly, wanted: BackupStart, session: Writing, kind: TheKind, once: Once) -> Any:
    return once(session, lambda: jobs.started(starting.start(session, caller, kind, wanted), "backup"))


JOBS = JobRoutes(routes=routes, kind="backup", present=statuses, readers=login_only)
JOBS.status("/status/{job_id}", BackupStatus, name="backup_status", summary="Get the status of a backup")
JOBS.page("/jobs", BackupJobs, name="backup_jobs", summary="Backups, newest first")


@routes.post(
    "/jobs/{job_id}/retry",
    summary="Retry a backup that did not succeed",
    responses=documented(404, 409),
    response_model=RetryAnswer,
)
def retry_backup(caller: LoginOnly, job_id: RowId, session: Writing, presenter: ThePresenter, once: Once) -> Any:
    def again() -> RetryAnswer:
        failed = require(session, caller, job_id, Role.OPERATOR, "backup")
        return retry_answer(queue_retry(session, caller, presenter.registry, failed), presenter.registry)

    return once(session, again)


JOBS.log(
    "/logs/{job_id}/stream",
    name="stream_logs",
    summary="Get log lines",
    description="Poll with the last `total_lines` as `offset` to get every line once.",
)


JOBS.log_file("/logs/{job_id}/download", name="download_logs", summary="Download the log of a finished backup")
JOBS.cancel(
    "/cancel/{job_id}",
    name="cancel_backup",
    summary="Cancel a backup",
    description="A pending backup is cancelled immediately, a running one once the engine has stopped.",
)
