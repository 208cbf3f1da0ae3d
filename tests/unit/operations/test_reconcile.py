"""The reconcile tick."""

from datetime import UTC, datetime, timedelta

import time_machine
from sqlalchemy.orm import Session

from holdfast.runner.reconcile import reconcile_if_due
from holdfast.storage.session import Database

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Source:
    def reconcile(self, session: Session) -> None:
        pass


def test_it_runs_once_per_interval_also_after_the_clock_was_ahead(database: Database) -> None:
    ran = []
    with time_machine.travel(NOON + timedelta(days=365), tick=False) as traveller:
        ran.append(reconcile_if_due(database, Source(), 60))
        traveller.move_to(NOON)
        for minutes in (0, 59, 1):
            traveller.shift(timedelta(minutes=minutes))
            ran.append(reconcile_if_due(database, Source(), 60))

    assert ran == [True, True, False, True]
