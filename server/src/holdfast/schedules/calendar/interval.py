"""Due times at exact intervals in real time, unaffected by daylight saving and by how long runs take."""

from datetime import datetime, timedelta


def next_after(starts_at: datetime, every: timedelta, after: datetime) -> datetime:
    """Return the first due time later than an instant."""
    if after < starts_at:
        return starts_at
    return starts_at + ((after - starts_at) // every + 1) * every


def count(starts_at: datetime, every: timedelta, after: datetime, until: datetime) -> int:
    """Return how many due times there are with after < due <= until."""
    first = next_after(starts_at, every, after)
    return (until - first) // every + 1 if first <= until else 0
