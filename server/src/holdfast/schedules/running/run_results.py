"""The end of a run: once its operations have ended, the row gets their result or the time of a retry."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import exists, or_, select
from sqlalchemy.orm import Session

from holdfast.operations import pages
from holdfast.operations.models import Operation, OutboxEntry
from holdfast.operations.status import ACTIVE, TERMINAL, Status
from holdfast.schedules import store
from holdfast.schedules.models import Origin, Outcome, Reason, Schedule, ScheduleRun, WaitingFor
from holdfast.schedules.running import final_states, retry
from holdfast.schedules.running.chains import operations_of
from holdfast.schedules.running.run_decisions import End
from holdfast.schedules.running.schedule_clock import now_of

TOPIC = "operation.updated"
ROWS_AT_ONCE = 200
WORST_FIRST = (Status.FAILED, Status.CANCELLED, Status.COMPLETED_WITH_WARNINGS, Status.COMPLETED)
DECLINED = str(Reason.SCRIPT_DECLINED)


def handle(session: Session, entries: Sequence[OutboxEntry]) -> None:
    """Settle the runs whose operations have ended, according to the outbox."""
    ids = [
        entry.operation_id
        for entry in entries
        if entry.operation_id is not None and entry.payload.get("status") in TERMINAL
    ]
    if not ids:
        return
    runs = select(Operation.run_id).where(Operation.id.in_(ids), Operation.schedule_id.is_not(None)).distinct()
    if run_ids := session.scalars(runs).all():
        settle_rows(session, _rows(session, ScheduleRun.run_id.in_(run_ids)), now_of(session))


def is_anything_left(session: Session) -> bool:
    """Whether a released run has not ended."""
    return session.scalar(select(ScheduleRun.id).where(*_UNENDED).limit(1)) is not None


def sweep(session: Session, now: datetime) -> int:
    """Settle every run with nothing left in the queue, in case the outbox did not report it. Return how many."""
    active = exists().where(
        Operation.run_id == ScheduleRun.run_id,
        Operation.repository_id == ScheduleRun.repository_id,
        Operation.schedule_id.is_not(None),
        Operation.status.in_(sorted(ACTIVE)),
    )
    return settle_rows(session, _rows(session, ~active), now)


def _rows(session: Session, *conditions: Any) -> list[ScheduleRun]:
    statement = (
        select(ScheduleRun)
        .where(*_UNENDED, *conditions)
        .order_by(ScheduleRun.id)
        .limit(ROWS_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    return list(session.scalars(statement.execution_options(populate_existing=True)))


def settle_rows(session: Session, rows: Iterable[ScheduleRun], now: datetime) -> int:
    """Settle the rows whose operations have all ended; return how many."""
    rows = list(rows)
    schedules = store.by_ids(session, {row.schedule_id for row in rows})
    known: dict[int, Operation] = {}
    wanted = [number for row in rows for number in operations_of(row)]
    for first in range(0, len(wanted), store.AT_ONCE):
        some = pages.by_ids(session, wanted[first : first + store.AT_ONCE])
        known |= {operation.id: operation for operation in some}
    settled = 0
    woken = set()
    for row in rows:
        if _settle(session, schedules[row.schedule_id], row, known, now):
            settled += 1
            woken.add((row.schedule_id, row.repository_id))
    session.flush()
    store.look_now(session, woken, WaitingFor.EARLIER_RUN, now)
    return settled


def _settle(
    session: Session, schedule: Schedule, row: ScheduleRun, known: Mapping[int, Operation], now: datetime
) -> bool:
    ids = operations_of(row)
    found = [known[number] for number in ids if number in known]
    if any(Status(operation.status) in ACTIVE for operation in found):
        return False
    row.steps = [_told(step, known) for step in row.steps]
    if any(operation.skip_reason == DECLINED for operation in found):
        final_states.end(session, schedule, row, End(Outcome.SKIPPED, Reason.SCRIPT_DECLINED), now)
        return True
    soft = {step["operation_id"] for step in row.steps if step.get("warns") and step.get("operation_id")}
    row.result = _result(found, soft)
    hard = (operation for operation in found if operation.id not in soft)
    failure = next((operation for operation in hard if operation.status == Status.FAILED), None)
    row.error_key = failure.error_key if failure is not None else None
    if (again := _next_try(schedule, row, failure, now)) is not None:
        row.look_at, row.waiting_for = again, WaitingFor.RETRY
        return False
    final_states.settle(session, schedule, row, now)
    return True


def _told(step: Mapping[str, Any], known: Mapping[int, Operation]) -> dict[str, Any]:
    operation = known.get(step.get("operation_id") or 0)
    if operation is None:
        return dict(step)
    return {
        **step,
        "status": operation.status,
        "error_key": operation.error_key,
        "skipped": operation.skip_reason or step.get("skipped"),
    }


def _result(found: Sequence[Operation], soft: Collection[int]) -> str:
    """Return the worst result of what ran. A run without any record left counts as cancelled: nothing more is known.

    The failure of a `soft` operation is a warning.
    """
    failed, warned = Status.FAILED, Status.COMPLETED_WITH_WARNINGS
    statuses = {warned if each.status == failed and each.id in soft else Status(each.status) for each in found}
    return worst(statuses) or str(Status.CANCELLED)


def worst(results: Collection[str]) -> str | None:
    """Return the worst of several ends; None if there are none."""
    return next((str(status) for status in WORST_FIRST if status in results), None)


def _next_try(schedule: Schedule, row: ScheduleRun, failure: Operation | None, now: datetime) -> datetime | None:
    if failure is None or row.result != Status.FAILED or row.voided_at is not None:
        return None
    if schedule.deleted_at is not None or (not schedule.enabled and row.origin != Origin.MANUAL):
        return None
    bound = schedule.next_due_at if row.origin == Origin.CALENDAR else None
    return retry.next_try(failure.error_key, row.tries, schedule.retries, bound, now)


_UNENDED = (
    ScheduleRun.settled_at.is_(None),
    ScheduleRun.outcome == Outcome.RAN,
    or_(ScheduleRun.waiting_for.is_(None), ScheduleRun.waiting_for != WaitingFor.RETRY),
)
