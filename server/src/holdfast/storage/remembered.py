"""Values read from the store, valid until anything is committed to it, by any process, in any table.

SQLite detects that without reading a page. PostgreSQL would need a query over the network, which costs as much as
reading again: there, nothing is remembered.
"""

import sqlite3
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")
Version = tuple[int, int]


class StoreVersion:
    """Checks on a connection of its own, which never writes: so every commit comes from another connection."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._opened = 0

    def now(self) -> Version | None:
        """A value that differs after every commit; None while it is unknown."""
        with self._guard:
            try:
                connection = self._connection or self._open()
                return self._opened, connection.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error:
                return None

    def close(self) -> None:
        with self._guard:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        # No wait for a lock: the event loop calls this.
        connection = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA query_only=ON")
        self._opened += 1  # numbers of two connections cannot be compared
        self._connection = connection
        return connection


class Remembered(Generic[Value]):
    """For any thread. Each value is stored with the version before it was read, so it is never older than that."""

    def __init__(self, version: StoreVersion | None, most: int) -> None:
        self._version = version
        self._most = most
        self._values: dict[Hashable, tuple[Version, Value]] = {}

    def get(self, key: Hashable) -> Value | None:
        """The value, if it is known and nothing was committed since it was read."""
        known = self._values.get(key)
        if known is None or self._version is None or known[0] != self._version.now():
            return None
        return known[1]

    def earlier(self, key: Hashable) -> Value | None:
        """The value as it was when it was last read, whatever was committed since."""
        known = self._values.get(key)
        return None if known is None else known[1]

    def read(
        self, key: Hashable, read: Callable[[], Value], is_worth_it: Callable[[Value], bool] = lambda _value: True
    ) -> Value:
        """Read a value, and remember it if that is worthwhile."""
        version = self._version.now() if self._version is not None else None
        value = read()
        if version is not None and is_worth_it(value):
            if len(self._values) >= self._most:
                self._values.clear()
            self._values[key] = version, value
        return value
