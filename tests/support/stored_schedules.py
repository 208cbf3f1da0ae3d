"""Schedules that a test adds to the store of a running service, due in a moment."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from holdfast.kit import clock
from holdfast.schedules.models import ScheduleRun
from holdfast.storage.session import Database
from tests.support.service import ServiceProcess, wait_until
from tests.unit.schedules.running.world import World


@contextmanager
def store_of(process: ServiceProcess) -> Iterator[Database]:
    database = Database(process.database_url or f"sqlite:///{process.data_dir / 'holdfast.db'}")
    try:
        yield database
    finally:
        database.dispose()


def due_in_a_moment(process: ServiceProcess, repository_id: int, **values: Any) -> int:
    """Add a schedule that is due every hour, first in two seconds; return its id."""
    starts_at = clock.now().replace(microsecond=0) + timedelta(seconds=2)
    with store_of(process) as database:
        world = World(database, now=clock.now())
        calendar = {"schedule_mode": "interval", "cron_expression": None, "interval_minutes": 60}
        return world.schedule(repository_id, **calendar, starts_at=starts_at, next_due_at=starts_at, **values)


def runs_of(process: ServiceProcess, schedule_id: int) -> list[ScheduleRun]:
    with store_of(process) as database, database.reading() as session:
        statement = select(ScheduleRun).where(ScheduleRun.schedule_id == schedule_id)
        return list(session.scalars(statement.order_by(ScheduleRun.id)))


def settled(process: ServiceProcess, schedule_id: int) -> ScheduleRun:
    """The first run of the schedule, once it has its final state."""
    return wait_until(
        lambda: next((row for row in runs_of(process, schedule_id) if row.settled_at is not None), None),
        pause=0.2,
        what=f"a run of schedule {schedule_id} settles: {[vars(row) for row in runs_of(process, schedule_id)]}",
    )
