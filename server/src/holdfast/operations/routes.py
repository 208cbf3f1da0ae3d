"""HTTP for operations."""

from typing import Annotated, Any

from fastapi import Depends, Query
from fastapi.responses import FileResponse

from holdfast.access import audit, rights
from holdfast.access.caller import AdminOnly, LoginOnly, SignedIn
from holdfast.access.idempotency import Once
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, TheSettings, Writing
from holdfast.api.filters import Many, many
from holdfast.api.prepared import cached_until_commit
from holdfast.api.router import router
from holdfast.errors import Unprocessable
from holdfast.kit import clock
from holdfast.kit.fields import PageLimit, PlainText, RowId
from holdfast.operations import actions, outbox, pages
from holdfast.operations import limits as kernel_limits
from holdfast.operations.cancel import cancel, waits_for_end
from holdfast.operations.derived import DERIVED_DATA, DerivedDataSource
from holdfast.operations.filters import require_known
from holdfast.operations.limits import Limits, LimitsChange
from holdfast.operations.list_conditions import TheListConditions, visible_part
from holdfast.operations.log_answers import (
    FindText,
    LineLimit,
    Offset,
    Tail,
    log_download,
    log_end,
    log_match,
    log_page,
)
from holdfast.operations.present import ThePresenter
from holdfast.operations.queue_view import read_queue
from holdfast.operations.retrying import queue_retry, retry_answer
from holdfast.operations.schemas import (
    CancelAnswer,
    DerivedDataList,
    OperationDetail,
    OperationLog,
    OperationPage,
    Paused,
    Queue,
    Reconciled,
    RetryAnswer,
    TroubledArchives,
)
from holdfast.operations.status import Status
from holdfast.operations.visible_operations import require

routes = router("/api/operations", "operations")


TheDerivedData = Annotated[DerivedDataSource, Depends(DERIVED_DATA)]
Cursor = Annotated[Annotated[str, PlainText(1, 400)] | None, Query(description="`next_cursor` of the previous page.")]


@routes.get("/", summary="Operations, newest first")
@cached_until_commit(viewer="caller")
def list_operations(
    caller: SignedIn,
    session: Reading,
    presenter: ThePresenter,
    category: Annotated[Many, Depends(many("category"))],
    kind: Annotated[Many, Depends(many("kind"))],
    status: Annotated[Many, Depends(many("status"))],
    trigger: Annotated[Many, Depends(many("trigger"))],
    conditions: TheListConditions,
    repository_id: RowId | None = None,
    run_id: Annotated[str, PlainText(1, 64)] | None = None,
    limit: PageLimit = 100,
    cursor: Cursor = None,
) -> OperationPage:
    """Only operations of repositories that you may see. The cursor stays valid while new operations arrive."""
    require_known(presenter.registry, category=category, kind=kind, status=status, trigger=trigger)
    wanted = pages.Filter(categories=category, kinds=kind, statuses=status, triggers=trigger, run_id=run_id)
    narrowed = visible_part(session, caller, repository_id, conditions, wanted)
    if narrowed is None:
        return OperationPage(items=[], next_cursor=None, total=0)
    operations, next_cursor = pages.page(session, narrowed, limit, cursor)
    kept = [operation for operation in operations if operation.executor != "inline"]  # gone when their request ends
    total = pages.total(session, narrowed)
    return OperationPage(items=presenter.items(session, kept), next_cursor=next_cursor, total=total)


@routes.get("/queue", summary="List running and waiting operations, and why they wait")
def queue(caller: SignedIn, session: Reading, presenter: ThePresenter) -> Queue:
    return read_queue(session, caller, presenter)


@routes.get("/repositories", summary="Get the state of each repository's derived data")
def derived_data(caller: SignedIn, session: Reading, source: TheDerivedData, settings: TheSettings) -> DerivedDataList:
    visible = rights.visible_repositories(session, caller)
    rows, totals = source.rows(session, visible)
    return DerivedDataList(
        repositories=rows,
        totals=totals,
        last_reconcile_at=kernel_limits.get(session, "last_reconcile_at"),
        reconcile_interval_minutes=settings.reconcile_minutes,
    )


@routes.get(
    "/repositories/{repository_id}",
    summary="List archives whose index failed or is incomplete",
    responses=documented(404),
)
def troubled_archives(
    caller: SignedIn, repository_id: RowId, session: Reading, source: TheDerivedData
) -> TroubledArchives:
    if not pages.repository_exists(session, repository_id):
        raise rights.repository_not_found(repository_id)
    rights.require_repository(session, caller, repository_id, Role.VIEWER)
    return source.troubled(session, repository_id)


@routes.post("/reconcile", summary="Run the reconcile tick now")
def reconcile(caller: AdminOnly, session: Writing, source: TheDerivedData) -> Reconciled:
    audit.record(session, actor=caller, action="operations.reconcile")
    repositories, enqueued = source.reconcile(session, at_once=True)
    kernel_limits.put(session, "last_reconcile_at", clock.now().isoformat())
    return Reconciled(repositories=repositories, enqueued=enqueued)


