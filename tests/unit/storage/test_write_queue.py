"""Threads that write to SQLite get their turn in order of arrival, and no turn is lost."""

import ctypes
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError, ProgrammingError

from holdfast.errors import Unavailable
from holdfast.storage.session import Database
from holdfast.storage.write_queue import OneWriterPool, WriteQueue
from tests.support.service import PATIENCE, wait_until


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'store.db'}")
    with database.writing() as session:
        session.execute(text("CREATE TABLE written (number INTEGER)"))
    yield database
    database.dispose()


def queue_of(database: Database) -> WriteQueue:
    pool = database.engine.pool
    assert isinstance(pool, OneWriterPool)
    return pool.queue


def started(call: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def ended(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def waiting(queue: WriteQueue, number: int) -> None:
    wait_until(lambda: queue.length == number, what=f"{number} waiting threads", pause=0.001)


def write(database: Database, number: int) -> None:
    with database.writing() as session:
        session.execute(text("INSERT INTO written VALUES (:number)"), {"number": number})


def written(database: Database) -> list[int]:
    with database.reading() as session:
        return list(session.scalars(text("SELECT number FROM written ORDER BY rowid")))


def test_threads_write_in_order_of_arrival(database: Database) -> None:
    queue, threads = queue_of(database), []
    with database.writing():
        for number in range(20):
            threads.append(started(lambda number=number: write(database, number)))  # type: ignore[misc]
            waiting(queue, number + 1)
    ended(*threads)
    assert written(database) == list(range(20))


def test_a_thread_that_writes_repeatedly_lets_a_waiting_one_write_after_its_transaction(
    database: Database,
) -> None:
    stop, turns, seen = threading.Event(), [0], []

    def again_and_again() -> None:
        while not stop.is_set():
            with database.writing():
                turns[0] += 1
                time.sleep(0.001)

    busy = started(again_and_again)
    wait_until(lambda: turns[0] > 2, what="the first transactions", pause=0.001)
    for number in range(20):
        before = turns[0]
        write(database, number)
        seen.append(turns[0] - before)
    stop.set()
    ended(busy)
    assert max(seen) <= 3  # the one already running, and one that may begin before and after


def test_a_thread_that_gives_up_leaves_the_queue(database: Database) -> None:
    queue = queue_of(database)
    with database.writing():
        taken: list[bool] = []
        impatient = started(lambda: taken.append(queue.take(0.02)))
        patient = started(lambda: write(database, 1))
        ended(impatient)
        assert taken == [False]
        waiting(queue, 1)
    ended(patient)
    assert written(database) == [1]


def test_a_turn_that_does_not_come_in_time_makes_the_store_unavailable(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database.engine.pool, "_timeout", 0.02)
    refused: list[Unavailable] = []

    def wait_in_vain() -> None:
        with pytest.raises(Unavailable) as raised:
            write(database, 1)
        refused.append(raised.value)

    with database.writing():
        ended(started(wait_in_vain))
    assert [error.key for error in refused] == ["store.unavailable"]
    write(database, 2)
    assert written(database) == [2]


def test_no_turn_is_lost_when_a_transaction_raises(database: Database) -> None:
    queue, threads = queue_of(database), []

    def fail() -> None:
        with pytest.raises(ZeroDivisionError), database.writing() as session:
            session.execute(text("INSERT INTO written VALUES (:number)"), {"number": 1 // 0})

    def fail_in_the_store() -> None:
        with pytest.raises(OperationalError), database.writing() as session:
            session.execute(text("INSERT INTO nowhere VALUES (1)"))

    with database.writing():
        for place, call in enumerate([fail, fail_in_the_store, lambda: write(database, 1)] * 4):
            threads.append(started(call))
            waiting(queue, place + 1)
    ended(*threads)
    assert written(database) == [1] * 4


def test_a_connection_that_cannot_be_opened_gives_its_turn_back(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'away' / 'store.db'}")
    for _ in range(2):
        with pytest.raises(Unavailable), database.writing():
            pass
    (tmp_path / "away").mkdir()
    with database.writing() as session:
        session.execute(text("CREATE TABLE written (number INTEGER)"))
    database.dispose()


def test_a_broken_connection_gives_its_turn_back(database: Database) -> None:
    with pytest.raises(ProgrammingError), database.writing() as session:
        session.connection().connection.driver_connection.close()  # type: ignore[union-attr]
    assert queue_of(database).take(0)
    queue_of(database).give()


def test_a_thread_that_is_already_writing_gets_an_error_immediately_and_keeps_its_turn(database: Database) -> None:
    with database.writing() as session:
        with pytest.raises(RuntimeError, match="is writing already"):
            write(database, 1)
        session.execute(text("INSERT INTO written VALUES (2)"))
    assert written(database) == [2]


def test_a_thread_interrupted_while_waiting_or_as_its_turn_comes_loses_no_turn() -> None:
    queue, chance = WriteQueue(), random.Random(5)

    def interrupted() -> None:
        try:
            while True:
                if queue.take(PATIENCE):
                    queue.give()
        except KeyboardInterrupt:
            return

    for _ in range(20):
        assert queue.take(PATIENCE)
        thread = started(interrupted)
        waiting(queue, 1)
        raise_in(thread)  # noticed as soon as it has its turn
        time.sleep(chance.uniform(0, 0.002))
        queue.give()
        ended(thread)
        assert queue.take(0)
        queue.give()


def raise_in(thread: threading.Thread) -> None:
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt))


def test_many_threads_with_short_and_long_timeouts_lose_no_turn(database: Database) -> None:
    queue, inside, most, done = queue_of(database), [0], [0], []

    def some(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(60):
            if not queue.take(chance.choice([0, 0.0005, PATIENCE])):
                continue
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            if chance.random() < 0.1:
                time.sleep(0.0002)
            inside[0] -= 1
            queue.give()
        done.append(seed)

    ended(*(started(lambda seed=seed: some(seed)) for seed in range(8)))  # type: ignore[misc]
    assert len(done) == 8
    assert most == [1]
    assert queue.take(0)
    queue.give()
