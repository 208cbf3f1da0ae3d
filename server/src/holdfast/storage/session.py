"""Transactions. This is the only file that commits."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import structlog
from sqlalchemy import Engine, create_engine, event, make_url, text
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from holdfast.errors import Unavailable
from holdfast.kit.change_signal import ChangeSignal
from holdfast.storage.read_cache import StoreVersion, Version
from holdfast.storage.write_queue import OneWriterPool

log = structlog.get_logger("holdfast.storage")

AFTER_COMMIT = "after_commit"
WAKE, NEWS, LANES = "wake", "news", "lanes"
CHANNEL, NEWS_CHANNEL, LANES_CHANNEL = "holdfast_work", "holdfast_news", "holdfast_lanes"
BUSY_TIMEOUT_MILLISECONDS = 15_000

Reading = Callable[[], AbstractContextManager[Session]]


class Database:
    """The store: readers use their own connections; on SQLite, writers take turns."""

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        self.url = url
        self.wake = ChangeSignal()
        """Something has changed of which users are notified."""
        self.work = ChangeSignal()
        """Operations have changed or a lane is free, so there may be work."""
        self.operations = ChangeSignal()
        """Operations of runners and agents have changed, so cached views of them are outdated."""
        self.dialect = make_url(url).get_backend_name()
        path = make_url(url).database
        self.version = StoreVersion(path) if self.is_sqlite and path and path != ":memory:" else None
        """Detects commits, if that is possible at no cost."""
        if self.is_sqlite:
            self._reader = _sqlite_engine(url, pool_size=pool_size, max_overflow=30, begin="BEGIN", query_only=True)
            # A pool of one connection is the write lock: waiting writers queue here instead of polling SQLite's lock.
            self._writer = _sqlite_engine(
                url, pool_size=1, max_overflow=0, begin="BEGIN IMMEDIATE", query_only=False, poolclass=OneWriterPool
            )
            self._prompt = _sqlite_engine(url, pool_size=1, max_overflow=0, begin="BEGIN", query_only=True, patience=0)
        else:
            self._reader = self._writer = create_engine(
                url, pool_size=pool_size, max_overflow=30, pool_pre_ping=True, pool_timeout=30
            )

    @property
    def is_sqlite(self) -> bool:
        return self.dialect == "sqlite"

    @property
    def engine(self) -> Engine:
        """The database engine that may write, for migrations and checks."""
        return self._writer

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session for one consistent read.

        On SQLite, the connection refuses writes; on PostgreSQL, only code review prevents them.
        """
        with _unreachable_is_unavailable(), Session(self._reader, expire_on_commit=False, autoflush=False) as session:
            yield session

    @contextmanager
    def reading_at_once(self) -> Iterator[Session]:
        """Like `reading`, for single rows on the event loop: on a separate connection, without waiting for a lock.

        Raise Unavailable if it would have to wait. Only for SQLite.
        """
        with _unreachable_is_unavailable(), Session(self._prompt, expire_on_commit=False, autoflush=False) as session:
            yield session

    @contextmanager
    def writing(self, *, lock_at_once: bool = True) -> Iterator[Session]:
        """Open one transaction: all of it or nothing. Hints added with ``after_commit`` run once it is durable.

        On SQLite, it holds the write lock from the beginning, or without `lock_at_once` from its first statement.
        """
        info = {WAKE: self.notify, NEWS: self.wake.notify, LANES: self.work.notify}
        with _unreachable_is_unavailable(), Session(self._writer, expire_on_commit=False, info=info) as session:
            if self.is_sqlite and lock_at_once:
                session.connection()  # take the write lock now, so that rows already read cannot change
            try:
                yield session
                session.commit()
            except BaseException:
                session.rollback()
                raise
        for hint in session.info.get(AFTER_COMMIT, ()):
            hint()

    def notify(self) -> None:
        """Signal that operations may have changed."""
        self.operations.notify()  # first, because woken threads must not use cached views
        self.work.notify()
        self.wake.notify()

    def commits(self) -> Version | None:
        """Return a value that changes with every commit; None if it is unknown, as on PostgreSQL.

        A loop that found nothing to do can compare it and save its queries, which make up most of an idle service's
        work.
        """
        return self.version.now() if self.version is not None else None

    def is_known_to_be_reachable(self) -> bool:
        """Whether the store is reachable, without waiting for it. False may also mean that this is unknown."""
        return self.commits() is not None

    def is_reachable(self) -> bool:
        try:
            with self.reading() as session:
                session.execute(text("SELECT 1"))
        except Unavailable:
            return False
        return True

    def dispose(self) -> None:
        if self.version is not None:
            self.version.close()
        self._reader.dispose()
        if self.is_sqlite:
            self._prompt.dispose()
        self._writer.dispose()


def after_commit(session: Session, hint: Callable[[], None]) -> None:
    """Run a hint once this transaction is durable, and never if it fails. Equal hints run once."""
    hints = session.info.setdefault(AFTER_COMMIT, [])
    if hint not in hints:
        hints.append(hint)


def wake_after_commit(session: Session) -> None:
    """Wake all waiting threads, on PostgreSQL in all processes, because work may have changed."""
    _hint(session, WAKE, CHANNEL)


def news_after_commit(session: Session) -> None:
    """Like `wake_after_commit`, for news that does not affect work, such as a machine that is back online."""
    _hint(session, NEWS, NEWS_CHANNEL)


def lanes_after_commit(session: Session) -> None:
    """Like `wake_after_commit`, for a lane that a request has released: waiters check again, and no event is sent."""
    _hint(session, LANES, LANES_CHANNEL)


def _hint(session: Session, hint: str, channel: str) -> None:
    after_commit(session, session.info[hint])
    if session.get_bind().dialect.name == "postgresql" and not session.info.get(channel):
        session.info[channel] = True
        session.execute(text(f"NOTIFY {channel}"))


@contextmanager
def _unreachable_is_unavailable() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError, PoolTimeout) as error:
        if _is_our_mistake(error):
            raise
        log.warning("the store is unavailable", reason=str(error).splitlines()[0])
        raise Unavailable("store.unavailable", "The store is unavailable or full; try again.", retry_after=5) from error


def _is_our_mistake(error: Exception) -> bool:
    """Whether this program is at fault. SQLite uses the same class of error for `no such column` and `disk full`."""
    original = getattr(error, "orig", None)
    code = getattr(original, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_ERROR


def _sqlite_engine(
    url: str,
    *,
    pool_size: int,
    max_overflow: int,
    begin: str,
    query_only: bool,
    patience: int = BUSY_TIMEOUT_MILLISECONDS,
    poolclass: type[QueuePool] = QueuePool,
) -> Engine:
    engine = create_engine(
        url,
        poolclass=poolclass,
        pool_size=pool_size,
        max_overflow=max_overflow,
        pool_timeout=30,
        connect_args={"isolation_level": None, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={patience}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        if query_only:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def start(connection: Any) -> None:
        connection.exec_driver_sql(begin)

    return engine
