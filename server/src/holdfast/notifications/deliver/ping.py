"""Pings in the style of healthchecks (start, success, fail and log) for the runs of one schedule."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from sqlalchemy import and_, bindparam, column, func, or_, select, table
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
    ended = [row.payload for row in rows if row.topic == "schedule.run"]
    ended = [run for run in ended if run.get("schedule_id") in by_schedule]
    last = {(run["schedule_id"], run.get("run_id")): run for run in ended}
    for run in ended:
        destinations = by_schedule[run["schedule_id"]]
        _end(session, destinations, run, now)
        if run is last[run["schedule_id"], run.get("run_id")]:
            _success(session, destinations, run, now)


def _end(session: Session, destinations: Sequence[Destination], run: dict[str, Any], now: datetime) -> None:
    """Ping the end of a run for one repository, unless it succeeded."""
    action = action_of(run)
    if action == "success":
        return
    for destination in destinations:
        about = f"{run.get('run_id') or run.get('id')}:{run.get('id')}"
        _once(session, destination, action, about, _lines(session, run), now)


def _success(session: Session, destinations: Sequence[Destination], run: dict[str, Any], now: datetime) -> None:
    """Ping the success of a run if it has succeeded for every repository."""
    run_id = run.get("run_id")
    if run_id and _has_succeeded(session, run["schedule_id"], run_id):
        for destination in destinations:
            _once(session, destination, "success", run_id, _lines(session, run), now)


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


def _has_succeeded(session: Session, schedule_id: int, run_id: str) -> bool:
    """Whether a run has succeeded for every repository. Those skipped by a rule do not count."""
    of_run = {"schedule_id": schedule_id, "run_id": run_id}
    return session.scalar(_SUCCEEDED, of_run) is not None and session.scalar(_UNFINISHED_OR_BAD, of_run) is None


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

_schedules = table("schedules", column("id"), column("next_due_at"))
_runs = table(
    "schedule_runs",
    *(column(name) for name in ("schedule_id", "run_id", "origin", "due_at", "outcome", "result")),
    *(column(name) for name in ("settled_at", "voided_at")),
)
"""The tables of another feature, known here only by name."""
_OF_RUN = (
    select(_runs.c.run_id)
    .where(
        _runs.c.schedule_id == bindparam("schedule_id"),
        _runs.c.run_id == bindparam("run_id"),
        _runs.c.voided_at.is_(None),
    )
    .limit(1)
)
_IS_GOOD = and_(_runs.c.outcome == "ran", func.coalesce(_runs.c.result, "").in_(GOOD))
_SUCCEEDED = _OF_RUN.where(_IS_GOOD)
_UNFINISHED_OR_BAD = _OF_RUN.join(_schedules, _schedules.c.id == _runs.c.schedule_id).where(
    or_(
        _runs.c.settled_at.is_(None),
        and_(_runs.c.outcome != "skipped", ~_IS_GOOD),
        # The rows of many repositories are written in several transactions.
        and_(_runs.c.origin == "calendar", _runs.c.due_at >= _schedules.c.next_due_at),
    )
)
