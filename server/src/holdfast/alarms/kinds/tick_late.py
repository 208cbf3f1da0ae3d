"""`tick_late`: no process checks for due schedules, so none of them starts."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from holdfast.alarms.kind import THE_SERVICE, AlarmKind, EvaluationContext, Finding, on_day, shown
from holdfast.alarms.kinds.schedule_state import last_tick
from holdfast.alarms.models import Severity


def find(context: EvaluationContext) -> Iterator[Finding]:
    last = last_tick(context.session)
    if last is not None and context.now - last > timedelta(minutes=context.thresholds.of_all.tick_late_minutes):
        yield Finding(THE_SERVICE, Severity.CRITICAL, {"last_tick_at": shown(last)})


def message(name: str, evidence: Mapping[str, Any]) -> str:
    del name
    since = on_day(evidence.get("last_tick_at"))
    return f"Schedules have not been checked since {since}: no scheduled work starts. Check the service's log."


# After an hour of downtime the last tick is an hour old, but the next one comes within a minute.
KIND = AlarmKind("tick_late", find, message, raise_after=timedelta(minutes=2))
