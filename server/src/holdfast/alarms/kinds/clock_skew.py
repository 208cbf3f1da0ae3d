"""`clock_skew`: the clock of an agent's machine differs from that of the service."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import func, or_, select

from backup_protocol import AgentStatus
from holdfast.agents.models import AgentMachine
from holdfast.alarms.kind import AlarmKind, EvaluationContext, Finding, Subject, age, between_thresholds, unknown
from holdfast.alarms.models import Severity

CLEARED_AT = 0.5
"""The fraction of the threshold below which the clock counts as correct again."""
LASTING = timedelta(minutes=10)

_AGENTS = select(AgentMachine.id, AgentMachine.status, AgentMachine.clock_skew_seconds)
_SKEW = func.abs(AgentMachine.clock_skew_seconds)


def find(context: EvaluationContext) -> Iterator[Finding]:
    limit = context.thresholds.of_all.clock_skew_seconds
    skewed = AgentMachine.status == AgentStatus.ONLINE, limit * CLEARED_AT < _SKEW
    for row in context.session.execute(_AGENTS.where(*skewed)):
        subject = Subject("agent", row.id)
        if abs(row.clock_skew_seconds) > limit:
            yield Finding(subject, Severity.WARNING, {"clock_skew_seconds": round(row.clock_skew_seconds)})
        else:
            yield between_thresholds(subject)
    if context.open:
        away = or_(AgentMachine.status != AgentStatus.ONLINE, AgentMachine.clock_skew_seconds.is_(None))
        for row in context.session.execute(_AGENTS.where(AgentMachine.id.in_(context.open), away)):
            yield unknown(Subject("agent", row.id))


def message(name: str, evidence: Mapping[str, Any]) -> str:
    skew = float(evidence.get("clock_skew_seconds") or 0)
    return f"The clock of {name} is {age(abs(skew))} {'ahead' if skew > 0 else 'behind'}; correct it, or use NTP."


KIND = AlarmKind("clock_skew", find, message, raise_after=LASTING, clear_after=LASTING)
