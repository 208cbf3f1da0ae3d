"""Quiet hours: whether they hold back a message, and until when."""

from datetime import datetime, time, timedelta
from typing import Any

from holdfast.kit import zones

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def quiet_until(quiet: dict[str, Any] | None, now: datetime) -> datetime | None:
    """Return when the current quiet hours end; None outside quiet hours.

    Hours that end before they begin last past midnight; `days` lists the days on which they begin.
    """
    if not quiet or quiet["timezone"] not in zones.known():  # an earlier version accepted the machine's time zones
        return None
    zone = zones.zone(quiet["timezone"])
    local = now.astimezone(zone)
    begin, end = time.fromisoformat(quiet["from"]), time.fromisoformat(quiet["to"])
    for days_ago in (0, 1):
        day = local.date() - timedelta(days=days_ago)
        if DAYS[day.weekday()] not in (quiet.get("days") or DAYS):
            continue
        last_day = day if begin < end else day + timedelta(days=1)
        first, last = datetime.combine(day, begin, zone), datetime.combine(last_day, end, zone)
        if first.timestamp() <= now.timestamp() < last.timestamp():
            return datetime.fromtimestamp(last.timestamp(), now.tzinfo)
    return None
