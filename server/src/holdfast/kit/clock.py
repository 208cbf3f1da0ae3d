"""The one place that asks what time it is."""

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def seconds_between(earlier: datetime, later: datetime) -> float:
    return (later - earlier).total_seconds()
