"""The tick with many schedules: 10,000 due at once, none due, the delay between a due time and its release, and the
response times of the API meanwhile.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psutil

from bench import api_beside_tick
from bench.filling_schedules import fill
from bench.report import Bench, Measurement, Options
from bench.running import folder
from bench.timing import processor_seconds
from holdfast.kit import clock
from holdfast.kit.supervisor import Supervisor
from holdfast.schedules.running.tick import Tick
from holdfast.storage.session import Database
from tests.support.stores import a_store
from tests.unit.schedules.running.world import NIGHTLY, REGISTRY, World, at

DUE_SECONDS = 3.0
TRANSACTION_MILLISECONDS = 100.0
IDLE_MILLISECONDS = 2.0
RELEASE_MILLISECONDS = 1000.0


def run(options: Options) -> list[Measurement]:
    number = 2_000 if options.quick else 10_000
    with folder() as place, a_store(options.store, place) as database:
        fill(database, number)
        tick = Tick(database, REGISTRY, Supervisor())
        tick.once(at(2, 1))
        idle = _idle(tick, options.repeats(200))
        tick.longest_transaction_seconds = 0.0
        began, before, server_before = time.monotonic(), time.process_time(), _of_server()
        tick.once(at(2, 2))
        busy, used, by_server = time.monotonic() - began, time.process_time() - before, _of_server() - server_before
        rows = len(World(database).rows())
    waits = _due_to_released(options)
    return [
        Measurement(
            f"schedules: tick with {number} due at once",
            busy,
            "s",
            DUE_SECONDS * number / 10_000,
            f"processor {used:.2f} s" + (f", that of the server {by_server:.2f} s" if by_server else ""),
        ),
        Measurement("schedules: due times without a row", number - rows, "rows", 0),
        Measurement(
            "schedules: longest transaction of that tick",
            tick.longest_transaction_seconds * 1000,
            "ms",
            TRANSACTION_MILLISECONDS,
        ),
        Measurement(f"schedules: tick with {number} schedules, none due", idle * 1000, "ms", IDLE_MILLISECONDS),
        Measurement("schedules: due to released, 99th percentile", waits * 1000, "ms", RELEASE_MILLISECONDS),
        *api_beside_tick.run(options, number),
    ]


def _of_server() -> float:
    """Processor seconds that the PostgreSQL server of this process has used."""
    return sum(processor_seconds(child.pid)() for child in psutil.Process().children(recursive=True))


def _idle(tick: Tick, repeats: int) -> float:
    """The median duration of a tick that finds nothing to do."""
    times = []
    for number in range(repeats):
        began = time.monotonic()
        tick.once(at(2, 1) + timedelta(milliseconds=number + 1))
        times.append(time.monotonic() - began)
    return sorted(times)[len(times) // 2]


def _due_to_released(options: Options) -> float:
    """The delay from the due time to the release, with the tick as the service runs it."""
    with folder() as place, a_store(options.store, place) as database, _ticking(database) as tick:
        world = World(database, now=clock.now())
        waits = []
        for _ in range(options.repeats(25)):
            due = clock.now() + timedelta(seconds=1.2)
            repository = world.repository()
            schedule = world.schedule(repository, next_due_at=due, **NIGHTLY)
            tick.wake.notify()
            while not (rows := [row for row in world.rows(schedule) if row.released_at is not None]):
                time.sleep(0.02)
            waits.append((rows[0].released_at - due).total_seconds())  # type: ignore[operator]
    return sorted(waits)[int(len(waits) * 0.99)]


@contextmanager
def _ticking(database: Database) -> Iterator[Tick]:
    supervisor = Supervisor()
    tick = Tick(database, REGISTRY, supervisor)
    tick.start()
    try:
        yield tick
    finally:
        supervisor.stop()


BENCH = Bench("10,000 schedules due at once are released within 3 s, in transactions of at most 100 ms", run)
