"""Durable readers of the outbox: each row is handled exactly once, despite crashes and late commits.

To use one in a feature:

    def settle(session: Session, rows: Sequence[OutboxEntry]) -> None:
        for row in rows:
            ...  # write with `session`, and nothing else

    READER = Reader("schedule-runs", settle, topics=frozenset({"operation.updated"}))
    FEATURE = Feature(name="schedules", readers=lambda _parts: (READER,))

- The name is the key of the position in `outbox_readers`, so never change it.
- `handle(session, rows)` is called with rows in the order of their ids, at most `most_rows` at a time, in a writing
  transaction that also moves the position. What is written with `session` and the position become durable together, or
  not at all. If rows take long, it gets fewer of them, so that each transaction stays short.
- An exception rolls that transaction back. The supervisor logs it, reports the loop `reader-<name>` as failing and
  tries the same rows again with increasing delays. So catch expected errors of single rows; all later rows wait behind
  them.
- It must be quick and must not wait for anything outside the store: all readers of a process share one thread, and
  SQLite has one writer.
- It may write outbox rows of its own (`outbox.publish`); they are read like any others.
- `topics` limits the rows that are passed; None passes everything. Rows of other topics count as read.
- `ends_only` leaves out rows of operations that wait or run: always, or while a function returns true.
- A new reader starts after the existing rows (`starts="newest"`), or with the oldest stored row (`starts="oldest"`).
- Any number of processes may register the same reader; only one of them reads at a time.
- The tidy tick keeps rows that a reader has not read. A reader that no process has registered for `FORGOTTEN_AFTER` is
  removed.
- The payload of `operation.updated` is `{"id", "status"}`; load further fields by `row.operation_id`.

PostgreSQL assigns ids before the commit, so a lower id may become visible after a higher one. `Horizon` finds the id up
to which no row can appear any more, and no reader reads beyond it. docs/decisions/0029-outbox-readers.md explains why
transaction ids are not used.
"""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Literal, cast

from sqlalchemy import CursorResult, Select, and_, bindparam, delete, func, select, text, update
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.api.parts import Part
from holdfast.kit import clock, request_priority
from holdfast.kit.supervisor import Supervisor
from holdfast.operations.models import OutboxEntry, OutboxReader
from holdfast.operations.status import ACTIVE
from holdfast.storage.inserts import conflict_aware_insert
from holdfast.storage.read_cache import Version
from holdfast.storage.session import Database

POLL_SECONDS = 1.0
BUSY_SECONDS = 0.2
"""Polling interval while rows arrive from another process, which on SQLite sends no hint."""
SOON_SECONDS = 0.05
"""Rows are handled in batches: the next round begins no sooner, so that readers never crowd out writers."""
BATCH_SECONDS = 0.04
"""Target processor time of a batch. On SQLite, nobody else can write meanwhile."""
BESIDE_REQUESTS_SECONDS = 0.01
"""The same while requests arrive; before each batch, readers also give way to them for this long."""
FEWEST_ROWS = 10
MOST_UNRECORDED = 500
"""Rows that do not concern a reader are skipped in memory; after this many, its position is stored."""
FORGOTTEN_AFTER = timedelta(days=7)

Handle = Callable[[Session, Sequence[OutboxEntry]], None]


@frozen
class Reader:
    name: str
    handle: Handle
    topics: frozenset[str] | None = None
    starts: Literal["newest", "oldest"] = "newest"
    most_rows: int = 200
    ends_only: bool | Callable[[Session], bool] = False

    def leaves_out_begun(self, session: Session) -> bool:
        return self.ends_only if isinstance(self.ends_only, bool) else self.ends_only(session)