@routes.post("/pause", summary="Pause follow-up and reconcile work")
def pause(caller: AdminOnly, session: Writing) -> Paused:
    return _set_paused(session, caller, paused=True)


@routes.post("/resume", summary="Resume follow-up and reconcile work")
def resume(caller: AdminOnly, session: Writing) -> Paused:
    return _set_paused(session, caller, paused=False)


@routes.put("/limits", summary="Update the concurrency limits")
def change_limits(caller: AdminOnly, wanted: LimitsChange, session: Writing) -> Limits:
    """Changes the given limits immediately, without a restart."""
    limits = kernel_limits.change(session, wanted)
    audit.record(session, actor=caller, action="operations.limits", details=limits.model_dump())
    _publish_settings(session)
    return limits


@routes.get("/{operation_id}", summary="One operation", responses=documented(404))
def read_operation(caller: SignedIn, operation_id: RowId, session: Reading, presenter: ThePresenter) -> OperationDetail:
    operation = require(session, caller, operation_id, Role.VIEWER)
    kind = presenter.registry.kinds.get(operation.kind)
    visible = rights.visible_repositories(session, caller)
    run = [
        member
        for member in pages.of_run(session, operation.run_id)
        if caller.role is Role.ADMIN or (member.repository_id and (visible is None or member.repository_id in visible))
    ]
    items = presenter.items(session, [operation, *run])
    values = items[0].model_dump()
    values["followups"] = [item for item in items[1:] if item.parent_id == operation.id]
    allowed, refused = actions.on_operation(
        session, caller, operation, can_repeat=kind is not None and kind.retry is not None
    )
    return OperationDetail(
        **values,
        run=items[1:],
        detail=kind.present(operation) if kind else {},
        actions=allowed,
        refusals=refused,
        progress_details=(operation.progress or {}) if operation.status == Status.RUNNING else {},
    )


@routes.post("/{operation_id}/cancel", summary="Cancel an operation", responses=documented(404, 409))
@waits_for_end
def cancel_operation(caller: LoginOnly, operation_id: RowId, database: TheDatabase) -> CancelAnswer:
    """A pending operation is cancelled immediately; a running one when its engine has stopped."""
    with database.reading() as session:
        operation = require(session, caller, operation_id, Role.OPERATOR)
    return cancel(database, caller, operation)


@routes.post(
    "/{operation_id}/retry",
    summary="Retry an operation that did not succeed",
    responses=documented(404, 409),
    response_model=RetryAnswer,
)
def retry_operation(
    caller: LoginOnly, operation_id: RowId, session: Writing, presenter: ThePresenter, once: Once
) -> Any:
    """Queues the same work with the same parameters, by the rules of a new start. Backups, restores, maintenance,
    mirror work and package installs can be retried; a wipe or a script needs a new start.
    """

    def again() -> RetryAnswer:
        failed = require(session, caller, operation_id, Role.OPERATOR)
        return retry_answer(queue_retry(session, caller, presenter.registry, failed), presenter.registry)

    return once(session, again)


@routes.get("/{operation_id}/logs", summary="Get log lines of an operation", responses=documented(404))
def operation_logs(
    caller: SignedIn,
    operation_id: RowId,
    session: Reading,
    settings: TheSettings,
    offset: Offset = 0,
    limit: LineLimit = 500,
    tail: Tail = None,
    find: FindText = None,
) -> OperationLog:
    operation = require(session, caller, operation_id, Role.VIEWER)
    if tail is not None and (find is not None or offset):
        raise Unprocessable("logs.contradiction", "Use either tail alone, or offset, optionally with find.")
    if tail is not None:
        return log_end(settings.logs_dir, operation, tail)
    if find is not None:
        return log_match(settings.logs_dir, operation, find, offset, limit)
    return OperationLog(**log_page(settings.logs_dir, operation, offset, limit).model_dump())


@routes.get(
    "/{operation_id}/logs/download",
    summary="Download the log of a finished operation",
    response_class=FileResponse,
    responses={**documented(404, 409), 200: {"content": {"text/plain": {}}, "description": "The log."}},
)
def download_logs(caller: SignedIn, operation_id: RowId, session: Reading, settings: TheSettings) -> FileResponse:
    operation = require(session, caller, operation_id, Role.VIEWER)
    return log_download(settings.logs_dir, operation)


def _set_paused(session: Writing, caller: AdminOnly, *, paused: bool) -> Paused:
    kernel_limits.put(session, "paused", paused)
    audit.record(session, actor=caller, action="operations.pause" if paused else "operations.resume")
    _publish_settings(session)
    return Paused(paused=paused)


def _publish_settings(session: Writing) -> None:
    outbox.publish(session, "queue.updated", {"repository_id": None, "change": "settings"}, repository_id=None)
