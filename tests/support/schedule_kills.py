"""Processes that tick over one store and are killed at random moments, on a clock that runs a quarter of an hour per
second.

`python -m tests.support.schedule_kills STORE_URL KILLS [SEED]` runs a campaign and prints its findings.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import select, text

from holdfast.kit.supervisor import Supervisor
from holdfast.operations import transitions
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import Status
from holdfast.schedules.calendar import plan
from holdfast.schedules.models import Schedule, ScheduleRun
from holdfast.schedules.running import run_results
from holdfast.schedules.running.plans import calendar_of
from holdfast.schedules.running.tick import Tick
from holdfast.storage.session import Database
from tests.support.service import wait_until
from tests.unit.schedules.running.world import REGISTRY, World

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
SPEED = 900.0
SCHEDULES = 12
REPOSITORIES = 4
STEPS = [{"kind": "backup"}, {"kind": "prune", "keep_daily": 7}, {"kind": "check", "every_days": 1}]
PATTERNS = ("0 * * * *", "*/20 * * * *", "30 */3 * * *", "15 2 * * *")
MOST_WORK_SECONDS = 0.25
"""Processor time until a process is killed, so that even on a busy machine the kills hit processes at work."""


@dataclass
class Findings:
    kills: int = 0
    rows: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    without_outcome: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.without_outcome)


def prepare(url: str) -> None:
    database = Database(url)
    world = World(database, now=BEGIN)
    repositories = [world.repository() for _ in range(REPOSITORIES)]
    for number in range(SCHEDULES):
        world.schedule(
            *repositories,
            cron_expression=PATTERNS[number % len(PATTERNS)],
            steps=STEPS,
            overlap="queue" if number % 2 else "skip",
            catch_up="skip" if number % 3 == 2 else "once",
            spread_minutes=10 if number % 4 == 0 else 0,
            retries=1,
        )
    database.dispose()


class Worker:
    """The work of each process. Created and used once before processes are forked, so that they compile no
    statements.
    """

    def __init__(self, url: str, clock_began: float) -> None:
        self._clock_began = clock_began
        self.database = Database(url, pool_size=2)
        self._tick = Tick(self.database, REGISTRY, Supervisor())
        self._tick.read_clock = lambda _session: virtual(clock_began)

    def once(self, chance: random.Random) -> None:
        """Tick, let some operations end, settle."""
        self._tick.once()
        now = virtual(self._clock_began)
        with self.database.writing() as session:
            end_some(session, chance, now)
        with self.database.writing() as session:
            run_results.sweep(session, now)

    def for_ever(self, seed: int) -> None:
        chance = random.Random(seed)
        while True:
            self.once(chance)


def end_some(session: Any, chance: random.Random, now: datetime, most: int = 40) -> int:
    """Let some waiting operations run and end, some of them with failures."""
    statement = select(Operation).where(Operation.status == Status.PENDING).order_by(Operation.id).limit(most)
    ended = 0
    for operation in session.scalars(statement.with_for_update(skip_locked=True)).all():
        dependency = session.get(Operation, operation.depends_on_id) if operation.depends_on_id else None
        if dependency is not None and dependency.status in ("pending", "running"):
            continue
        session.refresh(operation)
        if operation.status != Status.PENDING:
            continue
        transitions.move(session, operation.id, Status.PENDING, Status.RUNNING, started_at=now, runner_id="r")
        session.refresh(operation)
        status = chance.choice([Status.COMPLETED] * 6 + [Status.FAILED])
        key = chance.choice(["engine.locked", "engine.disk_full"]) if status is Status.FAILED else None
        transitions.finish(session, REGISTRY, operation, Outcome(status, error_key=key))
        ended += 1
    return ended


def virtual(clock_began: float) -> datetime:
    return BEGIN + timedelta(seconds=(time.time() - clock_began) * SPEED)


def campaign(url: str, kills: int, *, processes: int = 3, seed: int = 1) -> Findings:
    """Keep some processes ticking, kill them `kills` times in total, and then check the content of the store."""
    prepare(url)
    chance = random.Random(seed)
    began = time.time()
    worker = Worker(url, began)
    worker.once(chance)
    worker.database.dispose()  # so that no connection is open in two processes
    living: list[int] = []
    try:
        for number in range(kills):
            while len(living) < processes:
                living.append(_fork(worker, seed * 100_000 + number * 10 + len(living)))
            victim = living.pop(chance.randrange(len(living)))
            _let_work(victim, chance.uniform(0, MOST_WORK_SECONDS))
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
    finally:
        for pid in living:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    _wait_for_the_killed(url)
    return examine(url, virtual(began), kills)


def _let_work(pid: int, seconds: float) -> None:
    """Wait until a process has used this much processor time, or a little longer, as others may have the write lock."""
    used, deadline = _processor_of(pid), time.monotonic() + 3 * seconds
    while used() < seconds and time.monotonic() < deadline:
        time.sleep(0.002)


def _processor_of(pid: int) -> Callable[[], float]:
    place = Path(f"/proc/{pid}/schedstat")
    return lambda: int(place.read_text().split()[0]) / 1e9


def _wait_for_the_killed(url: str) -> None:
    """Wait until PostgreSQL has noticed the killed clients, which it does only after their statements.

    Until then, the rows that they locked are skipped.
    """
    if not url.startswith("postgresql"):
        return
    others = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    database = Database(url, pool_size=1)

    def are_gone() -> bool:
        with database.reading() as session:  # a transaction sees the same activity until its end
            return not session.scalar(others)

    wait_until(are_gone, what="the end of the connections of killed processes")
    database.dispose()


def _fork(worker: Worker, seed: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            worker.for_ever(seed)
        finally:
            os._exit(1)
    return pid


def examine(url: str, now: datetime, kills: int) -> Findings:
    """Let everything come to its end, then compare the rows with the calendars."""
    database = Database(url)
    found = Findings(kills)
    calm = Tick(database, REGISTRY, Supervisor())
    chance = random.Random(0)
    for _ in range(200):
        calm.once(now)
        with database.writing() as session:
            left = end_some(session, chance, now, 500)
        with database.writing() as session:
            left += run_results.sweep(session, now)
        if not left:
            break
    with database.reading() as session:
        schedules = list(session.scalars(select(Schedule)))
        rows = list(session.scalars(select(ScheduleRun).where(ScheduleRun.voided_at.is_(None))))
        done = list(session.scalars(select(Operation)))
    database.dispose()
    found.rows = len(rows)
    found.outcomes = Counter(f"{row.outcome}:{row.reason or row.result or row.waiting_for}" for row in rows)
    for schedule in schedules:
        _compare(schedule, [row for row in rows if row.schedule_id == schedule.id], now, found)
    _operations(rows, done, found)
    return found


def _compare(schedule: Schedule, rows: list[ScheduleRun], now: datetime, found: Findings) -> None:
    due = set(plan.due_between(calendar_of(schedule), BEGIN, now, 1_000_000))
    by_repository: dict[int, list[ScheduleRun]] = {}
    for row in rows:
        by_repository.setdefault(row.repository_id, []).append(row)
    for repository_id, own in by_repository.items():
        covered: Counter[datetime] = Counter()
        for row in own:
            until = row.due_until or row.due_at
            covered.update(moment for moment in due if row.due_at <= moment <= until)
            if row.due_until is None and row.due_at not in due:
                found.doubled.append(f"{schedule.id}/{repository_id}: {row.due_at} was never due")
        found.lost += [f"{schedule.id}/{repository_id}: {moment}" for moment in sorted(due - set(covered))]
        found.doubled += [f"{schedule.id}/{repository_id}: {one}" for one, times in covered.items() if times > 1]
        waiting = [row for row in own if row.settled_at is None and row.waiting_for != "retry"]
        newest = max(row.due_at for row in own)
        found.without_outcome += [
            f"{schedule.id}/{repository_id}: {row.due_at} {row.outcome} {row.waiting_for}"
            for row in waiting
            if row.due_at != newest and row.start_at <= now
        ]


def _operations(rows: list[ScheduleRun], done: list[Operation], found: Findings) -> None:
    """Check that each released row has exactly the operations that it lists and their retries, and that no others
    exist.
    """
    named = Counter(step["operation_id"] for row in rows for step in row.steps if step.get("operation_id"))
    retried = {operation.retry_of for operation in done if operation.retry_of}
    known = {operation.id for operation in done}
    found.lost += [f"operation {number} of a row" for number in set(named) - known]
    found.doubled += [f"operation {number} belongs to no row" for number in known - set(named) - retried]
    found.doubled += [f"operation {number} belongs to several rows" for number, times in named.items() if times > 1]


def main() -> None:
    url, kills = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else uuid4().int % 10_000
    began = time.monotonic()
    found = campaign(url, kills, seed=seed)
    print(f"{found.kills} kills, seed {seed}, {found.rows} rows, {time.monotonic() - began:.0f} s")
    print(dict(found.outcomes))
    print("lost", found.lost[:10], "doubled", found.doubled[:10], "without outcome", found.without_outcome[:10])
    sys.exit(0 if found.is_clean else 1)


if __name__ == "__main__":
    main()
