"""Durable readers of the outbox: each row once, in order, however late it commits and however many processes read."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.orm import Session

from holdfast.kit import clock
from holdfast.kit.supervisor import Supervisor
from holdfast.operations import outbox, readers
from holdfast.operations.models import KernelSetting, OutboxEntry, OutboxReader
from holdfast.operations.readers import Horizon, Reader, Readers
from holdfast.storage.session import Database
from tests.support.service import PATIENCE, wait_until
from tests.support.stores import a_store_url, statements

WRITERS = 6


def tell(database: Database, topic: str = "test", **payload: int) -> None:
    with database.writing() as session:
        outbox.publish(session, topic, payload, repository_id=None)


def ids(database: Database) -> list[int]:
    with database.reading() as session:
        return list(session.scalars(select(OutboxEntry.id).order_by(OutboxEntry.id)))


def position(database: Database, name: str = "test") -> int | None:
    with database.reading() as session:
        return session.scalar(select(OutboxReader.position).where(OutboxReader.name == name))


class Taken:
    """A handler that records the rows it is given."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def __call__(self, _session: Session, rows: Sequence[OutboxEntry]) -> None:
        self.ids.extend(row.id for row in rows)


def reading(database: Database, handle: readers.Handle, **more: object) -> Readers:
    """A reader called `test` that is registered and reads only on demand."""
    made = Readers(database, Supervisor(), Horizon(database))
    made.register(Reader("test", handle, **more))  # type: ignore[arg-type]
    made.know()
    return made


def test_a_reader_gets_every_row_once_and_in_order(database: Database) -> None:
    taken = Taken()
    reader = reading(database, taken, most_rows=3)
    for _ in range(7):
        tell(database)

    while reader.catch_up():
        pass
    reader.catch_up()

    assert taken.ids == ids(database)
    assert position(database) == taken.ids[-1]


def test_readers_that_have_handled_everything_query_nothing_until_the_next_commit(database: Database) -> None:
    """On SQLite; a PostgreSQL server could not tell them for less than a query."""
    taken = Taken()
    reader = reading(database, taken)
    tell(database)
    for _ in range(3):
        reader.catch_up()

    with statements(database) as made:
        assert reader.catch_up() is False
    assert bool(made) is not database.is_sqlite

    tell(database)
    reader.catch_up()
    assert taken.ids == ids(database)


def test_a_reader_that_failed_is_called_again_without_another_commit(database: Database) -> None:
    attempts: list[int] = []

    def fails_once(_session: Session, rows: Sequence[OutboxEntry]) -> None:
        attempts.append(len(rows))
        if len(attempts) == 1:
            raise RuntimeError("not yet")

    reader = reading(database, fails_once)
    tell(database)

    def is_handled() -> bool:
        reader.catch_up()
        return position(database) == ids(database)[-1]

    wait_until(is_handled, what="the row is handled")
    assert attempts == [1, 1]


def test_slow_rows_come_in_smaller_batches_but_completely_and_in_order(database: Database) -> None:
    taken, sizes = Taken(), list[int]()

    def slowly(session: Session, rows: Sequence[OutboxEntry]) -> None:
        taken(session, rows)
        sizes.append(len(rows))
        if len(rows) > 1:
            end = time.thread_time() + 0.05
            while time.thread_time() < end:
                pass

    with database.writing() as session:
        for _ in range(60):
            outbox.publish(session, "test", {}, repository_id=None)
    reader = Readers(database, Supervisor(), Horizon(database))
    reader.register(Reader("test", slowly, starts="oldest", most_rows=40))
    reader.know()

    assert reader.catch_up()
    assert sum(sizes) == 40
    while reader.catch_up():
        pass

    assert taken.ids == ids(database)
    assert max(sizes[1:]) < 40


@pytest.mark.parametrize(
    ("rows", "seconds", "following"), [(200, 0.4, 20), (200, 4.0, 10), (20, 0.004, 200), (20, 0.0, 200), (3, 1.0, 10)]
)
def test_the_next_batch_is_as_large_as_the_time_budget_allows(rows: int, seconds: float, following: int) -> None:
    assert readers.next_size(rows, seconds, 200) == following
    assert readers.next_size(rows, seconds, 5) == 5


def test_a_reader_may_skip_unfinished_operations_permanently_or_temporarily(database: Database) -> None:
    is_left_out = [True]
    always, at_times = Taken(), Taken()
    both = Readers(database, Supervisor(), Horizon(database))
    both.register(
        Reader("always", always, ends_only=True),
        Reader("at-times", at_times, ends_only=lambda _session: is_left_out[0]),
    )
    both.know()

    def report(*statuses: str) -> list[int]:
        with database.writing() as session:
            for status in statuses:
                outbox.publish(session, "operation.updated", {"status": status}, repository_id=None)
            outbox.publish(session, "schedule.updated", {"status": "pending"}, repository_id=None)
        while both.catch_up():
            pass
        return ids(database)[-len(statuses) - 1 :]

    first = report("pending", "running", "failed", "pending")
    is_left_out[0] = False
    second = report("pending", "completed", "running")

    ended = [first[2], first[4], second[1], second[3]]
    assert always.ids == ended
    assert at_times.ids == [*ended[:2], *second]


