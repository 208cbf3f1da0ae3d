"""Rows that may run as soon as they are due enter the queue in the transaction that writes them, already released.

All other rows (those that wait, that a rule ends, or whose schedule has scripts or an open run) are written as usual,
and `release` handles them.
"""

from types import SimpleNamespace
from typing import Any, cast

from sqlalchemy.orm import Session

from holdfast.kit.request_priority import give_way
from holdfast.operations.kinds import Registry
from holdfast.schedules.models import Outcome, Schedule, ScheduleRun, WaitingFor
from holdfast.schedules.running.chains import enqueue
from holdfast.schedules.running.due import UNREADABLE, Due
from holdfast.schedules.running.release import decision_of
from holdfast.schedules.running.row_facts import RowFacts, SharedFacts, gather
from holdfast.schedules.running.run_decisions import Release
from holdfast.schedules.running.steps import SCRIPT
from holdfast.storage.bulk import next_ids


def release_immediately(session: Session, registry: Registry, due: Due) -> list[dict[str, Any]]:
    """Queue the rows that may run; return all rows as they are to be written."""
    rows = [
        {"id": number, **row}
        for number, row in zip(next_ids(session, ScheduleRun, len(due.rows)), due.rows, strict=True)
    ]
    ready = {row["id"]: _as_object(row) for row in rows if _is_ready(row, due)}
    if not ready:
        return rows
    known = SharedFacts(due.paused, due.in_blackout, due.schedules, due.places)
    row_facts = gather(session, list(ready.values()), due.now, known=known)
    released = {number: row for number, row in ready.items() if _may_run(row, row_facts)}
    enqueue(session, registry, released.values(), row_facts)
    return [vars(released[row["id"]]) if row["id"] in released else row for row in rows]


def _is_ready(row: dict[str, Any], due: Due) -> bool:
    is_waiting = row["outcome"] == Outcome.WAITING and row["waiting_for"] == WaitingFor.START
    return is_waiting and row["start_at"] <= due.now and not _has_scripts(due.schedules[row["schedule_id"]])


def _has_scripts(schedule: Schedule) -> bool:
    """Whether a schedule has scripts: once-only ones need the rows of all repositories of a due time.

    Unreadable steps count as scripts: there is no hurry.
    """
    steps = schedule.steps
    return not isinstance(steps, list) or any(
        not isinstance(step, dict) or step.get("kind") == SCRIPT for step in steps
    )


def _as_object(row: dict[str, Any]) -> ScheduleRun:
    return cast("ScheduleRun", SimpleNamespace(**row))


def _may_run(row: ScheduleRun, row_facts: RowFacts) -> bool:
    give_way()
    try:
        return isinstance(decision_of(row, row_facts.schedules[row.schedule_id], row_facts), Release)
    except UNREADABLE:
        return False
