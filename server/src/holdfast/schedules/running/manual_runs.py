"""Runs started or cancelled by a person."""

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.errors import Conflict, Unprocessable
from holdfast.operations.kinds import Registry
from holdfast.schedules import store
from holdfast.schedules.models import Origin, Outcome, Reason, Schedule, ScheduleRun, WaitingFor
from holdfast.schedules.running import final_states
from holdfast.schedules.running.chains import enqueue, operations_of, stop
from holdfast.schedules.running.release import decision_of
from holdfast.schedules.running.row_facts import gather
from holdfast.schedules.running.run_decisions import End, Release, Wait


def run_now(
    session: Session,
    registry: Registry,
    schedule: Schedule,
    repository_ids: Sequence[int] | None,
    steps: Sequence[str] | None,
    *,
    respect_windows: bool,
    caller: Caller,
    now: datetime,
) -> list[ScheduleRun]:
    """Run a schedule at a person's request. Raise Conflict while an earlier run has not ended, or Unprocessable.

    The route checks the rights. A row whose machine is offline or whose window is closed is returned waiting.
    """
    targets = store.targets_of(session, schedule)
    if repository_ids is not None:
        targets = [target for target in targets if target.id in set(repository_ids)]
    if not targets:
        raise Unprocessable(
            "schedules.no_targets",
            "None of the chosen repositories belong to this schedule. Nothing was started; choose repositories of the "
            "schedule.",
        )
    _make_way(session, schedule, {target.id for target in targets}, now)
    run_id = uuid.uuid4().hex
    rows = [
        ScheduleRun(
            schedule_id=schedule.id,
            repository_id=target.id,
            due_at=now,
            due_count=1,
            origin=Origin.MANUAL,
            revision=schedule.revision,
            start_at=now,
            look_at=now,
            waiting_for=WaitingFor.START,
            outcome=Outcome.WAITING,
            run_id=run_id,
            tries=0,
            steps=[],
            options={"steps": list(steps) if steps is not None else None, "respect_windows": respect_windows},
        )
        for target in targets
    ]
    session.add_all(rows)
    session.flush()
    row_facts = gather(session, rows, now, reachable={target.id for target in targets})
    released = []
    for row in rows:
        match decision_of(row, schedule, row_facts):
            case Release():
                released.append(row)
            case Wait(until, waiting_for):
                row.look_at, row.waiting_for = until, waiting_for
            case End() as decision:
                final_states.end(session, schedule, row, decision, now)
    enqueue(session, registry, released, row_facts, caller)
    session.flush()
    return rows


def _make_way(session: Session, schedule: Schedule, repository_ids: Collection[int], now: datetime) -> None:
    """Give up retries that the new run makes unnecessary. Raise Conflict for a run that has not ended."""
    for row in store.unended_of(session, schedule.id):
        if row.repository_id not in repository_ids:
            continue
        if row.waiting_for == WaitingFor.RETRY:
            final_states.settle(session, schedule, row, now)
            continue
        raise Conflict(
            "schedules.already_running",
            "A run of this schedule is still active. Nothing was started; wait for it, or cancel it.",
            run_row_id=row.id,
            repository_id=row.repository_id,
            operation_ids=operations_of(row),
        )


def cancel(session: Session, row_id: int, now: datetime) -> ScheduleRun | None:
    """Cancel a run: a waiting one is skipped, and the operations of a running one are requested to stop.

    Raise Conflict if it has ended.
    """
    statement = select(ScheduleRun).where(ScheduleRun.id == row_id).with_for_update()
    row = session.scalars(statement.execution_options(populate_existing=True)).first()
    if row is None:
        return None
    schedule = store.get_even_deleted(session, row.schedule_id)
    if row.settled_at is not None or schedule is None:
        raise Conflict("schedules.run_ended", "The run has already ended. Nothing was changed.", outcome=row.outcome)
    if row.outcome == Outcome.WAITING:
        final_states.end(session, schedule, row, End(Outcome.SKIPPED, Reason.CANCELLED), now)
    elif row.waiting_for == WaitingFor.RETRY:
        final_states.settle(session, schedule, row, now)
    else:
        stop(session, row)
    session.flush()
    return row
