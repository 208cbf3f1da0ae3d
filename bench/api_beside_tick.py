"""The API of a real service while its tick releases thousands of runs, compared with the same service with nothing due.

The repositories belong to an agent that is online but takes no jobs, so no engine runs and only the tick is measured.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import func, select, update

from bench.filling_schedules import fill
from bench.report import Measurement, Options
from bench.running import folder, serving, settings_for, signed_in
from bench.timing import milliseconds, percentile
from holdfast.kit import clock
from holdfast.operations import limits
from holdfast.runner import reconcile
from holdfast.schedules.models import Schedule, ScheduleRun
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.support.service import Client
from tests.unit.schedules.running.world import World

TIMES_IDLE = 2.0
"""Limit for the 99th percentile during the tick, relative to that without it."""
READS = ("/api/auth/me", "/api/repositories/1", "/api/operations/?limit=20", "/api/schedules/1")
PAUSE_SECONDS = 0.002
IDLE_SECONDS = 6.0
DEADLINE_SECONDS = 300.0


def run(options: Options, number: int) -> list[Measurement]:
    with folder() as place, settings_for(place / "data", options.store) as settings, serving(settings) as service:
        admin = signed_in(service)
        with _opened(settings) as database:
            _fill(database, number)
            idle, beside, after = _measured(admin, database, number)
    ratio = percentile(beside.all_reads, 99) / percentile(idle.all_reads, 99)
    return [
        Measurement(
            f"schedules: 99th percentile of reads beside a tick with {number} due, against none due",
            ratio,
            "times",
            TIMES_IDLE,
            f"{_shown(beside.all_reads)} beside, {_shown(idle.all_reads)} idle;"
            f" {len(beside.all_reads)} and {len(idle.all_reads)} reads",
        ),
        Measurement(
            "schedules: the same, against the service in which all of them wait",
            percentile(beside.all_reads, 99) / percentile(after.all_reads, 99),
            "times",
            note=f"{_shown(after.all_reads)} after the tick",
        ),
        *(_one_read(path, idle.reads[path], beside.reads[path], after.reads[path]) for path in READS),
        Measurement(
            "schedules: the same for writes",
            percentile(beside.writes, 99) / percentile(idle.writes, 99),
            "times",
            note=f"{_shown(beside.writes)} beside, {_shown(idle.writes)} idle",
        ),
        Measurement("schedules: a service releases them all", beside.seconds, "s"),
    ]


def _one_read(path: str, idle: list[float], beside: list[float], after: list[float]) -> Measurement:
    phases = zip(("idle", "beside", "after"), (idle, beside, after), strict=True)
    medians = ", ".join(
        f"{phase} {milliseconds(percentile(times, 50)):.1f} and {milliseconds(percentile(times, 99)):.1f} ms"
        for phase, times in phases
    )
    return Measurement(
        f"schedules: GET {path}",
        percentile(beside, 99) / percentile(idle, 99),
        "times",
        note=f"median, 99th: {medians}",
    )


def _shown(times: list[float]) -> str:
    return f"{milliseconds(percentile(times, 99)):.1f} ms"


@contextmanager
def _opened(settings: Settings) -> Iterator[Database]:
    database = Database(settings.database_url or f"sqlite:///{settings.data_dir / 'holdfast.db'}")
    try:
        yield database
    finally:
        database.dispose()


def _fill(database: Database, number: int) -> None:
    """Create schedules that are due in an hour, for repositories of an agent that is always online. Nothing is overdue
    or waiting to be indexed, because the first rounds of alarms and derived data over this many repositories would be
    measured too.
    """
    now = clock.now()
    agent = World(database).agent(last_seen_at=now + timedelta(days=1))
    evidence = dict.fromkeys(("last_backup", "last_check", "last_restore_check"), now)
    fill(database, number, {"execution_target": "agent", "agent_machine_id": agent, **evidence})
    with database.writing() as session:
        session.execute(update(Schedule).values(next_due_at=now + timedelta(hours=1)))
        limits.put(session, reconcile.LAST, now.isoformat())


@dataclass
class _Times:
    reads: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    writes: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def all_reads(self) -> list[float]:
        return [each for times in self.reads.values() for each in times]


def _measured(admin: Client, database: Database, number: int) -> tuple[_Times, _Times, _Times]:
    """Measure with nothing due, during the tick, and after it: the list of operations slows down the more of them
    wait.
    """
    _ask(admin, _Times())  # what is built on first use should not be measured
    beside = _Times()
    idle = _for_a_while(admin)
    with database.writing() as session:
        session.execute(update(Schedule).values(next_due_at=clock.now()))
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not _rows(database):  # the tick looks at least every 15 seconds
        assert time.monotonic() < deadline, "nothing was found due"
        time.sleep(0.01)
    began = time.monotonic()
    while (released := _rows(database, ScheduleRun.released_at.is_not(None))) < number:
        assert time.monotonic() < deadline, f"{released} of {number} were released"
        _ask(admin, beside)
    beside.seconds = time.monotonic() - began
    return idle, beside, _for_a_while(admin)


def _for_a_while(admin: Client) -> _Times:
    times, end = _Times(), time.monotonic() + IDLE_SECONDS
    while time.monotonic() < end:
        _ask(admin, times)
    return times


def _ask(admin: Client, times: _Times) -> None:
    for path in READS:
        _timed(times.reads[path], partial(admin.get, path))
    labels = {"number": str(len(times.writes))}
    _timed(times.writes, partial(admin.put, "/api/repositories/1", json={"labels": labels}))


def _timed(times: list[float], call: Callable[[], Any]) -> None:
    time.sleep(PAUSE_SECONDS)
    began = time.perf_counter()
    answer = call()
    times.append(time.perf_counter() - began)
    assert answer.status_code == 200, answer.text


def _rows(database: Database, *conditions: Any) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(ScheduleRun).where(*conditions)) or 0
