"""The end time of an operation, for everything written in the transaction that records its end.

An engine may end while the service is down, and an agent may report late. The record then carries the time at which the
work ended, not the time at which the service noticed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy.orm import Session

from holdfast.kit import clock

KEY = "holdfast_ended_at"


@contextmanager
def recording_end(session: Session, ended_at: datetime) -> Iterator[None]:
    """Within this block, everything written belongs to an operation that ended at this time."""
    session.info[KEY] = ended_at
    try:
        yield
    finally:
        session.info.pop(KEY, None)


def end_of_work(session: Session) -> datetime:
    """Return when the operation that is being recorded ended; outside `recording_end`, return the current time."""
    ended_at: datetime = session.info.get(KEY) or clock.now()
    return ended_at


def within(moment: datetime | None, earliest: datetime | None) -> datetime:
    """Return a reported time, limited to the span from the start of the work to now. Without a reported time: now."""
    now = clock.now()
    if moment is None:
        return now
    return min(max(moment, earliest or moment), now)
