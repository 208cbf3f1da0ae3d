"""The reconcile tick: keeps derived data fresh, once per interval across all processes."""

from datetime import datetime, timedelta

from holdfast.kit import clock
from holdfast.operations import limits, queue
from holdfast.operations.derived import DerivedDataSource
from holdfast.storage.session import Database

LAST = "last_reconcile_at"


def reconcile_if_due(database: Database, source: DerivedDataSource, interval_minutes: int) -> bool:
    """Run the tick if none has run for an interval; return whether it ran."""
    interval = timedelta(minutes=interval_minutes)
    with database.reading() as session:
        if not _is_due(limits.get(session, LAST), interval):
            return False
    with database.writing() as session:
        queue.serialise_claims(session)
        if not _is_due(limits.get(session, LAST), interval):
            return False
        source.reconcile(session)
        limits.put(session, LAST, clock.now().isoformat())
        return True


def _is_due(last: str | None, interval: timedelta) -> bool:
    return last is None or clock.is_due(datetime.fromisoformat(last) + interval, clock.now(), interval)
