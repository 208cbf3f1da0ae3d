"""`agent_silent`: the agent of a machine with a pending backup has been silent for a day."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import column, func, select, table

from backup_protocol import AgentStatus
from holdfast.agents import last_seen_times
from holdfast.agents.models import AgentMachine
from holdfast.alarms.kind import AlarmKind, EvaluationContext, Finding, Subject, between_thresholds, on_day, shown
from holdfast.alarms.models import Severity
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories.models import Repository
from holdfast.storage.types import UtcDateTime

SHUT_OUT = (AgentStatus.DISABLED, AgentStatus.REVOKED)
PRESENT = timedelta(minutes=5)
"""Agents send a heartbeat every 30 seconds by default, and its time is stored once a minute."""

_AGENTS = select(AgentMachine.id, AgentMachine.last_seen_at, AgentMachine.created_at).where(
    AgentMachine.status.not_in(SHUT_OUT)
)
_REPOSITORIES = select(
    Repository.agent_machine_id,
    Repository.id,
    func.coalesce(Repository.last_backup, Repository.created_at).label("since"),
).where(Repository.agent_machine_id.is_not(None))
_QUEUED = select(Operation.repository_id).where(
    Operation.status == Status.PENDING, Operation.kind == "backup", Operation.machine_id.is_not(None)
)
_runs = table(
    "schedule_runs", column("repository_id"), column("outcome"), column("look_at"), column("due_at", UtcDateTime)
)
_WAITING = select(_runs.c.repository_id).where(_runs.c.look_at.is_not(None), _runs.c.outcome == "waiting")


def find(context: EvaluationContext) -> Iterator[Finding]:
    limit = context.now - timedelta(hours=context.thresholds.of_all.agent_silent_hours)
    times = last_seen_times.all_agents(context.session)
    silent: dict[int, datetime | None] = {}
    for row in context.session.execute(_AGENTS):
        seen = last_seen_times.latest((row.last_seen_at, times.get(row.id)))
        if (seen or row.created_at) < limit:
            silent[row.id] = seen
        elif row.id in context.open and (seen or row.created_at) < context.now - PRESENT:
            yield between_thresholds(
                Subject("agent", row.id)
            )  # came back, but silent again: one heartbeat is not enough
    due = _due(context) if silent else {}
    for number, seen in silent.items():
        if number in due:
            evidence = {"last_seen_at": shown(seen), "repositories_due": due[number]}
            yield Finding(Subject("agent", number), Severity.WARNING, evidence)


def _due(context: EvaluationContext) -> dict[int, int]:
    """Return, for each agent, the number of repositories whose backup is queued or overdue."""
    waiting = {
        *context.session.scalars(_QUEUED),
        *context.session.scalars(_WAITING.where(_runs.c.due_at <= context.now)),
    }
    due: dict[int, int] = {}
    for row in context.session.execute(_REPOSITORIES):
        rule = context.overdue.get(row.id, {}).get("backup")
        late = rule is not None and (context.now - row.since).total_seconds() > rule.seconds
        if late or row.id in waiting:
            due[row.agent_machine_id] = due.get(row.agent_machine_id, 0) + 1
    return due


def message(name: str, evidence: Mapping[str, Any]) -> str:
    seen = evidence.get("last_seen_at")
    silence = f"has been silent since {on_day(seen)}" if seen else "has never connected"
    return f"The agent of {name} {silence}, and a backup of its machine is due."


KIND = AlarmKind("agent_silent", find, message, clear_after=timedelta(minutes=10))
