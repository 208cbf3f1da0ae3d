"""Turns outbox rows into events."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.notifications.events.event import Event
from holdfast.notifications.models import Severity
from holdfast.operations.models import Operation, OutboxEntry
from holdfast.operations.status import TERMINAL, Status
from holdfast.operations.temporary_failures import TEMPORARY

OPERATION, RUN, AGENT = "operation.updated", "schedule.run", "agent.updated"
ALARMS = ("alarm.raised", "alarm.changed", "alarm.cleared")
DESTINATIONS = ("notification.failed", "notification.recovered")
OWN_ALARM = "notifications_failing"
"""This alarm is reported through events of the destination itself, and never to the destination that fails."""
TOPICS = frozenset({OPERATION, RUN, AGENT, *ALARMS, *DESTINATIONS})
WORK_OF_KIND = {
    "backup": "backup",
    "dump": "dump",
    "restore": "restore",
    "check": "check",
    "restore_check": "restore_check",
    "prune": "prune",
    "compact": "compact",
    "sync": "mirror",
    "script_execution": "script",
}
WORDS = {
    "backup": "Backup",
    "dump": "Database dump",
    "restore": "Restore",
    "check": "Check",
    "restore_check": "Restore check",
    "prune": "Prune",
    "compact": "Compaction",
    "mirror": "Mirror",
    "script": "Script",
}
_FINAL = frozenset(str(status) for status in TERMINAL)


def events_of(session: Session, rows: Sequence[OutboxEntry]) -> Iterator[Event]:
    """Yield the events of rows, in their order. Rows that concern no rule yield none."""
    ended = {row.operation_id for row in rows if row.topic == OPERATION and row.payload.get("status") in _FINAL}
    found = select(Operation).where(Operation.id.in_(ended), Operation.kind.in_(WORK_OF_KIND))
    operations = {operation.id: operation for operation in session.scalars(found)}
    for row in rows:
        if row.topic == OPERATION and row.operation_id in operations and row.payload.get("status") in _FINAL:
            yield from _of_operation(operations[row.operation_id])
        elif row.topic == RUN:
            yield from _of_run(session, row)
        elif row.topic == AGENT:
            yield from _of_agent(row)
        elif row.topic in ALARMS and row.payload.get("kind") != OWN_ALARM:
            yield _of_alarm(row)
        elif row.topic in DESTINATIONS:
            yield _of_destination(row)


def _of_operation(operation: Operation) -> Iterator[Event]:
    if operation.executor == "inline":
        return
    if operation.schedule_id is not None and operation.error_key in TEMPORARY:
        # Such a run is retried, and its end decides whether it is reported.
        return
    event = operation_event(operation)
    if event is not None:
        yield event


def operation_event(operation: Operation) -> Event | None:
    """Return the event of an operation that has ended; None if it was cancelled or skipped."""
    work = WORK_OF_KIND[operation.kind]
    where = f" of {operation.repository_name}" if operation.repository_name else ""
    status = Status(operation.status)
    text = ""
    error_key = operation.error_key
    if status is Status.FAILED:
        end, severity, word = "failed", Severity.CRITICAL, "failed"
        text = operation.error_message or ""
    elif status is Status.COMPLETED_WITH_WARNINGS:
        end, severity, word = "warning", Severity.WARNING, "completed with warnings"
        warnings = operation.warnings or []
        text = "; ".join(str(each.get("message") or each.get("key") or "") for each in warnings[:5])
        error_key = next((str(each["key"]) for each in warnings if each.get("key")), None)
    elif status is Status.COMPLETED:
        end, severity, word = "completed", Severity.INFO, "completed"
    else:
        return None
    subject = (
        f"repository:{operation.repository_id}" if operation.repository_id else f"schedule:{operation.schedule_id}"
    )
    return Event(
        type=f"{work}.{end}",
        severity=severity,
        state="good" if status is Status.COMPLETED else "bad",
        key=f"{subject}:{work}",
        at=operation.completed_at or operation.created_at,
        title=f"{WORDS[work]}{where} {word}",
        text=text,
        repository_id=operation.repository_id,
        repository=operation.repository_name,
        schedule_id=operation.schedule_id,
        schedule=operation.schedule_name,
        operation_id=operation.id,
        run_id=operation.run_id,
        error_key=error_key,
    )


def _of_run(session: Session, row: OutboxEntry) -> Iterator[Event]:
    run = row.payload
    if run.get("outcome") == "ran":
        yield from _failures_of(session, run)
        yield _run_event(row, "schedule.ran", Severity.INFO, "good", "ran")
    elif run.get("outcome") == "missed":
        # An offline laptop is not worth a message; alarms report overdue backups.
        is_expected = run.get("reason") == "machine_offline"
        severity = Severity.INFO if is_expected else Severity.WARNING
        yield _run_event(row, "schedule.missed", severity, "bad", "was missed")
    elif run.get("outcome") == "skipped":
        yield _run_event(row, "schedule.skipped", Severity.INFO, "news", "was skipped")


def _failures_of(session: Session, run: dict[str, Any]) -> Iterator[Event]:
    """Yield failures that were held back because a retry could have succeeded: the last one of each kind."""
    if run.get("result") != "failed" or not run.get("run_id"):
        return
    failed = select(Operation).where(
        Operation.run_id == run["run_id"],
        Operation.kind.in_(WORK_OF_KIND),
        Operation.repository_id == (run.get("repository_id") or None),
    )
    last = {operation.kind: operation for operation in session.scalars(failed.order_by(Operation.id))}
    for operation in last.values():
        if operation.status == Status.FAILED and operation.error_key in TEMPORARY:
            event = operation_event(operation)
            if event is not None:
                yield event


def _run_event(row: OutboxEntry, event_type: str, severity: Severity, state: Any, word: str) -> Event:
    run = row.payload
    reason = run.get("reason")
    return Event(
        type=event_type,
        severity=severity,
        state=state,
        key=f"schedule:{run.get('schedule_id')}:{run.get('repository_id') or 0}",
        at=row.created_at,
        title=f"Run of schedule {run.get('schedule_name') or run.get('schedule_id')} {word}",
        text=f"Due at {run.get('due_at')}; reason: {reason}." if reason else f"Due at {run.get('due_at')}.",
        repository_id=row.repository_id,
        schedule_id=run.get("schedule_id"),
        schedule=run.get("schedule_name"),
        run_id=run.get("run_id"),
        error_key=reason,
    )


def _of_agent(row: OutboxEntry) -> Iterable[Event]:
    agent = row.payload
    status = agent.get("status")
    if status not in ("offline", "online"):
        return []
    name = str(agent.get("name") or agent.get("agent_id"))
    is_offline = status == "offline"
    return [
        Event(
            type=f"agent.{status}",
            severity=Severity.INFO,  # machines come and go; the alarm `agent_silent` reports missing ones
            state="bad" if is_offline else "good",
            key=f"agent:{agent.get('id')}",
            at=row.created_at,
            title=f"Agent {name} is {status}",
            agent=name,
        )
    ]


def _of_alarm(row: OutboxEntry) -> Event:
    alarm = row.payload
    subject = alarm.get("subject") or {}
    cleared, acknowledged = row.topic == "alarm.cleared", alarm.get("reason") == "acknowledged"
    name = subject.get("name")
    word = "cleared" if cleared else "raised"
    return Event(
        type=f"alarm.{word}",
        severity=Severity.of(alarm.get("severity")),
        state="good" if cleared else "acknowledged" if acknowledged else "bad",
        key=f"alarm:{alarm.get('kind')}:{subject.get('type')}:{subject.get('id')}",
        at=row.created_at,
        title=f"Alarm {alarm.get('kind')}{f' for {name}' if name else ''} {word}",
        text=str(alarm.get("message") or ""),
        repository_id=row.repository_id,
        repository=name if subject.get("type") == "repository" else None,
        error_key=f"{alarm.get('kind')}:{alarm.get('severity')}",
    )


def failing_key(destination_id: int | None) -> str:
    """Return the key of the incident of a destination to which messages are not delivered."""
    return f"alarm:{OWN_ALARM}:destination:{destination_id}"


def _of_destination(row: OutboxEntry) -> Event:
    """Return the event for a destination that has failed for days or works again: an alarm, sent to the others."""
    failed = row.topic == "notification.failed"
    name = row.payload.get("name")
    return Event(
        type="alarm.raised" if failed else "alarm.cleared",
        severity=Severity.WARNING,
        state="bad" if failed else "good",
        key=failing_key(row.payload.get("destination_id")),
        at=row.created_at,
        title=f"Messages to {name} {'are not delivered' if failed else 'are delivered again'}",
        text=str(row.payload.get("reason") or ""),
        error_key="notifications_failing",
        not_to=row.payload.get("destination_id"),
    )
