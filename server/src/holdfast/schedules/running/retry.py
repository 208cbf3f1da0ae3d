"""Decides which failures are retried, and when. Pure: no store."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from holdfast.operations.temporary_failures import TEMPORARY
from holdfast.schedules.running.steps import SCRIPT_KIND

PREPARED = frozenset({"backup", "dump"})
"""Kinds that scripts prepare and clean up after."""
FIRST = timedelta(minutes=5)
FACTOR = 3
LONGEST = timedelta(hours=6)


def delay(tries: int) -> timedelta:
    """Return how long to wait before the next try, given the number of tries so far: 5, 15, 45 … minutes."""
    factor: int = FACTOR ** min(max(tries, 1) - 1, 10)
    return min(LONGEST, FIRST * factor)


def next_try(
    error_key: str | None, tries: int, retries: int, next_due_at: datetime | None, now: datetime
) -> datetime | None:
    """Return when a failed run is retried; None if it is not. `tries`: how often it has run."""
    if error_key not in TEMPORARY or tries > retries:
        return None
    moment = now + delay(tries)
    return None if next_due_at is not None and moment >= next_due_at else moment


def to_repeat(operations: Iterable[tuple[str, str, str | None]]) -> list[int]:
    """Given kind, status and skip reason of each operation in order, return the positions of those to queue again.

    These are operations that failed with a passing error, and those skipped because of it; successful ones are not
    repeated. Scripts belong to the backup that they prepare and clean up after: they run again with it, and never
    without it.
    """
    known = list(operations)
    again = [
        place
        for place, (kind, status, reason) in enumerate(known)
        if kind != SCRIPT_KIND and (status == "failed" or (status == "skipped" and reason == "dependency_failed"))
    ]
    with_scripts = any(known[place][0] in PREPARED for place in again)
    scripts = [place for place, (kind, _, _) in enumerate(known) if kind == SCRIPT_KIND and with_scripts]
    return sorted([*again, *scripts])
