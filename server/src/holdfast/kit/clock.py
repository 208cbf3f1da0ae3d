"""The only place that reads the clock, and how answers write a time."""

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def seconds_between(earlier: datetime, later: datetime) -> float:
    return (later - earlier).total_seconds()


def with_offset(value: datetime) -> str:
    """A time in an answer."""
    return value.astimezone(UTC).isoformat(timespec="microseconds")
