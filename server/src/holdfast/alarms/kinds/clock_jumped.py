"""`clock_jumped`: the service's clock was set back, so due times were recomputed."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from holdfast.alarms.kind import THE_SERVICE, AlarmKind, EvaluationContext, Finding, age, on_day, shown
from holdfast.alarms.kinds.schedule_state import clock_jump
from holdfast.alarms.models import Severity

SHOWN_FOR = timedelta(hours=24)


def find(context: EvaluationContext) -> Iterator[Finding]:
    at, seconds = clock_jump(context.session)
    if at is not None and context.now - at < SHOWN_FOR:
        yield Finding(THE_SERVICE, Severity.WARNING, {"jumped_at": shown(at), "seconds": seconds})


def message(name: str, evidence: Mapping[str, Any]) -> str:
    del name
    by = age(abs(float(evidence.get("seconds") or 0)))
    return f"The service's clock went back by {by} at {on_day(evidence.get('jumped_at'))}; due times were recomputed."


KIND = AlarmKind("clock_jumped", find, message)