class Horizon:
    """Finds the id up to which the outbox is complete: no row at or below it can become visible later.

    SQLite commits in the order of ids. On PostgreSQL, a transaction holds a lock on the table from before its first id
    until its rows are visible. So once all transactions that held the lock at one look have ended, everything up to the
    newest id known *before* that look is visible.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._guard = threading.Lock()
        self._complete = 0
        self._candidate = 0
        self._writers: frozenset[str] = frozenset()

    @property
    def complete(self) -> int:
        return self._complete

    @property
    def is_waiting(self) -> bool:
        """Whether rows are known that a running transaction may still precede."""
        return bool(self._writers)

    def refresh(self) -> int:
        """Return the newest id up to which everything can be read."""
        with self._guard, self._database.reading() as session:
            newest = newest_id(session)
            if self._database.is_sqlite:
                self._complete = max(self._complete, newest)
            elif newest > self._complete:
                self._advance(newest, frozenset(session.scalars(_WRITERS)))
            return self._complete

    def settle(self, seconds: float) -> int:
        """Look repeatedly until everything that exists now can be read, or the time is up."""
        with self._database.reading() as session:
            wanted = newest_id(session)
        end = time.monotonic() + seconds
        while self.refresh() < wanted and time.monotonic() < end:
            time.sleep(SOON_SECONDS / 5)
        return self._complete

    def _advance(self, newest: int, writing: frozenset[str]) -> None:
        self._writers &= writing
        if self._writers:
            return
        self._complete = max(self._complete, self._candidate)
        self._candidate, self._writers = newest, writing
        if not writing:
            self._complete = newest


HORIZON = Part[Horizon]("horizon")


class Readers:
    """Passes new rows to every registered reader, in one supervised loop."""

    def __init__(self, database: Database, supervisor: Supervisor, horizon: Horizon) -> None:
        self._database = database
        self._supervisor = supervisor
        self._horizon = horizon
        self._readers: list[Reader] = []
        self._passed: dict[str, int] = {}
        """Per reader, the id up to which this process knows that nothing is left to handle."""
        self._sizes: dict[str, int] = {}
        """Per reader, how many rows the next batch may have."""
        self._all_passed_at: Version | None = None
        """The commit at which every reader had handled everything."""

    def register(self, *readers: Reader) -> None:
        for reader in readers:
            if any(known.name == reader.name for known in self._readers):
                raise ValueError(f"there are two readers called {reader.name}")
            self._readers.append(reader)

    def start(self) -> None:
        """Start the loop. Call `know` first."""
        self._supervisor.keep_running("outbox-readers", self._read_forever)

    def know(self) -> None:
        """Record that these readers exist, new ones with their first position. The tidy tick calls it again."""
        if not self._readers:
            return
        newest = self._horizon.settle(SOON_SECONDS * 10)
        with self._database.writing() as session:
            for reader in self._readers:
                _know(session, reader.name, newest if reader.starts == "newest" else 0)

    def catch_up(self) -> bool:
        """Let every reader handle its new rows; return whether any has more to do.

        Failures are recorded, not raised.
        """
        commits = self._database.commits()
        if commits and commits == self._all_passed_at:
            return False
        complete = self._horizon.refresh()
        unfinished = [reader.name for reader in self._concerned(complete) if self._attempt(reader, complete)]
        have_passed = all(self._passed.get(reader.name, 0) >= complete for reader in self._readers)
        self._all_passed_at = commits if have_passed else None
        return bool(unfinished)

    def _concerned(self, complete: int) -> list[Reader]:
        """Return the readers with rows to handle or a position to store. One query, since it follows every commit."""
        behind = [reader for reader in self._readers if complete > self._passed.get(reader.name, 0)]
        if not behind:
            return []
        with self._database.reading() as session:
            positions = {row.name: row.position for row in session.execute(_POSITIONS)}
            for reader in behind:
                self._passed[reader.name] = max(self._passed.get(reader.name, 0), positions.get(reader.name, 0))
            after = min(self._passed[reader.name] for reader in behind)
            new = session.execute(_NEWEST_OF_TOPICS, {"after": after, "complete": complete}).all()
            leaving_out = {reader.name for reader in behind if reader.leaves_out_begun(session)}
        concerned = []
        for reader in behind:
            is_new = any(
                row.newest > self._passed[reader.name]
                for row in new
                if (reader.topics is None or row.topic in reader.topics)
                and not (row.begun and reader.name in leaving_out)
            )
            if reader.name in positions and (is_new or complete - positions[reader.name] >= MOST_UNRECORDED):
                concerned.append(reader)
            elif reader.name in positions:
                self._passed[reader.name] = complete
        return concerned

    def _read_forever(self) -> None:
        seen = -1
        has_more = has_new = False
        while not self._supervisor.stopping.is_set():
            soon = has_more or self._horizon.is_waiting
            usual = BUSY_SECONDS if has_new else POLL_SECONDS
            seen = self._database.wake.wait(seen, SOON_SECONDS if soon else usual)
            before = self._horizon.complete
            has_more = self.catch_up()
            has_new = self._horizon.complete > before
            self._supervisor.record_working("outbox-readers")
            self._supervisor.stopping.wait(SOON_SECONDS)

    def _attempt(self, reader: Reader, complete: int) -> bool:
        has_more = False

        def step() -> None:
            nonlocal has_more
            left, has_more = reader.most_rows, True
            while has_more and left > 0:
                handled, has_more = self._handle_batch(reader, complete, left)
                left -= handled

        self._supervisor.attempt(f"reader-{reader.name}", step)
        return has_more

    def _handle_batch(self, reader: Reader, complete: int, most: int) -> tuple[int, bool]:
        """Handle one batch. Return how many rows it had, and whether there are more."""
        request_priority.give_way_for(BESIDE_REQUESTS_SECONDS)
        with self._database.writing() as session:
            row = session.scalar(_OWN, {"name": reader.name})
            if row is None:
                return 0, False  # another process is reading right now
            if row.position >= complete:
                return 0, False
            size = min(most, self._sizes.get(reader.name, most))
            after = max(row.position, self._passed.get(reader.name, 0))
            new = {"after": after, "complete": complete, "most": size}
            wanted = _wanted(reader.topics, ends_only=reader.leaves_out_begun(session))
            rows = session.scalars(wanted, new).all()
            if rows:
                began = time.thread_time()
                reader.handle(session, rows)
                seconds = BESIDE_REQUESTS_SECONDS if request_priority.has_requests() else BATCH_SECONDS
                self._sizes[reader.name] = next_size(len(rows), time.thread_time() - began, reader.most_rows, seconds)
            has_more = len(rows) == size
            row.position = rows[-1].id if has_more else complete
            row.seen_at = clock.now()
        return len(rows), has_more


READERS = Part[Readers]("readers")


def next_size(rows: int, seconds: float, most: int, seconds_wanted: float = BATCH_SECONDS) -> int:
    """Given how many rows a batch had and how long it took, return how many rows the next one may have."""
    return max(min(FEWEST_ROWS, most), min(most, int(rows * seconds_wanted / max(seconds, 1e-6))))


def newest_id(session: Session) -> int:
    return session.scalar(_NEWEST) or 0


def forget_old(session: Session, before: datetime) -> int:
    """Remove old rows that every reader has read; return how many. All removed rows precede all kept ones."""
    session.execute(delete(OutboxReader).where(OutboxReader.seen_at < clock.now() - FORGOTTEN_AFTER))
    first_kept = [
        newest_id(session),  # always kept: it proves to resuming clients that nothing is missing
        session.scalar(select(func.min(OutboxEntry.id)).where(OutboxEntry.created_at >= before)),
        session.scalar(select(func.min(OutboxReader.position) + 1)),
    ]
    old = delete(OutboxEntry).where(OutboxEntry.id < min(number for number in first_kept if number is not None))
    return cast("CursorResult[Any]", session.execute(old)).rowcount


def _know(session: Session, name: str, position: int) -> None:
    values = {"name": name, "position": position, "seen_at": clock.now()}
    session.execute(
        conflict_aware_insert(session, OutboxReader).values(values).on_conflict_do_nothing(index_elements=["name"])
    )
    session.execute(update(OutboxReader).where(OutboxReader.name == name).values(seen_at=values["seen_at"]))


_IS_NEW = and_(OutboxEntry.id > bindparam("after"), OutboxEntry.id <= bindparam("complete"))


_BEGUN = and_(
    OutboxEntry.topic == "operation.updated",
    func.coalesce(OutboxEntry.payload["status"].as_string(), "").in_(sorted(ACTIVE)),
)
"""Rows of operations that wait or run."""


@cache
def _wanted(topics: frozenset[str] | None, *, ends_only: bool) -> Select[OutboxEntry]:
    found = select(OutboxEntry).where(_IS_NEW).order_by(OutboxEntry.id).limit(bindparam("most"))
    if ends_only:
        found = found.where(~_BEGUN)
    return found if topics is None else found.where(OutboxEntry.topic.in_(topics))


_NEWEST = select(func.max(OutboxEntry.id))
_new = select(OutboxEntry.topic, _BEGUN.label("begun"), OutboxEntry.id).where(_IS_NEW).subquery()
_NEWEST_OF_TOPICS = select(_new.c.topic, _new.c.begun, func.max(_new.c.id).label("newest")).group_by(
    _new.c.topic, _new.c.begun
)
_POSITIONS = select(OutboxReader.name, OutboxReader.position)
_OWN = select(OutboxReader).where(OutboxReader.name == bindparam("name")).with_for_update(skip_locked=True)
_WRITERS = text(
    "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted"
    " AND relation = 'outbox'::regclass"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
