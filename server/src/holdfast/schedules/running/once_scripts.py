"""Scripts with `scope: once`: one run for all repositories of a due time, before the first backup or after the last.

Their operations belong to no repository, so that an operator of one cannot stop the backups of the others with them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.errors import NotFound, Unprocessable
from holdfast.operations import queue, transitions
from holdfast.operations.kinds import Kind, Registry
from holdfast.operations.models import Operation, OutboxEntry
from holdfast.operations.queue import Link
from holdfast.operations.queue import Origin as Asked
from holdfast.operations.status import TERMINAL, Needs, Status, Trigger
from holdfast.schedules import store
from holdfast.schedules.models import Origin, Outcome, Schedule, ScheduleRun
from holdfast.schedules.running.row_facts import RowFacts
from holdfast.schedules.running.steps import AFTER, SCRIPT, SCRIPT_KIND, is_once, place_of

log = structlog.get_logger("holdfast.schedules")

BUSY_CHECK = timedelta(seconds=1)
WORST_FIRST = (Status.FAILED, Status.CANCELLED, Status.COMPLETED_WITH_WARNINGS, Status.SKIPPED, Status.COMPLETED)


def steps_of(schedule: Schedule, place: str) -> list[Mapping[str, Any]]:
    """Return the once-only scripts of a schedule, before or after the backups. Unreadable steps are ignored."""
    steps = schedule.steps if isinstance(schedule.steps, list) else []
    return [step for step in steps if isinstance(step, dict) and is_once(step) and place_of(step) == place]


# --- before the first backup ----------------------------------------------------------------------------------------


def lock_schedules(session: Session, rows: Sequence[ScheduleRun], row_facts: RowFacts) -> list[ScheduleRun]:
    """Lock the schedules with such scripts, so that only one process begins them; return the rows to continue with.

    Rows of a schedule locked by another process are postponed. Waiting for it could cause a deadlock, because it may be
    waiting for these rows.
    """
    concerned = {row.schedule_id for row in rows if steps_of(row_facts.schedules[row.schedule_id], SCRIPT)}
    if not concerned:
        return list(rows)
    free = select(Schedule.id).where(Schedule.id.in_(concerned)).with_for_update(skip_locked=True)
    busy = concerned - set(session.scalars(free))
    for row in rows:
        if row.schedule_id in busy:
            row.look_at = row_facts.now + BUSY_CHECK
    return [row for row in rows if row.schedule_id not in busy]


def started_operations(session: Session, rows: Iterable[ScheduleRun], row_facts: RowFacts) -> dict[str, list[int]]:
    """Return the operations of scripts before the backups that the runs of these rows already have, by run."""
    runs = {row.run_id for row in rows if row.run_id and steps_of(row_facts.schedules[row.schedule_id], SCRIPT)}
    return _operations(session, runs, "before") if runs else {}


def queueable_now(
    rows: Iterable[ScheduleRun], row_facts: RowFacts, known: Mapping[str, Sequence[int]]
) -> tuple[list[ScheduleRun], list[ScheduleRun]]:
    """Return the rows that can be queued now, and those that need an operation of one of the former."""
    now, later = [], []
    beginning: set[str] = set()
    for row in rows:
        run_id = row.run_id or ""
        depends = row.outcome != Outcome.RAN and bool(steps_of(row_facts.schedules[row.schedule_id], SCRIPT))
        if depends and run_id not in known and run_id in beginning:
            later.append(row)
            continue
        beginning.add(run_id)
        now.append(row)
    return now, later


def settle_dependants_of_ended(session: Session, operation_ids: Collection[int]) -> None:
    """Skip what was queued after a script that had already ended differently.

    Thanks to the lock, an end either comes first or sees what was queued.
    """
    for number in sorted(operation_ids):
        locked = select(Operation.status).where(Operation.id == number).with_for_update(read=True)
        status = session.scalar(locked)
        if status is not None and Status(status) in TERMINAL:
            transitions.settle_dependants(session, number, Status(status))


def _operations(session: Session, run_ids: Collection[str], event: str) -> dict[str, list[int]]:
    statement = select(Operation.run_id, Operation.id, Operation.params).order_by(Operation.id)
    found: dict[str, list[int]] = defaultdict(list)
    for row in session.execute(statement.where(Operation.run_id.in_(run_ids), Operation.kind == SCRIPT_KIND)):
        if row.params.get("scope") == "once" and row.params.get("event") == event:
            found[row.run_id].append(row.id)
    return dict(found)


# --- after the last -------------------------------------------------------------------------------------------------


def finish(session: Session, registry: Registry, entries: Sequence[OutboxEntry]) -> None:
    """Queue the scripts after the backups of due times whose last run has just reached its final state.

    An outbox reader calls this, once for each row and never concurrently.
    """
    told = {(entry.payload.get("schedule_id"), entry.payload.get("run_id")) for entry in entries}
    schedules = store.by_ids(session, {number for number, _ in told if isinstance(number, int)})
    for number, run_id in sorted((number, run_id) for number, run_id in told if number in schedules and run_id):
        schedule = schedules[number]
        if steps_of(schedule, AFTER) and _is_over(session, schedule, run_id):
            _queue_after(session, registry, schedule, run_id)


def _is_over(session: Session, schedule: Schedule, run_id: str) -> bool:
    """Whether all rows of the due time are written and settled.

    The rows of many repositories are written in several transactions.
    """
    of_run = (ScheduleRun.schedule_id == schedule.id, ScheduleRun.run_id == run_id)
    if session.scalar(select(ScheduleRun.id).where(*of_run, ScheduleRun.settled_at.is_(None)).limit(1)) is not None:
        return False
    following = schedule.next_due_at
    if following is None:
        return True
    unwritten = (ScheduleRun.origin == Origin.CALENDAR, ScheduleRun.due_at >= following)
    return session.scalar(select(ScheduleRun.id).where(*of_run, *unwritten).limit(1)) is None


def _queue_after(session: Session, registry: Registry, schedule: Schedule, run_id: str) -> None:
    released = select(ScheduleRun).where(
        ScheduleRun.schedule_id == schedule.id, ScheduleRun.run_id == run_id, ScheduleRun.released_at.is_not(None)
    )
    last = session.scalars(released.order_by(ScheduleRun.id.desc()).limit(1)).first()
    if last is None or _operations(session, [run_id], "after"):
        return
    asked = (last.options or {}).get("steps")
    if asked is not None and SCRIPT not in asked:
        return
    given = {"due_at": last.due_at.isoformat(), "result": str(_worst(session, schedule, run_id))}
    kind = registry.kinds[SCRIPT_KIND]
    chain: list[Link] = []
    for step in steps_of(schedule, AFTER):
        try:
            params = _params(session, kind, {**step, **given})
        except (NotFound, Unprocessable) as refusal:
            log.warning("a step of a schedule is refused", schedule_id=schedule.id, reason=refusal.key)
            continue
        chain.append(Link(kind, params, _asked(schedule, run_id), None, len(chain) - 1 if chain else None))
    if chain:
        queue.enqueue_chains(session, [chain])


def _params(session: Session, kind: Kind, step: Mapping[str, Any]) -> dict[str, Any]:
    assert kind.step_rules is not None
    params = kind.step_rules.params(session, step)
    return kind.params.model_validate(params).model_dump(mode="json", exclude_none=True)


def _asked(schedule: Schedule, run_id: str) -> Asked:
    return Asked(
        Trigger.SCHEDULE,
        user_name="schedule",
        run_id=run_id,
        depends_needs=Needs.OVER,
        schedule_id=schedule.id,
        schedule_name=schedule.name,
    )


def _worst(session: Session, schedule: Schedule, run_id: str) -> Status:
    """Return the worst end among the due time's rows. Missed ones count as failed; those skipped by a rule do not
    count.
    """
    ends = select(ScheduleRun.outcome, ScheduleRun.result, ScheduleRun.released_at.is_not(None).label("released"))
    of_run = (ScheduleRun.schedule_id == schedule.id, ScheduleRun.run_id == run_id)
    found: set[Status] = set()
    for row in session.execute(ends.where(*of_run).distinct()):
        if row.outcome == Outcome.RAN:
            found.add(Status(row.result or Status.CANCELLED))
        elif row.outcome == Outcome.MISSED:
            found.add(Status.FAILED)
        elif row.released:
            found.add(Status.SKIPPED)
    return next(status for status in WORST_FIRST if status in found)
