"""When to expect backups: as requested, as scheduled, or as often as in the past."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Literal

from backup_engine.frozen import frozen

Origin = Literal["request", "schedule", "past", "assumed"]
FEWEST_FOR_AN_INTERVAL = 3
LAST_ONES = 30
DAILY = timedelta(days=1)
SHORTEST = timedelta(minutes=5)


@frozen
class ExpectedBackups:
    origin: Origin
    starts: tuple[datetime, ...]
    """Oldest first."""
    every: timedelta | None = None
    """None if a calendar determines the times."""


def regular(origin: Origin, every: timedelta, last: datetime | None, now: datetime, until: datetime) -> ExpectedBackups:
    """Return future backups at regular intervals, counted from the last one.

    An archive may have any date; one in the future counts as made now.
    """
    first = (now if last is None else min(last, now)) + every
    if first <= now:
        first += every * ((now - first) // every + 1)
    count = max(0, (until - first) // every + 1) if first <= until else 0
    return ExpectedBackups(origin, tuple(first + number * every for number in range(count)), every)


def usual_interval(starts: Sequence[datetime]) -> timedelta | None:
    """Return the usual interval between the newest archives, given newest first; None if there are too few of them.

    Archives that span less than a day do not count: the first ones of a repository are often trials.
    """
    known = starts[:LAST_ONES]
    if len(known) < FEWEST_FOR_AN_INTERVAL or starts[0] - starts[-1] < DAILY:
        return None
    usual = timedelta(seconds=median((newer - older).total_seconds() for newer, older in pairwise(known)))
    return max(usual, SHORTEST)
