"""Pings in the style of healthchecks (start, success, fail and log) for the runs of one schedule."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.notifications.deliver import http_request
from holdfast.notifications.deliver.result import Result
from holdfast.notifications.events import grouping
from holdfast.notifications.events.text import clean_lines
from holdfast.notifications.models import Delivery, Destination, DestinationKind
from holdfast.operations.models import Operation, OutboxEntry
from holdfast.operations.status import Status

GOOD = ("completed", "completed_with_warnings")


def is_used(session: Session) -> bool:
    """Whether any destination wants pings, and so also rows of operations that are only queued."""
    return session.scalar(_ANY) is not None


def queue(session: Session, rows: Sequence[OutboxEntry], now: datetime) -> None:
    """Queue the pings for outbox rows, each once."""
    by_schedule: dict[int, list[Destination]] = {}
    for destination in session.scalars(_WANTED):
        by_schedule.setdefault(destination.options["schedule_id"], []).append(destination)
    if not by_schedule:
        return
    started = [row.operation_id for row in rows if row.payload.get("status") == Status.PENDING]
    found = select(Operation).where(Operation.id.in_(started), Operation.schedule_id.in_(by_schedule))
    for operation in session.scalars(found):
        assert operation.schedule_id is not None
        for destination in by_schedule[operation.schedule_id]:
            if operation.created_at >= destination.created_at:  # a new destination gets no pings about earlier runs
                _once(session, destination, "start", operation.run_id, "", now)
    for row in rows:
        if row.topic == "schedule.run" and row.payload.get("schedule_id") in by_schedule:
            action = action_of(row.payload)
            run = str(row.payload.get("run_id") or row.payload.get("id"))
            about = f"{run}:{row.payload.get('id')}"
            for destination in by_schedule[row.payload["schedule_id"]]:
                _once(session, destination, action, about, _lines(session, row.payload), now)


def action_of(run: dict[str, Any]) -> str:
    """Return `log` for a run skipped by a rule, `success` for one that succeeded, `fail` for everything else."""
    if run.get("outcome") == "skipped":
        return "log"
    return "success" if run.get("outcome") == "ran" and run.get("result") in GOOD else "fail"


def address(url: str, action: str) -> str:
    parts = urlsplit(url)
    path = parts.path.rstrip("/") + ("" if action == "success" else f"/{action}")
    return urlunsplit(parts._replace(path=path))


def send(options: dict[str, Any], secrets: dict[str, Any], body: dict[str, Any], delivery_uuid: str) -> Result:
    del options, delivery_uuid
    url = address(secrets["url"], body.get("action", "log"))
    run = str(body.get("run") or "")
    parts = urlsplit(url)
    query = "&".join(each for each in (parts.query, f"rid={run}" if run else "") if each)
    return http_request.post(
        urlunsplit(parts._replace(query=query)),
        str(body.get("text") or "").encode(),
        {"Content-Type": "text/plain; charset=utf-8"},
    )


def _once(session: Session, destination: Destination, action: str, about: str, text: str, now: datetime) -> None:
    once = f"ping:{destination.id}:{action}:{about}"[:160]
    if session.scalar(select(Delivery.id).where(Delivery.once == once)) is None:
        body = {"action": action, "run": _rid(about), "text": text}
        grouping.add(session, destination.id, f"ping.{action}", [], now, now, once=once, body=body)


def _rid(about: str) -> str:
    """Return the run's id with the dashes of a UUID, as healthchecks requires."""
    run = about.split(":")[0]
    return f"{run[:8]}-{run[8:12]}-{run[12:16]}-{run[16:20]}-{run[20:]}" if len(run) == 32 else ""


def _lines(session: Session, run: dict[str, Any]) -> str:
    """Return the text for a user of the monitor: the outcome, and the messages of failures."""
    lines = [f"outcome: {run.get('outcome')}", f"due: {run.get('due_at')}"]
    lines += [f"{name}: {run[name]}" for name in ("reason", "result", "error_key") if run.get(name)]
    if run.get("run_id"):
        failed = select(Operation.error_message).where(
            Operation.run_id == run["run_id"], Operation.status == Status.FAILED
        )
        lines += [message for message in session.scalars(failed.limit(5)) if message]
    return clean_lines("\n".join(lines))


_WANTED = select(Destination).where(Destination.enabled, Destination.kind == DestinationKind.PING)
_ANY = _WANTED.with_only_columns(Destination.id).limit(1)
