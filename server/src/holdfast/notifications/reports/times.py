"""When reports are due."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

EVERY_DAY = "*"


def next_time(at: str, timezone: str, weekday: int | None, after: datetime) -> datetime:
    """Given a time of day in a zone, and a day of the week for weekly reports, return when it comes next.

    A time in the gap of a change to summer time is due at the first minute after it; in a repeated hour it is due once.
    """
    hour, minute = at.split(":")
    days = EVERY_DAY if weekday is None else str(weekday % 7)
    calendar = CronSim(f"{int(minute)} {int(hour)} * * {days}", after.astimezone(ZoneInfo(timezone)))
    return next(calendar).astimezone(UTC)
