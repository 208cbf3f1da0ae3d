"""Due times for machines that are not always on, based on when the last backup succeeded."""

from datetime import UTC, datetime, timedelta

FIRST_WAIT = timedelta(hours=1)
AT_ONCE = datetime(1970, 1, 1, tzinfo=UTC)
MOST_DOUBLINGS = 20


def next_due_after(
    last_success: datetime | None, failures_since: int, last_try: datetime | None, gap: timedelta
) -> datetime:
    """Given what happened so far, return when the next run is due. If nothing has happened yet, that is long past.

    After a failure, the next attempt waits 1, 2, 4 … hours, at most the gap, and never comes sooner than the gap after
    a success.
    """
    due = last_success + gap if last_success is not None else AT_ONCE
    if failures_since > 0 and last_try is not None:
        wait = FIRST_WAIT * 2 ** min(failures_since - 1, MOST_DOUBLINGS)
        due = max(due, last_try + min(wait, gap))
    return due
