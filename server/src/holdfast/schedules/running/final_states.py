"""How a run row reaches its final state, and who is notified."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy.orm import Session

from holdfast.operations import outbox
from holdfast.operations.status import SUCCEEDED
from holdfast.schedules.models import Outcome, Schedule, ScheduleRun
from holdfast.schedules.running.run_decisions import End

TOPIC: Final = "schedule.run"
GOOD = frozenset(str(status) for status in SUCCEEDED)


def end(session: Session, schedule: Schedule, row: ScheduleRun, decision: End, now: datetime) -> None:
    """End a row that will not run."""
    row.outcome, row.reason, row.reason_operation_id = decision.outcome, decision.reason, decision.operation_id
    _close(session, schedule, row, now)


def settle(session: Session, schedule: Schedule, row: ScheduleRun, now: datetime) -> None:
    """Settle a row that has run and will not be retried."""
    _close(session, schedule, row, now)


def _close(session: Session, schedule: Schedule, row: ScheduleRun, now: datetime) -> None:
    row.look_at = row.waiting_for = None
    row.settled_at = now
    values = {name: getattr(row, name) for name in PUBLISHED}
    publish(session, {schedule.id: schedule.name}, [{**values, "id": row.id}])


PUBLISHED = (
    "schedule_id",
    "repository_id",
    "due_at",
    "due_until",
    "due_count",
    "origin",
    "outcome",
    "reason",
    "result",
    "error_key",
    "run_id",
    "tries",
    "settled_at",
)


def publish(session: Session, names: Mapping[int, str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the outbox rows for those rows that have reached their final state."""
    outbox.publish_many(
        session,
        TOPIC,
        [
            (_payload(names, row), row["repository_id"] or None, None)
            for row in rows
            if row["outcome"] != Outcome.WAITING and row["settled_at"] is not None
        ],
    )


def _payload(names: Mapping[int, str], row: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: _plain(row.get(name)) for name in PUBLISHED}
    return {"id": row.get("id"), **values, "schedule_name": names.get(row["schedule_id"])}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, str) else value
