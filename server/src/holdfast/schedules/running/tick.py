"""The tick: every process that runs operations writes due rows, releases runs and settles them.

Any number of processes may do so.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar

from sqlalchemy.orm import Session

from holdfast.api.parts import Part
from holdfast.kit import request_priority
from holdfast.kit.supervisor import Supervisor
from holdfast.operations.kinds import Registry
from holdfast.schedules import store
from holdfast.schedules.running import due, immediate_release, machines, release, run_results, schedule_clock
from holdfast.schedules.running.due import Done, Due, read_tick_state, write_due_rows
from holdfast.storage.bulk import plan_for_size
from holdfast.storage.session import Database, wake_after_commit

Answer = TypeVar("Answer")

NAME = "schedules"
MACHINES = "schedule-machines"
LONGEST_PAUSE_SECONDS = 15.0
SHORTEST_PAUSE_SECONDS = 0.05
BETWEEN_HINTS_SECONDS = 0.25
MACHINES_SECONDS = 5.0
NOTED_EVERY = timedelta(seconds=10)
SWEEP_EVERY = timedelta(minutes=1)
MOST_ROUNDS = 1000
"""Maximum number of transactions of one kind per tick; the next tick does the rest."""
FIRST_SIZE, LEAST_SIZE = 50, 25
TRANSACTION_SECONDS = 0.04
"""Target duration of a transaction. On SQLite nobody else can write meanwhile, so slow machines do less in each one."""
BESIDE_REQUESTS_SECONDS = 0.01
"""The same while requests arrive, since a read during a transaction shares the interpreter with it."""
COURTESY = 2.0
"""How long the tick gives way to requests: a multiple of a transaction's target (within it) or duration (after it).

