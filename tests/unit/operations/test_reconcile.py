"""When the reconcile tick runs."""

from datetime import timedelta
from pathlib import Path
from typing import cast

import time_machine

from holdfast.operations.derived import DerivedDataSource
from holdfast.runner.reconcile import reconcile_if_due
from tests.support.stores import a_store


class Source:
    def reconcile(self, _session: object) -> None:
        pass


def test_it_runs_once_per_interval_and_goes_on_after_the_clock_went_back(tmp_path: Path) -> None:
    source = cast("DerivedDataSource", Source())
    with a_store("sqlite", tmp_path) as database, time_machine.travel("2027-06-01T12:00:00Z", tick=False) as clock:

        def ran() -> bool:
            return reconcile_if_due(database, source, 60)

        assert (ran(), ran()) == (True, False)
        clock.shift(timedelta(minutes=60))
        assert ran()
        clock.shift(timedelta(days=-400))
        assert (ran(), ran()) == (True, False)
