"""Routes for the activity history: the operations that users can see."""

from typing import Annotated

from fastapi import Depends, Query, Response
from fastapi.responses import FileResponse
from sqlalchemy.orm import Session

from holdfast.access import audit, rights
from holdfast.access.caller import Caller, SignedIn, forbidden
from holdfast.access.plans import has_feature
from holdfast.access.roles import Role
from holdfast.activity.kind_labels import all_words, kinds_of
from holdfast.activity.overview import read_overview
from holdfast.activity.schemas import Overview
from holdfast.agents.caller import TheGateway
from holdfast.agents.machine_list import every_machine
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheSettings, Writing
from holdfast.api.filters import Many, many
from holdfast.api.router import router
from holdfast.errors import Conflict
from holdfast.kit.fields import PlainText, RowId
from holdfast.operations import logs, pages, transitions
from holdfast.operations.filters import require_known, unknown_word
from holdfast.operations.list_conditions import TheListConditions, visible_part
from holdfast.operations.log_answers import PartOfLog, log_download
from holdfast.operations.models import Operation
from holdfast.operations.present import Presenter, ThePresenter
from holdfast.operations.schemas import LogAnswer, OperationItem
from holdfast.operations.visible_operations import require, unknown
from holdfast.repositories import store as repositories

routes = router("/api/activity", "activity")

JobType = Annotated[str, PlainText(1, 40)]
INDEX = "index"


@routes.get("/recent", summary="List recent activity, newest first")
def recent(
    caller: SignedIn,
    session: Reading,
    presenter: ThePresenter,
    category: Annotated[Many, Depends(many("category"))],
    trigger: Annotated[Many, Depends(many("trigger"))],
    status: Annotated[Many, Depends(many("status", brackets=False))],
    conditions: TheListConditions,
    response: Response,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    job_type: JobType | None = None,
    repository_id: RowId | None = None,
    collapse_runs: Annotated[bool, Query(description="Nest follow-ups under the operation that started them.")] = True,
    cursor: Annotated[
        Annotated[str, PlainText(1, 400)] | None, Query(description="Value of `X-Next-Cursor` from the previous page.")
    ] = None,
) -> list[OperationItem]:
    """The response header `X-Next-Cursor` leads to the next page; the last page has none."""
    require_known(presenter.registry, category=category, status=status, trigger=trigger)
    kinds = kinds_of(presenter.registry, job_type) if job_type else ()
    if job_type and not kinds:
        raise unknown_word("job_type", all_words(presenter.registry))
    collapsed = collapse_runs and job_type is None and INDEX not in category
    wanted = pages.Filter(categories=category, kinds=kinds, statuses=status, triggers=trigger, parents_only=collapsed)
    narrowed = visible_part(session, caller, repository_id, conditions, wanted)
    if narrowed is None:
        return []
    operations, next_cursor = pages.page(session, narrowed, limit, cursor)
    if next_cursor is not None:
        response.headers["X-Next-Cursor"] = next_cursor
    shown = [operation for operation in operations if operation.executor != "inline"]
    return _nested(session, presenter, shown) if collapsed else presenter.items(session, shown)


@routes.get("/status", summary="Get the overall backup status")
def status(
    caller: SignedIn, session: Reading, presenter: ThePresenter, settings: TheSettings, gateway: TheGateway
) -> Overview:
    """Running jobs, jobs that failed since their last success, overdue repositories, and, for admins, offline
    machines.
    """
    visible = rights.visible_repositories(session, caller)
    is_admin = caller.role is Role.ADMIN
    return read_overview(
        session,
        presenter,
        repositories.visible(session, visible),
        every_machine(session, gateway.fleet) if is_admin else None,
        visible=visible,
        is_admin=is_admin,
        with_overdue=has_feature(settings, "overdue_flags"),
    )


@routes.get("/{job_type}/{operation_id}/logs", summary="Get log lines of one item", responses=documented(404))
def read_logs(
    caller: SignedIn,
    job_type: JobType,
    operation_id: RowId,
    session: Reading,
    presenter: ThePresenter,
    part: PartOfLog,
) -> LogAnswer:
    return part.of(_item(session, caller, presenter, job_type, operation_id))


@routes.get(
    "/{job_type}/{operation_id}/logs/download",
    summary="Download the log of a finished item",
    response_class=FileResponse,
    responses={**documented(404, 409), 200: {"content": {"text/plain": {}}, "description": "The log."}},
)
def download_logs(
    caller: SignedIn,
    job_type: JobType,
    operation_id: RowId,
    session: Reading,
    presenter: ThePresenter,
    settings: TheSettings,
) -> FileResponse:
    return log_download(settings.logs_dir, _item(session, caller, presenter, job_type, operation_id))


@routes.delete(
    "/{job_type}/{operation_id}", summary="Remove an item and its log", status_code=204, responses=documented(404, 409)
)
def delete_item(
    caller: SignedIn,
    job_type: JobType,
    operation_id: RowId,
    session: Writing,
    presenter: ThePresenter,
    settings: TheSettings,
) -> Response:
    """For admins. Not possible while the item is waiting or running. Backup data is never touched."""
    operation = _item(session, caller, presenter, job_type, operation_id)
    if caller.role is not Role.ADMIN:
        raise forbidden(Role.ADMIN)
    if not transitions.delete_finished(session, operation.id):
        raise Conflict("operations.still_active", "The operation has not ended yet.", status=operation.status)
    details = {"kind": operation.kind, "repository": operation.repository_name}
    audit.note(session, caller, "activity.deleted", "operation", operation.id, details)
    if operation.log_file is not None:
        logs.remove(settings.logs_dir / operation.log_file)
    return Response(status_code=204)


def _item(session: Session, caller: Caller, presenter: Presenter, job_type: str, operation_id: int) -> Operation:
    kinds = kinds_of(presenter.registry, job_type)
    if not kinds:
        raise unknown(operation_id)
    return require(session, caller, operation_id, Role.VIEWER, *kinds)


def _nested(session: Session, presenter: Presenter, parents: list[Operation]) -> list[OperationItem]:
    """Nest follow-ups under the operation that started them."""
    children = pages.children(session, [parent.id for parent in parents])
    items = presenter.items(session, [*parents, *children])
    by_id = {item.id: item for item in items[: len(parents)]}
    for item in items[len(parents) :]:
        if item.parent_id in by_id:
            by_id[item.parent_id].followups.append(item)
    return list(by_id.values())
