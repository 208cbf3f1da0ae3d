"""Remembers values read from the store until anything is committed to it, by any process, in any table.

SQLite detects commits without reading a page. PostgreSQL would need a query over the network, which costs as much as
reading the value again, so nothing is remembered there.

A value may have a proof: the rows from which it was made. After a commit, only these rows are read again, and the value
stays valid if none of them has changed. This takes a tenth of the time of making the value, which matters if commits
are frequent.
"""

import sqlite3
import threading
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from sqlalchemy import Select
from sqlalchemy.dialects import sqlite

from backup_engine.frozen import frozen

Value = TypeVar("Value")
Version = tuple[int, int]
Rows = tuple[list[Any], ...]


class Query:
    """A statement with one parameter, compiled for SQLite."""

    def __init__(self, statement: Select[*tuple[Any, ...]], parameter: str) -> None:
        compiled = statement.compile(dialect=sqlite.dialect())
        assert compiled.positiontup == [parameter], "it has no other parameter"
        self.text = str(compiled)


Proof = tuple[tuple[Query, Any], ...]
"""Queries, each with its parameter."""


class StoreVersion:
    """Detects commits on its own connection, which never writes, so that every commit comes from another one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._opened = 0

    def now(self) -> Version | None:
        """Return a value that changes with every commit; None while it is unknown."""
        with self._guard:
            try:
                connection = self._connection or self._open()
                return self._opened, connection.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error:
                return None

    def rows(self, proof: Proof) -> Rows | None:
        """Return the rows of some queries; None if they cannot be read without waiting."""
        with self._guard:
            try:
                connection = self._connection or self._open()
                return tuple(connection.execute(query.text, (value,)).fetchall() for query, value in proof)
            except sqlite3.Error:
                return None

    def close(self) -> None:
        with self._guard:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        # Never waits for a lock, because the event loop calls this.
        connection = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA query_only=ON")
        self._opened += 1  # values of different connections cannot be compared
        self._connection = connection
        return connection


@frozen
class _Entry(Generic[Value]):
    version: Version
    value: Value
    proof: Proof
    rows: Rows | None
    """The rows of the proof, at that version."""


class ReadCache(Generic[Value]):
    """Remembers values for any thread. Each is stored with the version before it was read, so it is never older."""

    def __init__(
        self, version: StoreVersion | None, most: int, proof_of: Callable[[Value], Proof] = lambda _value: ()
    ) -> None:
        self._version = version
        self._most = most
        self._proof_of = proof_of
        self._values: dict[Hashable, _Entry[Value]] = {}

    def get(self, key: Hashable) -> Value | None:
        """Return the value if it is remembered, and nothing that affects it was committed since it was read."""
        known = self._values.get(key)
        if known is None or self._version is None:
            return None
        now = self._version.now()
        if now is None or (known.version != now and not self._is_proven(known)):
            return None
        if known.version != now:
            self._values[key] = replace(known, version=now)
        return known.value

    def _is_proven(self, known: _Entry[Value]) -> bool:
        assert self._version is not None
        return known.rows is not None and self._version.rows(known.proof) == known.rows

    def earlier(self, key: Hashable) -> Value | None:
        """Return the value as last read, whatever was committed since."""
        known = self._values.get(key)
        return None if known is None else known.value

    def read(
        self, key: Hashable, read: Callable[[], Value], is_worth_it: Callable[[Value], bool] = lambda _value: True
    ) -> Value:
        """Read a value, and remember it if that is worthwhile."""
        version = self._version.now() if self._version is not None else None
        value = read()
        if version is not None and is_worth_it(value):
            if len(self._values) >= self._most:
                self._values.clear()
            self._values[key] = self._entry(version, value)
        return value

    def _entry(self, version: Version, value: Value) -> _Entry[Value]:
        assert self._version is not None
        proof = self._proof_of(value)
        rows = self._version.rows(proof) if proof else None
        is_of_that_version = rows is not None and self._version.now() == version
        return _Entry(version, value, proof, rows if is_of_that_version else None)
