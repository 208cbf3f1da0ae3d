"""`storage_full`: the storage of a repository is nearly full, or soon will be."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Float, ScalarSelect, cast, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from holdfast.alarms.kind import AlarmKind, EvaluationContext, Finding, Subject, between_thresholds, shown, unknown
from holdfast.alarms.models import Severity, StorageDay
from holdfast.alarms.thresholds import AlarmThresholds
from holdfast.repositories.models import Repository

Value = TypeVar("Value")
GROWTH_OVER = timedelta(days=14)
GROWTH_NEEDS = timedelta(days=3)
"""A forecast needs measurements over at least this period: one large backup is not a trend."""
CLEAR_PERCENT = 2.0
"""Free space must exceed the threshold by this many percentage points for the alarm to clear."""
CLEAR_DAYS = 1.5
"""The remaining days must exceed the threshold by this factor for the alarm to clear."""
CRITICAL_PERCENT = 3.0


def find(context: EvaluationContext) -> Iterator[Finding]:
    first_at, first_free = _of_first(context, StorageDay.seen_at), _of_first(context, StorageDay.free_bytes)
    rows = _MEASURED.add_columns(first_at.label("first_at"), first_free.label("first_free"))
    for row in context.session.execute(rows.where(or_(_is_low(context), _shrinks(context, first_free)))):
        days_left = _days_left(row)
        finding = _judge(row, days_left, context.thresholds.of(row.id))
        if finding is not None:
            yield finding
    if context.open:
        for repository_id in context.session.scalars(_UNMEASURED.where(Repository.id.in_(context.open))):
            yield unknown(Subject("repository", repository_id))


def _is_low(context: EvaluationContext) -> ColumnElement[bool]:
    """Preselect repositories whose free space is below a threshold, or too close to it for the alarm to clear."""
    percent = context.thresholds.most("storage_free_percent") + CLEAR_PERCENT
    return _TOTAL * (percent / 100) >= _FREE


def _shrinks(context: EvaluationContext, first_free: ScalarSelect[int]) -> ColumnElement[bool]:
    """Preselect repositories that could run out of space in time; growth is measured over at least three days."""
    days = context.thresholds.most("storage_full_days") * CLEAR_DAYS
    used = cast(first_free, Float) - _FREE
    return _FREE * float(GROWTH_NEEDS.days) <= used * days


def _judge(row: Any, days_left: float | None, thresholds: AlarmThresholds) -> Finding | None:
    subject = Subject("repository", row.id)
    percent = 100 * row.storage_free_bytes / row.storage_total_bytes
    limit, days = thresholds.storage_free_percent, thresholds.storage_full_days
    if percent < limit or (days_left is not None and days_left < days):
        evidence = {
            "free_bytes": row.storage_free_bytes,
            "total_bytes": row.storage_total_bytes,
            "free_percent": round(percent, 1),
            "days_left": round(days_left) if days_left is not None and days_left < days else None,
            "measured_at": shown(row.storage_seen_at),
        }
        return Finding(subject, Severity.CRITICAL if percent < CRITICAL_PERCENT else Severity.WARNING, evidence)
    if percent <= limit + CLEAR_PERCENT or (days_left is not None and days_left <= days * CLEAR_DAYS):
        return between_thresholds(subject)
    return None


def _days_left(row: Any) -> float | None:
    """Days until the space runs out at the growth rate of the last 14 days; None if it is not shrinking or unknown."""
    if row.first_at is None:
        return None
    days = (row.storage_seen_at - row.first_at) / timedelta(days=1)
    used = row.first_free - row.storage_free_bytes
    if days < GROWTH_NEEDS.days or used <= 0:
        return None
    return float(row.storage_free_bytes / (used / days))


def _of_first(context: EvaluationContext, column: InstrumentedAttribute[Value]) -> ScalarSelect[Value]:
    """The value of a repository's oldest measurement within the last 14 days, found through the primary key."""
    first = select(column).where(
        StorageDay.repository_id == Repository.id, StorageDay.day >= (context.now - GROWTH_OVER).date()
    )
    return first.order_by(StorageDay.day).limit(1).correlate(Repository).scalar_subquery()


def message(name: str, evidence: Mapping[str, Any]) -> str:
    free = f"{name}: {evidence.get('free_percent')} % of its storage is free"
    days = evidence.get("days_left")
    soon = f", and at the current growth it is full in {days} days" if days is not None else ""
    return f"{free}{soon}. Prune and compact, or add space."


# As floating point: arbitrary large integers from an agent would overflow.
_FREE, _TOTAL = cast(Repository.storage_free_bytes, Float), cast(Repository.storage_total_bytes, Float)
_MEASURED = select(
    Repository.id, Repository.storage_free_bytes, Repository.storage_total_bytes, Repository.storage_seen_at
).where(
    Repository.storage_free_bytes.is_not(None),
    Repository.storage_total_bytes > 0,
    Repository.storage_seen_at.is_not(None),
)
_UNMEASURED = select(Repository.id).where(
    Repository.storage_free_bytes.is_(None) | Repository.storage_seen_at.is_(None)
)
KIND = AlarmKind("storage_full", find, message)
