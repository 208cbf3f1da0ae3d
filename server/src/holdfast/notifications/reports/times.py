"""When reports are due."""

from datetime import datetime, time, timedelta

from holdfast.kit import zones

LONGEST_WAIT_DAYS = 9
"""A weekly report comes within eight days, and the search begins a day early."""


def next_time(at: str, timezone: str, weekday: int | None, after: datetime) -> datetime:
    """Return the next time of day in a zone after a moment, on a given weekday for weekly reports.

    The same rule as for schedules applies: a time skipped when summer time begins is due at the first instant after the
    gap, and a time in a repeated hour is due once.
    """
    zone = timezone if timezone in zones.known() else "UTC"  # an earlier version accepted the machine's time zones
    day = zones.to_local(zone, after).date() - timedelta(
        days=1
    )  # yesterday's may come today: clocks go back at midnight
    for _ in range(LONGEST_WAIT_DAYS + 1):
        due = zones.first_instant(zone, datetime.combine(day, time.fromisoformat(at)))
        if due > after and weekday in (None, day.isoweekday()):
            return due
        day += timedelta(days=1)
    raise AssertionError("every day of the week comes within nine days")
