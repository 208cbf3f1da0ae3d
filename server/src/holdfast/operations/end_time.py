"""When an operation ended, for everything written in the transaction that records its end.

An engine may end while the service is down, and an agent may report late. The record then carries the time of the end,
not the time at which it was noticed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy.orm import Session

from holdfast.kit import clock

KEY = "holdfast_ended_at"


@contextmanager
def recording_end(session: Session, ended_at: datetime) -> Iterator[None]:
    """Everything written inside belongs to an operation that ended at this time."""
    session.info[KEY] = ended_at
    try:
        yield
    finally:
        session.info.pop(KEY, None)


def end_of_work(session: Session) -> datetime:
    """The end of the operation that is being recorded; now, outside of that."""
    ended_at: datetime = session.info.get(KEY) or clock.now()
    return ended_at


def within(moment: datetime | None, earliest: datetime | None) -> datetime:
    """A reported time that cannot be before the work began, nor in the future. Without one: now."""
    now = clock.now()
    if moment is None:
        return now
    return min(max(moment, earliest or moment), now)
