"""HTTP for runs of schedules: the outcomes of due times."""

from typing import Annotated

from fastapi import Depends, Query
from sqlalchemy.orm import Session

from holdfast.access import audit, rights
from holdfast.access.caller import Caller, LoginOnly, SignedIn, forbidden
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, Writing
from holdfast.api.filters import Many, many
from holdfast.api.router import router
from holdfast.errors import Unprocessable
from holdfast.kit import clock
from holdfast.kit.fields import Moment, PageLimit, PlainText, RowId
from holdfast.operations import pages
from holdfast.operations.present import ThePresenter
from holdfast.repositories import store as repositories
from holdfast.schedules import errors, present, store, visible_schedules
from holdfast.schedules.answer_schemas import RunDetail, Runs, RunSummary
from holdfast.schedules.models import NO_REPOSITORY, Outcome, ScheduleRun
from holdfast.schedules.running import manual_runs
from holdfast.schedules.running.chains import operations_of
from holdfast.schedules.store import RunFilter
from holdfast.schedules.visible_schedules import VisibleSchedules, is_operator_everywhere

routes = router("", "schedules")

Cursor = Annotated[Annotated[str, PlainText(1, 400)] | None, Query(description="`next_cursor` of the previous page.")]


@routes.get("/runs/{schedule_run_id}", summary="Get a schedule run with its operations", responses=documented(404))
def read_run(caller: SignedIn, schedule_run_id: RowId, session: Reading, presenter: ThePresenter) -> RunDetail:
    row = _seen(session, caller, schedule_run_id)
    summary = present.summaries(session, [row])[0]
    of_run = pages.by_ids(session, operations_of(row))
    seen = (one for one in of_run if one.repository_id is not None or caller.role is Role.ADMIN)
    found = sorted(seen, key=lambda operation: operation.id)
    return RunDetail(**dict(summary), operations=presenter.items(session, found))


@routes.post("/runs/{schedule_run_id}/cancel", summary="Cancel a run of a schedule", responses=documented(404, 409))
def cancel_run(caller: LoginOnly, schedule_run_id: RowId, session: Writing) -> RunSummary:
    """A waiting run is skipped; the operations of a running one are cancelled."""
    row = _seen(session, caller, schedule_run_id)
    if row.repository_id:
        rights.require_repository(session, caller, row.repository_id, Role.OPERATOR)
    elif not is_operator_everywhere(caller):
        raise forbidden(Role.OPERATOR)
    cancelled = manual_runs.cancel(session, row.id, clock.now())
    if cancelled is None:
        raise errors.unknown_run(schedule_run_id)
    details = {"schedule_id": row.schedule_id, "repository_id": row.repository_id}
    audit.note(session, caller, "schedule_run.cancelled", "schedule_run", row.id, details)
    return present.summaries(session, [cancelled])[0]


@routes.get("/{schedule_id}/runs", summary="List the outcomes of a schedule's due times", responses=documented(404))
def list_runs(
    caller: SignedIn,
    schedule_id: RowId,
    session: Reading,
    outcome: Annotated[Many, Depends(many("outcome"))],
    repository_id: RowId | None = None,
    since: Moment | None = None,
    limit: PageLimit = 100,
    cursor: Cursor = None,
) -> Runs:
    """Newest first. The history of a deleted schedule stays readable."""
    seen = VisibleSchedules.of_one(session, caller)
    schedule = visible_schedules.require_seen(session, seen, schedule_id, even_deleted=True)
    if unknown := set(outcome) - {str(each) for each in Outcome}:
        raise Unprocessable("schedules.unknown_outcome", "Unknown outcome.", outcomes=sorted(unknown))
    visible = seen.visible
    if repository_id is not None:
        visible = frozenset({repository_id} if seen.includes(repository_id) else ())
    narrowed = RunFilter((schedule.id,), visible, outcome, since)
    rows, following = store.page(session, narrowed, limit, cursor)
    return Runs(runs=present.summaries(session, rows), next_cursor=following)


def _seen(session: Session, caller: Caller, schedule_run_id: int) -> ScheduleRun:
    """Return the run if the caller may see its repository. Raise NotFound."""
    row = store.run(session, schedule_run_id)
    visible = rights.visible_repositories(session, caller)
    if row is None or (
        visible is not None and (row.repository_id == NO_REPOSITORY or row.repository_id not in visible)
    ):
        raise errors.unknown_run(schedule_run_id)
    if row.repository_id and repositories.get(session, row.repository_id) is None and visible is not None:
        raise errors.unknown_run(schedule_run_id)
    return row
