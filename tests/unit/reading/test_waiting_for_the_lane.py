"""Requests for files of a repository on a server, and exclusive work on the same lane."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from backup_engine.command import Command
from backup_engine.detect import EngineProgram
from holdfast.downloads.engine_output import ClientGone
from holdfast.errors import Locked
from holdfast.history.chunks.file_chunks import Part
from holdfast.kit.supervisor import Supervisor
from holdfast.operations import queue
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.queue import lane_of
from holdfast.operations.status import Status, Trigger
from holdfast.reading import locked_reader, readers
from holdfast.reading.readers import NotReadable, Readers
from holdfast.repositories.models import Repository
from holdfast.runner.inline import InlineCalls
from holdfast.runner.lane_ticket import TICKET, LaneTicket, without_a_thread
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.support.service import PATIENCE, wait_until
from tests.support.stores import KINDS, a_store
from tests.unit.operations import kernel

PARTS = [Part(b"c" * 32, 3, 0, 3)]
LANE = lane_of(1)
ASKED_BY = 6
"""Requests that wait at the same time."""


class Link:
    """The helper that reads through `borg serve`, as far as a reader uses it."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.is_usable = True
        self.repository_id = "e" * 64

    def __enter__(self) -> None:
        self._world.events.append("reader")

    def read(self, _parts: list[Part]) -> bytes:
        self._world.events.append("read")
        return b"abc"

    def leave(self, _seconds: float) -> None:
        self.is_usable = False