def test_a_new_reader_starts_at_the_newest_row_or_at_the_oldest(database: Database) -> None:
    tell(database)
    newest, oldest = Taken(), Taken()
    both = Readers(database, Supervisor(), Horizon(database))
    both.register(Reader("new", newest), Reader("old", oldest, starts="oldest"))
    both.know()
    tell(database)

    both.catch_up()

    assert newest.ids == ids(database)[1:]
    assert oldest.ids == ids(database)


def test_a_restarted_reader_resumes_where_it_stopped(database: Database) -> None:
    reading(database, Taken()).catch_up()
    tell(database)
    again = Taken()

    reading(database, again).catch_up()

    assert again.ids == ids(database)


def test_a_readers_writes_and_its_position_are_committed_together_or_not_at_all(database: Database) -> None:
    fails = True

    def note(session: Session, rows: Sequence[OutboxEntry]) -> None:
        session.execute(insert(KernelSetting), [{"name": f"row {row.id}", "value": 1} for row in rows])
        if fails:
            raise ZeroDivisionError

    supervisor = Supervisor()
    reader = Readers(database, supervisor, Horizon(database))
    reader.register(Reader("test", note))
    reader.know()
    tell(database)

    reader.catch_up()
    assert (noted(database), position(database)) == (set(), 0)
    assert [report.name for report in supervisor.failing()] == ["reader-test"]

    fails = False
    supervisor.stop()  # the next try does not wait
    reader.catch_up()
    assert noted(database) == set(ids(database))


def noted(database: Database) -> set[int]:
    with database.reading() as session:
        names = session.scalars(select(KernelSetting.name).where(KernelSetting.name.like("row %")))
        return {int(name.removeprefix("row ")) for name in names}


def test_a_failing_reader_blocks_no_other(database: Database) -> None:
    def fail(_session: Session, _rows: Sequence[OutboxEntry]) -> None:
        raise ZeroDivisionError

    taken = Taken()
    both = Readers(database, Supervisor(), Horizon(database))
    both.register(Reader("bad", fail), Reader("good", taken))
    both.know()
    tell(database)

    both.catch_up()

    assert taken.ids == ids(database)
    assert position(database, "bad") == 0


def test_rows_of_other_topics_are_skipped_and_count_as_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "MOST_UNRECORDED", 5)
    taken = Taken()
    reader = reading(database, taken, topics=frozenset({"wanted"}))
    tell(database, "other")
    reader.catch_up()
    assert position(database) == 0, "a row that does not concern the reader costs no write"
    tell(database, "wanted")
    for _ in range(6):
        tell(database, "other")

    reader.catch_up()

    assert taken.ids == ids(database)[1:2]
    assert position(database) == ids(database)[-1]


def test_a_second_reader_with_the_same_name_is_refused(database: Database) -> None:
    made = Readers(database, Supervisor(), Horizon(database))
    made.register(Reader("test", Taken()))

    with pytest.raises(ValueError, match="two readers"):
        made.register(Reader("test", Taken()))


# --- what is kept -----------------------------------------------------------------------------------------------------


def forget(database: Database) -> int:
    with database.writing() as session:
        return readers.forget_old(session, clock.now() + timedelta(hours=1))


def test_rows_that_a_reader_has_not_read_are_kept(database: Database) -> None:
    reader = reading(database, Taken())
    for _ in range(3):
        tell(database)

    assert forget(database) == 0
    reader.catch_up()
    assert forget(database) == 2, "the newest row stays"


def test_a_reader_that_is_no_longer_registered_does_not_keep_rows_indefinitely(database: Database) -> None:
    reading(database, Taken())
    for _ in range(3):
        tell(database)
    with database.writing() as session:
        session.execute(update(OutboxReader).values(seen_at=clock.now() - timedelta(days=8)))

    assert forget(database) == 2
    assert position(database) is None


def test_a_slow_but_registered_reader_keeps_its_rows(database: Database) -> None:
    reader = reading(database, Taken())
    tell(database)
    tell(database)
    with database.writing() as session:
        session.execute(update(OutboxReader).values(seen_at=clock.now() - timedelta(days=8)))

    reader.know()

    assert forget(database) == 0


# --- late commits -----------------------------------------------------------------------------------------------------


@pytest.fixture
def postgresql(tmp_path: Path) -> Iterator[Database]:
    with a_store_url("postgresql", tmp_path) as url:
        database = Database(url)
        yield database
        database.dispose()


