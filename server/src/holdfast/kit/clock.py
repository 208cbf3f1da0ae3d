"""The only place that reads the clock, and the format of times in answers."""

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def seconds_between(earlier: datetime, later: datetime) -> float:
    return (later - earlier).total_seconds()


def with_offset(value: datetime) -> str:
    """Format a time for an answer."""
    return value.astimezone(UTC).isoformat(timespec="microseconds")
