"""The only place that reads the clock."""

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def seconds_between(earlier: datetime, later: datetime) -> float:
    return (later - earlier).total_seconds()
