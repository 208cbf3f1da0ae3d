"""Quiet hours: when they hold a message, and until when."""

from datetime import datetime, time, timedelta
from typing import Any

from holdfast.kit import zones

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def quiet_until(quiet: dict[str, Any] | None, now: datetime) -> datetime | None:
    """Given quiet hours and a time, return when they end, or None outside them.

    Hours that end before they begin last past midnight; `days` are those on which they begin.
    """
    if not quiet or quiet["timezone"] not in zones.known():  # an earlier release took zones of its machine
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
