"""`notifications_failing`: messages to a destination are not being delivered."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import column, or_, select, table

from holdfast.alarms.kind import AlarmKind, EvaluationContext, Finding, Subject, on_day, shown
from holdfast.alarms.models import Severity
from holdfast.storage.types import UtcDateTime

AFTER = timedelta(hours=1)
GIVEN_UP_AFTER = timedelta(days=3)
"""When undelivered messages are given up."""

_destinations = table(
    "notification_destinations",
    column("id"),
    column("name"),
    column("enabled"),
    column("disabled_reason"),
    column("failing_since", UtcDateTime),
    column("last_error"),
)
"""The table of another feature, referenced only by name."""
_FAILING = select(_destinations).where(
    _destinations.c.failing_since.is_not(None),
    or_(_destinations.c.enabled, _destinations.c.disabled_reason.is_not(None)),
)


def find(context: EvaluationContext) -> Iterator[Finding]:
    for row in context.session.execute(_FAILING):
        failing = context.now - row.failing_since
        if row.enabled and failing < AFTER:
            continue
        given_up = not row.enabled or failing >= GIVEN_UP_AFTER
        evidence = {"destination": row.name, "failing_since": shown(row.failing_since), "last_error": row.last_error}
        severity = Severity.CRITICAL if given_up else Severity.WARNING
        yield Finding(Subject("destination", row.id), severity, evidence)


def message(name: str, evidence: Mapping[str, Any]) -> str:
    del name
    since = on_day(evidence.get("failing_since"))
    return (
        f"Messages to {evidence.get('destination')} have not been delivered since {since}. For the error, see "
        f"holdfast notify deliveries."
    )


KIND = AlarmKind("notifications_failing", find, message)
