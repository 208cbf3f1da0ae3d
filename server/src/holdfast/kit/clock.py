"""The only place that reads the clock, and the format of times in answers."""

from datetime import UTC, datetime, timedelta

WENT_BACK = timedelta(minutes=1)
"""A stored time that is later than possible by more than this was recorded while the clock was ahead."""


def now() -> datetime:
    return datetime.now(UTC)


def is_due(moment: datetime, now: datetime, longest: timedelta) -> bool:
    """Whether a stored time has come. One further in the future than the longest wait counts as due, too."""
    return moment <= now or moment > now + longest + WENT_BACK


def seconds_between(earlier: datetime, later: datetime) -> float:
    return (later - earlier).total_seconds()


def with_offset(value: datetime) -> str:
    """Format a time for an answer."""
    return value.astimezone(UTC).isoformat(timespec="microseconds")