On a busy machine both take longer, and so does the request that the tick waits for.
"""
LONGEST_COURTESY_SECONDS = 0.1
SHARE_OF_OWN_WORK = 0.6
"""On a busy machine, a transaction takes longer than its own work; smaller ones would only add to that work."""


class _Took(NamedTuple):
    """Durations in seconds."""

    clock: float
    processor: float


class Tick:
    """One process's share of the work."""

    def __init__(self, database: Database, registry: Registry, supervisor: Supervisor) -> None:
        self._database = database
        self._registry = registry
        self._supervisor = supervisor
        self.wake = database.wake
        """A hint that something has changed and may be due sooner than the tick expects."""
        self.read_clock: Callable[[Session], datetime] = schedule_clock.now_of
        self._knows_zones = False
        self._swept_at: datetime | None = None
        self.longest_transaction_seconds = 0.0

    def start(self) -> None:
        self._supervisor.keep_running(NAME, self._run)
        self._supervisor.every(MACHINES, MACHINES_SECONDS, self.try_machines)

    def _run(self) -> None:
        while not self._supervisor.stopping.is_set():
            seen = self.wake.number
            pause = self.once()
            self._supervisor.record_working(NAME)
            self._pause(seen, pause)

    def _pause(self, seen: int, seconds: float) -> None:
        """Wait in short stretches, so that a shutdown is noticed. There may be hundreds of hints per second."""
        end = time.monotonic() + seconds
        self._supervisor.stopping.wait(min(seconds, BETWEEN_HINTS_SECONDS))
        while (left := end - time.monotonic()) > 0 and not self._supervisor.stopping.is_set():
            if self.wake.wait(seen, min(left, 1.0)) != seen:
                return

    def once(self, now: datetime | None = None) -> float:
        """Do everything that is due; return for how many seconds there is nothing to do. `now` is for tests."""
        began = time.monotonic()
        with self._database.reading() as session:
            seen = read_tick_state(session)
            moment = now or self.read_clock(
                session
            )  # read after the last noted tick, so a stall in between does not look like a clock that went back
        following, is_changed = seen.next_moment, False
        if schedule_clock.went_back(seen.last_tick_at, moment) or not self._knows_zones:
            self._put_right(now, moment)
            following = moment
        if following is not None and following <= moment:
            is_changed = True
            self._write_due_rows(moment)
            self._repeat(
                lambda session, most: release.release_rows(session, self._registry, moment, most=most),
                release.ROWS_AT_ONCE,
            )
        self._sweep(moment)
        self._note(seen.last_tick_at, moment, began, busy=is_changed)
        if is_changed:
            with self._database.reading() as session:
                following = read_tick_state(session).next_moment
        return self._free_seconds(following, moment, began)

    def _write_due_rows(self, moment: datetime) -> None:
        released = partial(_release_immediately, self._registry)
        try:
            self._repeat(lambda session, most: write_due_rows(session, moment, most, released), due.ROWS_AT_ONCE)
        except due.AlreadyWritten:  # for example after the clock went back: row by row, in two steps
            self._repeat(lambda session, most: write_due_rows(session, moment, most), due.ROWS_AT_ONCE)

    def _free_seconds(self, following: datetime | None, moment: datetime, began: float) -> float:
        if following is None:
            return LONGEST_PAUSE_SECONDS
        left = (following - moment).total_seconds() - (time.monotonic() - began)
        return min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, left))

    def _put_right(self, given: datetime | None, moment: datetime) -> None:
        """Repair the effects of a wrong clock, and recompute due times based on other time zone data."""
        self._write(lambda session: schedule_clock.repair(session, lambda: given or self.read_clock(session)))
        while not self._knows_zones:
            self._knows_zones = self._write(lambda session: schedule_clock.adopt_zones(session, moment)) == 0

    def _sweep(self, now: datetime) -> None:
        if self._swept_at is not None and self._swept_at <= now < self._swept_at + SWEEP_EVERY:
            return
        self._swept_at = now
        with self._database.reading() as session:
            if not run_results.is_anything_left(session):
                return
        self._write(lambda session: run_results.sweep(session, now))

    def _note(self, noted_at: datetime | None, now: datetime, began: float, *, busy: bool) -> None:
        """Record that the tick works, but not for every empty one."""
        if not busy and noted_at is not None and now - noted_at < NOTED_EVERY:
            return
        milliseconds = int((time.monotonic() - began) * 1000)
        self._write(lambda session: store.note_tick(session, now, milliseconds))

    def try_machines(self, now: datetime | None = None) -> None:
        """Contact ssh machines that runs wait for, and release the runs of those that answer."""
        with self._database.reading() as session:
            moment = now or schedule_clock.now_of(session)
            candidates = machines.to_try(session, moment)
        if not candidates:
            return
        answered = machines.answering(candidates)
        only = [candidate.row_id for candidate in candidates]
        self._write(lambda session: release.release_rows(session, self._registry, moment, answered, only))

    def agents_came_online(self, session: Session, agent_ids: Sequence[int]) -> None:
        """Have the runs that waited for these agents judged."""
        if store.agents_came_online(session, agent_ids, schedule_clock.now_of(session)):
            wake_after_commit(session)

    def _repeat(self, step: Callable[[Session, int], Done], most: int) -> None:
        """Repeat a step until nothing is left, in transactions sized so that each is short."""
        size = FIRST_SIZE
        for _ in range(MOST_ROUNDS):
            done, took = self._timed(partial(_sized, step, size))
            if not done.more or self._supervisor.stopping.is_set():
                break
            wanted = BESIDE_REQUESTS_SECONDS if request_priority.has_requests() else TRANSACTION_SECONDS
            size = next_size(size, max(took.processor, took.clock * SHARE_OF_OWN_WORK), most, wanted)
            request_priority.give_way_for(min(max(wanted, took.clock) * COURTESY, LONGEST_COURTESY_SECONDS))

    def _write(self, step: Callable[[Session], Answer]) -> Answer:
        return self._timed(step)[0]

    def _timed(self, step: Callable[[Session], Answer]) -> tuple[Answer, _Took]:
        """Run one transaction and measure it from when it may write: waiting for others says nothing about its size.

        The time of its commit does not count either: the disk takes as long for a few rows as for many.
        """
        with self._database.writing() as session:
            began, used = time.monotonic(), time.thread_time()
            with request_priority.giving_way_at_most(BESIDE_REQUESTS_SECONDS * COURTESY):
                answer = step(session)
            session.flush()
            clock_of_step = time.monotonic() - began
        took = _Took(clock_of_step, time.thread_time() - used)
        self.longest_transaction_seconds = max(self.longest_transaction_seconds, time.monotonic() - began)
        return answer, took


TICK = Part[Tick]("tick")


def _release_immediately(registry: Registry, session: Session, found: Due) -> list[dict[str, Any]]:
    return immediate_release.release_immediately(session, registry, found)


def _sized(step: Callable[[Session, int], Done], size: int, session: Session) -> Done:
    plan_for_size(session)
    return step(session, size)


def next_size(size: int, seconds: float, most: int, seconds_wanted: float = TRANSACTION_SECONDS) -> int:
    """Given the size of a transaction and how long it took, return the size of the next: at most twice as large."""
    wanted = int(size * seconds_wanted / max(seconds, 1e-6))
    return max(LEAST_SIZE, min(wanted, 2 * size, most))


class LastTick:
    """When any process last checked for due work, remembered for a few seconds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read_at = float("-inf")
        self.at: datetime | None = None

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self._read_at < NOTED_EVERY.total_seconds()

    def read(self) -> datetime | None:
        with self._database.reading() as session:
            self.at = store.last_tick_at(session)
        self._read_at = time.monotonic()
        return self.at