@contextmanager
def unfinished(database: Database, statement: Callable[[Session], object]) -> Iterator[Session]:
    """An open transaction that has run a statement; the test ends it."""
    with Session(database.engine, info={"wake": lambda: None}) as session:
        statement(session)
        yield session
        session.rollback()


def a_row(session: Session) -> None:
    outbox.publish(session, "test", {}, repository_id=None)


def test_a_row_that_commits_late_is_read_before_those_that_follow_it(postgresql: Database) -> None:
    taken = Taken()
    reader = reading(postgresql, taken)
    with unfinished(postgresql, a_row) as late:
        tell(postgresql)
        reader.catch_up()
        assert taken.ids == []
        late.commit()
    reader.catch_up()

    assert taken.ids == ids(postgresql)
    assert len(taken.ids) == 2


def test_a_row_that_is_rolled_back_blocks_no_reader(postgresql: Database) -> None:
    taken = Taken()
    reader = reading(postgresql, taken)
    with unfinished(postgresql, a_row):
        tell(postgresql)
        reader.catch_up()
    reader.catch_up()

    assert taken.ids == ids(postgresql)
    assert len(taken.ids) == 1


def test_a_transaction_without_outbox_rows_blocks_no_reader_even_if_it_began_first(postgresql: Database) -> None:
    """For example a long write to another table: with a horizon of transaction ids, every reader would wait for it."""
    taken = Taken()
    reader = reading(postgresql, taken)

    def other_write(session: Session) -> None:
        session.execute(text("INSERT INTO kernel_settings (name, value) VALUES ('long', '1')"))

    with unfinished(postgresql, other_write) as long:
        tell(postgresql)
        reader.catch_up()
        assert len(taken.ids) == 1
        a_row(long)  # publishes a row after all, in a transaction older than that of the row already read
        long.commit()
    reader.catch_up()

    assert taken.ids == ids(postgresql)
    assert len(taken.ids) == 2


# --- concurrent writers -----------------------------------------------------------------------------------------------


def write_many(database: Database, wake: Callable[[], None], count: int, seed: int) -> None:
    """Transactions of one to three rows with pauses in the middle; every tenth is rolled back."""
    chance = random.Random(seed)
    for number in range(count):
        with Session(database.engine, info={"wake": wake}) as session:
            for _ in range(chance.randint(1, 3)):
                a_row(session)
                if chance.random() < 0.2:
                    session.execute(text("SELECT pg_sleep(:s)"), {"s": chance.random() / 200})
            if number % 10:
                session.commit()
            else:
                session.rollback()
        wake()  # as the listener does: readers look while other transactions are still open


@contextmanager
def writers(database: Database, rows: int, *reading: Database) -> Iterator[threading.Event]:
    """Run six writers with about this number of rows in all; the event is set when they have ended."""
    done = threading.Event()
    count = rows // (WRITERS * 2) + 1

    def wake() -> None:
        for each in reading:
            each.wake.notify()

    with ThreadPoolExecutor(WRITERS) as pool:
        jobs = [pool.submit(write_many, database, wake, count, seed) for seed in range(WRITERS)]

        def wait_for_all() -> None:
            for job in jobs:
                job.result(PATIENCE)
            done.set()

        waiting = threading.Thread(target=wait_for_all)
        waiting.start()
        yield done
        waiting.join(PATIENCE)
    assert [job.exception() for job in jobs] == [None] * WRITERS


ROWS = [pytest.param(1_000, id="a thousand"), pytest.param(100_000, id="hundred-thousand", marks=pytest.mark.campaign)]


@pytest.mark.parametrize("rows", ROWS)
def test_two_processes_read_each_row_of_six_writers_exactly_once(postgresql: Database, rows: int) -> None:
    """A row that is recorded twice would violate the primary key and fail the reader."""

    def note(session: Session, found: Sequence[OutboxEntry]) -> None:
        session.execute(insert(KernelSetting), [{"name": f"row {row.id}", "value": 1} for row in found])

    others = [Database(postgresql.url) for _ in range(2)]
    supervisors = [Supervisor() for _ in others]
    for database, supervisor in zip(others, supervisors, strict=True):
        reader = Readers(database, supervisor, Horizon(database))
        reader.register(Reader("test", note))
        reader.know()
        reader.start()
    with writers(postgresql, rows, *others) as done:
        assert done.wait(PATIENCE * 10)
    last = ids(postgresql)[-1]
    wait_until(lambda: position(postgresql) == last, what="all is read")
    failures = [report.last_error for supervisor in supervisors for report in supervisor.reports()]
    for supervisor in supervisors:
        supervisor.stop()
    wait_until(lambda: not [each for each in threading.enumerate() if each.name == "outbox-readers"], what="the end")
    for database in others:
        database.dispose()

    assert noted(postgresql) == set(ids(postgresql))
    assert set(failures) == {None}
