"""Real processes claim from one store and some are killed: nothing is held twice, nothing is left behind."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import select

from holdfast.operations import queue
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin
from holdfast.operations.status import TERMINAL, Status, Trigger
from holdfast.storage.session import Database
from tests.support.claimer import GO, STOP
from tests.support.service import PATIENCE, wait_until
from tests.support.stores import a_store_url
from tests.unit.operations.kernel import BACKUP, CHECK, INDEX, RESTORE, change_limits, subject

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = 80
LANES = 5
PROCESSES = 4
KILLS = 3


@dataclass(frozen=True)
class Held:
    """A time span during which a process certainly held an operation."""

    process: int
    operation: int
    attempt: int
    begin: int
    end: int


class Crowd:
    """Claimers on one store. Each one that is killed is replaced by another."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.living: list[subprocess.Popen[bytes]] = []
        self.killed_at: dict[int, int] = {}
        self.known: list[int] = []

    def add(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.support.claimer", self.url, str(self.folder)]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=(self.folder / "errors").open("ab"))
        self.living.append(process)
        self.known.append(process.pid)

    def begin_together(self) -> None:
        wait_until(lambda: all(self.diary(process.pid) for process in self.living), what="all are ready")
        (self.folder / GO).touch()

    def kill_one_that_holds(self, chance: random.Random) -> None:
        """kill -9 a process while its diary shows that it holds an operation."""
        victim = chance.choice(wait_until(self.who_hold, pause=0, what="somebody holds an operation"))
        self.killed_at[victim.pid] = time.monotonic_ns()
        victim.kill()
        victim.wait()
        self.living.remove(victim)

    def who_hold(self) -> list[subprocess.Popen[bytes]]:
        diaries = {process: self.diary(process.pid) for process in self.living}
        return [process for process, diary in diaries.items() if diary and diary[-1][1] in ("claimed", "let go")]

    def stop(self) -> None:
        (self.folder / STOP).touch()
        assert [process.wait(PATIENCE) for process in self.living] == [0] * len(self.living), self.errors()

    def end(self) -> None:
        for process in self.living:
            process.kill()
            process.wait()

    def errors(self) -> str:
        return (self.folder / "errors").read_text()

    def diary(self, pid: int) -> list[tuple[int, str, int, int]]:
        try:
            text = (self.folder / f"{pid}.diary").read_text()
        except FileNotFoundError:
            return []
        lines = (line.split("\t") for line in text.splitlines())
        return [(int(at), what, int(number), int(attempt)) for at, what, number, attempt in lines]

    def entries(self, *whats: str) -> list[tuple[int, int]]:
        """The operations and attempts for which any claimer wrote one of these entries."""
        return [entry[2:] for pid in self.known for entry in self.diary(pid) if entry[1] in whats]

    def held(self) -> list[Held]:
        found: list[Held] = []
        for pid in self.known:
            begun: dict[tuple[int, int], int] = {}
            for at, what, number, attempt in self.diary(pid):
                if what in ("claimed", "taken over"):
                    begun[number, attempt] = at
                elif what == "let go":
                    found.append(Held(pid, number, attempt, begun.pop((number, attempt)), at))
            # Whatever it held when it was killed was its own until then; no other process may have claimed it before.
            found += [Held(pid, *key, begin, self.killed_at[pid]) for key, begin in begun.items()]
        return found


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.campaign), "postgresql"])
def crowd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crowd]:
    with a_store_url(request.param, tmp_path) as url:
        running = Crowd(url, tmp_path)
        try:
            yield running
        finally:
            running.end()


def fill(database: Database, chance: random.Random) -> None:
    change_limits(database, max_running_total=8, max_running_backups=3)
    for _ in range(OPERATIONS):
        kind = chance.choice([BACKUP, BACKUP, CHECK, RESTORE, INDEX])
        with database.writing() as session:
            about = subject(chance.randint(1, LANES))
            queue.enqueue(session, kind, {}, Origin(Trigger.SCHEDULE), subject=about)


def statuses(database: Database) -> dict[int, Status]:
    with database.reading() as session:
        return {number: Status(word) for number, word in session.execute(select(Operation.id, Operation.status))}


def lanes(database: Database) -> dict[int, tuple[str, str]]:
    with database.reading() as session:
        rows = session.execute(select(Operation.id, Operation.lock_key, Operation.lock_mode))
        return {number: (str(lane), str(mode)) for number, lane, mode in rows}


@pytest.mark.slow
def test_claimers_that_are_killed_share_the_work_but_never_an_operation(crowd: Crowd) -> None:
    chance = random.Random(2)
    database = Database(crowd.url)
    fill(database, chance)
    for _ in range(PROCESSES):
        crowd.add()
    crowd.begin_together()
    for _ in range(KILLS):
        crowd.kill_one_that_holds(chance)
        crowd.add()
    wait_until(lambda: set(statuses(database).values()) <= TERMINAL, what="all operations end")
    crowd.stop()

    where = lanes(database)
    database.dispose()
    claimed = crowd.entries("claimed")
    assert len(set(claimed)) == len(claimed), "an attempt was claimed twice"
    ended = crowd.entries("ended")
    assert len(set(ended)) == len(ended), "an attempt was ended twice"
    assert crowd.entries("refused") == []
    assert {number for number, _ in claimed} <= set(where)
    held = crowd.held()
    assert {one.process for one in held} >= set(crowd.known[:PROCESSES]), "the work was not shared"
    assert [pair for pair in overlapping(held) if excluding(where, *pair)] == []


def overlapping(held: list[Held]) -> Iterator[tuple[Held, Held]]:
    """Every pair that was held at the same time."""
    ordered = sorted(held, key=lambda one: one.begin)
    for place, one in enumerate(ordered):
        for other in ordered[place + 1 :]:
            if other.begin >= one.end:
                break
            yield one, other


def excluding(where: dict[int, tuple[str, str]], one: Held, other: Held) -> bool:
    if one.operation == other.operation:
        return True
    (lane, mode), (other_lane, other_mode) = where[one.operation], where[other.operation]
    return lane == other_lane and "exclusive" in (mode, other_mode)
