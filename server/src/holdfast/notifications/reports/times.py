"""When reports are due."""

from datetime import datetime, time, timedelta

from holdfast.kit import zones

LONGEST_WAIT_DAYS = 9
"""A weekly report comes within eight days; looking begins a day early."""


def next_time(at: str, timezone: str, weekday: int | None, after: datetime) -> datetime:
    """Given a time of day in a zone, and a day of the week for weekly reports, return when it comes next.

    The rule of schedules holds: a time in the gap of a change to summer time is due at the first instant after it; in a
    repeated hour it is due once.
    """
    zone = timezone if timezone in zones.known() else "UTC"  # an earlier release took zones of its machine
    day = zones.to_local(zone, after).date() - timedelta(
        days=1
    )  # yesterday's may come today: clocks go back at midnight
    for _ in range(LONGEST_WAIT_DAYS + 1):
        due = zones.first_instant(zone, datetime.combine(day, time.fromisoformat(at)))
        if due > after and weekday in (None, day.isoweekday()):
            return due
        day += timedelta(days=1)
    raise AssertionError("every day of the week comes within nine days")
