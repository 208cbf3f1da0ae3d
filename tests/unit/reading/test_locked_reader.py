"""The reader of a repository on a server: how long it keeps the lock, and how it gives way."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.history.chunks.file_chunks import Part
from holdfast.history.errors import ChunkRouteFailed, GaveWay
from holdfast.kit.change_signal import ChangeSignal
from holdfast.kit.supervisor import Supervisor
from holdfast.reading import locked_reader as module
from holdfast.reading.locked_reader import LockedReader
from holdfast.runner.lane_ticket import LaneNotFree, LaneTicket
from tests.support.service import wait_until

PARTS = [Part(b"c" * 32, 3, 0, 3)]
REQUEST = LaneTicket(30.0)


class Site:
    """The lane and the helper of one repository, as far as a reader uses them."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_free = True
        self.is_wanted = False
        self.looks = 0
        self.is_awaited = False
        self.opens = True
        self.answers = threading.Event()
        self.answers.set()
        self.is_usable = True
        self.repository_id = "id"
        self.work = ChangeSignal()
        self.supervisor = Supervisor()
        anything: Any = self
        self.reader = LockedReader(anything, anything, self.work, self.supervisor)

    # the lane
    @contextmanager
    def hold(self, _request: LaneTicket) -> Iterator[None]:
        if not self.is_free:
            raise LaneNotFree
        self.events.append("lane held")
        yield
        self.events.append("lane free")

    @property
    def is_in_the_way(self) -> bool:
        self.looks += 1
        return self.is_wanted

    # the helper
    def __enter__(self) -> None:
        if not self.opens:
            raise ChunkRouteFailed("wrong passphrase")
        self.events.append("lock taken")

    def read(self, parts: list[Part]) -> bytes:
        assert parts == PARTS
        self.answers.wait()
        if not self.is_usable:
            raise ChunkRouteFailed("it was cut")
        return b"abc"

    def leave(self, _seconds: float) -> None:
        self.is_usable = False
        self.answers.set()
        self.events.append("lock free")

    def wait_until_free(self) -> None:
        wait_until(lambda: self.events[-1] == "lane free", what="the reader has left")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    made = Site()
    yield made
    made.supervisor.stop()


def test_lock_and_lane_are_kept_between_reads_and_released_when_idle(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = site.reader.open(REQUEST)
    assert [reader.read(PARTS), reader.read(PARTS)] == [b"abc", b"abc"]
    assert site.events == ["lane held", "lock taken"]
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.0)
    site.wait_until_free()
    assert site.events == ["lane held", "lock taken", "lock free", "lane free"]
    assert not reader.is_usable
    with pytest.raises(GaveWay):
        reader.read(PARTS)


def test_a_reader_gives_way_to_waiting_work_and_the_interrupted_read_can_be_retried(site: Site) -> None:
    reader = site.reader.open(REQUEST)
    reader.read(PARTS)
    site.answers.clear()
    site.is_wanted = True
    with pytest.raises(GaveWay):
        reader.read(PARTS)
    assert site.events == ["lane held", "lock taken", "lock free", "lane free"], "the lock was given back first"


def test_a_reader_opened_while_work_waits_serves_its_first_read_before_it_gives_way(site: Site) -> None:
    site.is_wanted = True
    assert site.reader.open(REQUEST).read(PARTS) == b"abc"
    site.wait_until_free()


def test_a_reader_stays_for_all_requests_that_waited_for_it(site: Site) -> None:
    site.is_wanted = site.is_awaited = True
    reader = site.reader.open(REQUEST)
    assert reader.read(PARTS) == b"abc"
    seen = site.looks
    wait_until(lambda: site.looks > seen + 2, what="it has looked at the queue since")
    assert reader.read(PARTS) == b"abc"
    site.is_awaited = False
    site.wait_until_free()


def test_a_reader_leaves_if_its_first_read_does_not_come(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_READ_SECONDS", 0.01)
    site.is_wanted = True
    site.reader.open(REQUEST)
    site.wait_until_free()


def test_a_busy_reader_still_releases_the_lock_for_clients_outside_the_service(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = site.reader.open(REQUEST)
    monkeypatch.setattr(module, "LONGEST_SECONDS", 0.0)

    def read_on() -> None:
        while True:
            reader.read(PARTS)

    with pytest.raises(GaveWay):
        read_on()


def test_a_reader_does_not_contact_the_server_while_the_lane_is_taken(site: Site) -> None:
    site.is_free = False
    with pytest.raises(LaneNotFree):
        site.reader.open(REQUEST)
    assert site.events == []


def test_a_reader_whose_repository_cannot_be_opened_releases_the_lane(site: Site) -> None:
    site.opens = False
    with pytest.raises(ChunkRouteFailed, match="passphrase"):
        site.reader.open(REQUEST)
    site.wait_until_free()


def test_a_reader_leaves_when_it_is_ended_or_the_service_stops(site: Site) -> None:
    reader = site.reader.open(REQUEST)
    reader.end()
    reader.wait_until_left()
    assert site.events[-1] == "lane free"
    other = Site()
    other.reader.open(REQUEST)
    other.supervisor.stop()
    other.wait_until_free()