class World:
    """A service with one repository on a server: the lane and the readers are real, the link is not."""

    def __init__(self, database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.database = database
        self.events: list[str] = []
        self.stopped = threading.Event()
        self.supervisor = Supervisor()
        self.inline = InlineCalls(Settings(data_dir=folder), database, "me", self.supervisor)
        self.threads = ThreadPoolExecutor(2 * ASKED_BY)
        anything: Any = None
        self.readers = Readers(anything, anything, database, self.supervisor, self.inline)
        program, command = EngineProgram("borg", "1.4.5", (1, 4, 5), 1), Command(("borg",))
        monkeypatch.setattr(readers, "FileChunks", lambda *_words, **_more: Link(self))
        monkeypatch.setattr(self.readers, "_tested_here", lambda _program: folder)
        monkeypatch.setattr(
            self.readers,
            "_opened",
            lambda repository, ticket: self.readers._held(repository, program, "ssh://a@b/c", command, ticket),
        )
        self.repository = Repository(
            id=1, uuid="u" * 32, path="ssh://a@b/c", execution_target="local", engine_version=1, engine_id="e" * 64
        )

    def request(self, seconds: float = PATIENCE, *, more: Callable[[], object] = lambda: None) -> "Future[bytes]":
        """Request a file; NotReadable means that the engine would be started for it."""

        async def asked() -> bytes:
            ticket = LaneTicket(seconds)
            loop = asyncio.get_running_loop()

            def read() -> bytes:
                more()
                if self.stopped.is_set():
                    raise ClientGone
                return self.readers.read(self.repository, PARTS, threading.Event())

            return await without_a_thread(
                lambda call: loop.run_in_executor(None, call), read, self.database.work, ticket
            )

        return self.threads.submit(asyncio.run, asked())

    def read_all_the_time(self) -> "Future[None]":
        def read() -> None:
            while not self.stopped.is_set():
                try:
                    self.request().result(PATIENCE)
                except ClientGone:
                    return

        return self.threads.submit(read)

    def places(self) -> int:
        """The number of requests that wait in the queue of the lane."""
        statement = select(Operation.id).where(Operation.executor == "inline", Operation.status == Status.PENDING)
        with self.database.reading() as session:
            return len(session.scalars(statement).all())

    def waiting(self) -> int:
        """The number of requests that wait for a reader."""
        turn = self.readers._turns.get(self.repository.uuid)
        return len(turn._requests) if turn is not None else 0

    def exclusive(self) -> AbstractContextManager[object]:
        return self.inline.hold(LANE, access=Access.CHANGE)

    def backup(self, trigger: Trigger = Trigger.MANUAL) -> int:
        return kernel.enqueue(self.database, kernel.BACKUP, 1, trigger)

    def start(self, backup: int) -> None:
        """Start a backup as soon as the lane's rules allow it, as a runner does."""

        def claimed() -> bool:
            with self.database.writing() as session:
                return queue.claim_one(session, backup, "runner", "/spool").may_start

        wait_until(claimed, what="the backup starts")
        self.events.append("backup")

    def end(self, backup: int) -> None:
        kernel.finish(self.database, backup, Status.COMPLETED)

    def since_the_backup(self) -> list[str]:
        return self.events[self.events.index("backup") + 1 :]


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(locked_reader, "LOOK_SECONDS", 0.01)
    with a_store(request.param, tmp_path) as database:
        made = World(database, tmp_path, monkeypatch)
        yield made
        made.stopped.set()
        made.readers.close()
        made.threads.shutdown()
        made.supervisor.stop()


def test_all_requests_that_wait_for_a_lane_share_one_place_in_its_queue_and_one_reader(world: World) -> None:
    with world.exclusive():
        asked = [world.request() for _ in range(ASKED_BY)]
        wait_until(lambda: world.waiting() == ASKED_BY, what="all wait")
        assert world.places() == 1
        backup = world.backup()
    world.start(backup)
    assert [request.result(PATIENCE) for request in asked] == [b"abc"] * ASKED_BY
    assert world.events == ["reader", *["read"] * ASKED_BY, "backup"]


@pytest.mark.parametrize("trigger", [Trigger.MANUAL, Trigger.SCHEDULE])
def test_a_backup_waits_for_at_most_one_reader_while_clients_read_continuously(world: World, trigger: Trigger) -> None:
    """This includes a scheduled backup, whose priority is lower than that of users' requests."""
    clients = [world.read_all_the_time() for _ in range(2)]
    for _ in range(3):
        wait_until(lambda: world.events[-1:] == ["read"], what="files are read")
        backup, before = world.backup(trigger), world.events.count("reader")
        world.start(backup)
        assert world.events.count("reader") <= before + 1
        wait_until(lambda: world.places() == 1, what="the clients wait")
        next_one = world.backup(trigger)
        world.end(backup)
        between = world.events.count("reader")
        world.start(next_one)
        assert world.events.count("reader") == between + 1, "they had their turn between the two backups"
        world.end(next_one)
    world.stopped.set()
    for client in clients:
        client.result(PATIENCE)


def test_a_request_is_not_overtaken_by_later_exclusive_work(world: World) -> None:
    with world.exclusive():
        ahead = world.backup()
        asked = world.request()
        wait_until(lambda: world.places() == 1, what="the request waits")
        behind = world.backup(), world.backup(Trigger.SCHEDULE)
    world.start(ahead)
    world.end(ahead)
    for backup in behind:
        world.start(backup)
        world.end(backup)
    assert asked.result(PATIENCE) == b"abc"
    assert world.events == ["backup", "reader", "read", "backup", "backup"]


def test_a_request_that_times_out_is_refused_and_leaves_the_queue(world: World) -> None:
    with world.exclusive():
        patient, asked = world.request(), world.request(0.3)
        with pytest.raises(Locked) as refused:
            asked.result(PATIENCE)
        assert refused.value.retry_after == 10
        assert world.places() == 1, "the other one still waits"
        world.stopped.set()
        with pytest.raises(ClientGone):
            patient.result(PATIENCE)
        assert world.places() == 0
    assert world.events == []


def test_a_request_that_waits_for_a_reader_gives_up_its_place_for_the_engine(world: World) -> None:
    """Otherwise a backup would wait behind a place that no request takes."""
    taken: list[int] = []

    def wait_for_the_engine() -> None:
        ticket = TICKET.get()
        if not taken and ticket is not None:
            taken.append(1)
            with world.inline.hold(LANE):
                raise AssertionError("the lane is held")

    with world.exclusive():
        asked = world.request(more=wait_for_the_engine)
        wait_until(lambda: world.waiting() == 1, what="it waits for a reader")
        wait_until(lambda: world.places() == 1, what="it has one place")
        backup = world.backup()
    world.start(backup)
    assert asked.result(PATIENCE) == b"abc"
    assert world.events == ["reader", "read", "backup"]


def test_a_download_that_has_begun_gets_its_turn_between_two_backups(world: World) -> None:
    with world.exclusive():
        gone = threading.Event()
        reading = world.threads.submit(world.readers.read, world.repository, PARTS, gone, has_begun=True)
        wait_until(lambda: world.places() == 1, what="it waits")
        backup = world.backup()
    world.start(backup)
    assert reading.result(PATIENCE) == b"abc"
    assert world.events == ["reader", "read", "backup"]
    with pytest.raises(NotReadable):  # without a ticket the reader does not wait
        world.readers.read(world.repository, PARTS, gone)
    assert world.places() == 0
