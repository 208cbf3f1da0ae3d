"""A process that claims operations, keeps them for a moment and ends them: `python -m tests.support.claimer URL
FOLDER`.

It is a runner without engines: it has a runner's lock, takes over what dead runners left, and records in its own file
in FOLDER what it had and when. The times are from a clock that all processes of the machine share.
"""

import os
import random
import socket
import sys
import time
from pathlib import Path

from holdfast.kit import clock
from holdfast.operations import pages, queue, runners, transitions
from holdfast.operations.models import Operation
from holdfast.operations.models import Runner as RunnerRow
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import Status
from holdfast.runner.identity import Identity, is_provably_dead
from holdfast.storage.session import Database
from tests.unit.operations.kernel import REGISTRY

ENDS = (Status.COMPLETED, Status.COMPLETED_WITH_WARNINGS, Status.FAILED)
GO = "go"
STOP = "stop"


class Claimer:
    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.database = Database(url)
        self.identity = Identity(folder / "runners")
        self.held: list[Operation] = []
        self.chance = random.Random(os.getpid())
        self.diary = os.open(folder / f"{os.getpid()}.diary", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def run(self) -> None:
        self.register()
        self.write("ready", 0, 0)
        while not (self.folder / GO).exists():
            time.sleep(0.005)
        while not (self.folder / STOP).exists():
            self.claim()
            self.recover()
            time.sleep(self.chance.uniform(0.001, 0.03))  # the work
            while self.held:
                self.end(self.held.pop())

    def register(self) -> None:
        now = clock.now()
        with self.database.writing() as session:
            session.add(
                RunnerRow(
                    id=self.identity.id,
                    host=socket.gethostname(),
                    host_id=self.identity.host_id,
                    pid=os.getpid(),
                    role="runner",
                    lock_file=str(self.identity.lock_file),
                    started_at=now,
                    heartbeat_at=now,
                )
            )

    def claim(self) -> None:
        with self.database.writing() as session:
            claimed = queue.claim(session, self.identity.id, str(self.folder), capacity=self.chance.randint(1, 3))
        for number in claimed:
            self.hold(number, "claimed")

    def recover(self) -> None:
        """Take over what dead runners left; some of it is found to have run, some never to have started."""
        with self.database.reading() as session:
            dead = {row.id for row in runners.known(session) if is_provably_dead(Path(row.lock_file))}
            left = [one for one in runners.running_in_processes(session) if one.runner_id in dead]
        for operation in left:
            with self.database.writing() as session:
                taken = runners.take_over(session, operation, self.identity.id)
            if taken:
                self.hold(operation.id, "taken over")

    def hold(self, number: int, how: str) -> None:
        with self.database.reading() as session:
            operation = pages.get(session, number)
        assert operation is not None
        self.write(how, number, operation.attempt)
        self.held.append(operation)

    def end(self, operation: Operation) -> None:
        how = self.chance.choice(["again", *ENDS]) if operation.attempt < 3 else self.chance.choice(ENDS)
        self.write("let go", operation.id, operation.attempt)
        with self.database.writing() as session:
            if isinstance(how, Status):
                done = transitions.finish(session, REGISTRY, operation, Outcome(how))
            else:
                done = transitions.requeue_for_next_attempt(session, operation, log_lines=0, delay_seconds=0)
        self.write("ended" if done else "refused", operation.id, operation.attempt)

    def write(self, what: str, number: int, attempt: int) -> None:
        os.write(self.diary, f"{time.monotonic_ns()}\t{what}\t{number}\t{attempt}\n".encode())


if __name__ == "__main__":
    Claimer(sys.argv[1], Path(sys.argv[2])).run()
