"""An index in one SQLite file per repository."""

import fcntl
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.history.errors import (
    HistoryError,
    IndexBusy,
    IndexDamaged,
    IndexMissing,
    IndexStorageFull,
    IndexUnavailable,
    IndexVersionMismatch,
)
from holdfast.history.names import ROOT, key32, rendered, trigrams
from holdfast.history.schema import (
    APPLICATION_ID,
    ROOT_ID,
    SCHEMA_VERSION,
    TABLES,
    bits_id,
    column_id,
    sqlite_search,
    sqlite_tables,
)
from holdfast.history.sql import Rows, SqlSnapshot
from holdfast.history.store import ArchiveRow, Row, VersionKey

_READ_CACHE_KIB = 8 * 1024
_WRITE_CACHE_KIB = 64 * 1024
_BUSY_MILLISECONDS = 30_000
_IDS_PER_STATEMENT = 1000
_IDLE_READERS = 4

_TEXT_SEARCH = b"fts5"
_SUFFIXES = ("", "-wal", "-shm", "-journal", ".lock")


@contextmanager
def named_errors(file: Path) -> Iterator[None]:
    """Convert all errors of the database driver to errors of this package."""
    try:
        yield
    except sqlite3.Error as error:
        raise _named(error, file) from error


def _named(error: sqlite3.Error, file: Path) -> HistoryError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return IndexStorageFull(f"no space left for the history index {file.name}")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
        return IndexUnavailable(f"the history index {file.name} cannot be used just now: {error}")
    return IndexDamaged(f"the history index {file.name} is damaged: {error}")


class SqliteSnapshot(SqlSnapshot):
    def __init__(self, connection: sqlite3.Connection, *, has_text_search: bool | None = None) -> None:
        self._connection = connection
        self._has_text_search = has_text_search  # None: not determined yet

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        return self._connection.execute(sql, parameters).fetchall()

    def each_row(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        yield from self._connection.execute(sql, parameters)

    def rows_in(self, sql: str, ids: Iterable[int], more: Sequence[object] = ()) -> Rows:
        found: Rows = []
        remaining = iter(ids)
        while batch := list(islice(remaining, _IDS_PER_STATEMENT)):
            statement = sql.replace("{in}", f"IN ({','.join('?' * len(batch))})")
            found += self._connection.execute(statement, [*batch, *more])
        return found

    def _one_id(self, sql: str, parameters: Sequence[object]) -> int | None:
        found = self._connection.execute(sql, parameters).fetchone()
        return found[0] if found else None

    def find_directories(self, paths: Sequence[bytes]) -> dict[bytes, int]:
        sql = "SELECT id FROM directory WHERE hash = ? AND path = ?"
        return {path: found for path in paths if (found := self._one_id(sql, (key32(path), path)))}

    def find_names(self, names: Sequence[bytes]) -> dict[bytes, int]:
        sql = "SELECT id FROM name WHERE hash = ? AND name = ?"
        return {name: found for name in names if (found := self._one_id(sql, (key32(name), name)))}

    def find_paths(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        sql = "SELECT id FROM path WHERE directory = ? AND name = ?"
        return {pair: found for pair in pairs if (found := self._one_id(sql, pair))}

    def find_versions(self, keys: Sequence[VersionKey]) -> dict[VersionKey, int]:
        sql = (
            "SELECT id FROM version WHERE path = ? AND owner = ? AND size = ? AND mtime = ? AND link = ?"
            " AND content = ? AND flags = ?"
        )
        return {key: found for key in keys if (found := self._one_id(sql, key))}

    def exact_versions_like(self, keys: Sequence[VersionKey]) -> list[tuple[VersionKey, int, bytes]]:
        sql = "SELECT id, link FROM version WHERE path = ? AND owner = ? AND size = ? AND mtime = ? AND flags = 0"
        return [(key, *row) for key in keys for row in self._connection.execute(sql, key[:4])]

    def names_like(self, parts: Sequence[str], after: int, limit: int) -> list[tuple[int, bytes]]:
        if wanted := self._match(parts):
            return self._matching("name", "name", (wanted, after, limit))
        sql = (
            "SELECT id, name FROM name WHERE id > ? AND coalesce(folded, CAST(name AS TEXT)) LIKE ? ESCAPE '\\'"
            " ORDER BY id LIMIT ?"
        )
        return self._pairs(sql, (after, _pattern(parts), limit))

    def directories_like(self, parts: Sequence[str], after: int, limit: int) -> list[tuple[int, bytes]]:
        if wanted := self._match(parts):
            return self._matching("directory", "path", (wanted, after, limit))
        return self._pairs("SELECT id, path FROM directory WHERE id > ? ORDER BY id LIMIT ?", (after, limit))

    def _matching(self, table: str, column: str, parameters: Sequence[object]) -> list[tuple[int, bytes]]:
        sql = (
            f"SELECT o.id, o.{column} FROM {table}_text t JOIN {table} o ON o.id = t.rowid"  # noqa: S608 - our own names
            f" WHERE t.{table}_text MATCH ? AND t.rowid > ? ORDER BY t.rowid LIMIT ?"
        )
        return self._pairs(sql, parameters)

    def _pairs(self, sql: str, parameters: Sequence[object]) -> list[tuple[int, bytes]]:
        return [(row[0], row[1]) for row in self._connection.execute(sql, parameters)]

    def _match(self, parts: Sequence[str]) -> str:
        if not self.has_text_search():
            return ""
        return " AND ".join('"' + gram.replace('"', '""') + '"' for gram in trigrams(list(parts)))

    def has_text_search(self) -> bool:
        if self._has_text_search is None:
            found = self.rows("SELECT 1 FROM meta WHERE key = 'text_search' AND value = ?", (_TEXT_SEARCH,))
            self._has_text_search = bool(found)
        return self._has_text_search


def _pattern(parts: Sequence[str]) -> str:
    escaped = (part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") for part in parts)
    return "%" + "%".join(escaped) + "%"


class SqliteTransaction(SqliteSnapshot):
    def set_meta(self, key: str, value: bytes) -> None:
        self._connection.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
        )

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        marks = ",".join("?" * len(TABLES[table]))
        self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - our own table names
        if table in ("name", "directory") and rows and self.has_text_search():
            column = "name" if table == "name" else "path"
            texts = [(row[0], self._text(table, row[2])) for row in rows]
            self._connection.executemany(f"INSERT INTO {table}_text(rowid, {column}) VALUES (?, ?)", texts)  # noqa: S608

    @staticmethod
    def _text(table: str, raw: object) -> str:
        assert isinstance(raw, bytes)
        return rendered(raw if table == "name" else b"/" + raw)

    def put_column(self, kind: int, chunks: Sequence[tuple[int, bytes]]) -> None:
        self._connection.executemany(
            "INSERT INTO numbers VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET data = excluded.data",
            [(column_id(kind, chunk), data) for chunk, data in chunks],
        )

    def put_archive(self, row: ArchiveRow, bits: Sequence[tuple[int, bytes]]) -> None:
        self._connection.execute("INSERT INTO archive VALUES (?, ?, ?, ?, ?, ?)", row)
        self._connection.executemany(
            "INSERT INTO bits VALUES (?, ?)", [(bits_id(chunk, row.id), data) for chunk, data in bits]
        )

    def delete_archive(self, archive: int, chunks: Iterable[int]) -> None:
        self._connection.execute("DELETE FROM archive WHERE id = ?", (archive,))
        self._connection.execute("DELETE FROM state WHERE archive = ?", (archive,))
        self._connection.execute("DELETE FROM comparison WHERE after = ? OR before = ?", (archive, archive))
        self._connection.executemany("DELETE FROM bits WHERE id = ?", [(bits_id(chunk, archive),) for chunk in chunks])

    def put_comparison(self, before: int, after: int, data: bytes) -> None:
        self._connection.execute("INSERT OR REPLACE INTO comparison VALUES (?, ?, ?)", (after, before, data))

    def put_state(self, series: str, archive: int, data: bytes) -> None:
        self._connection.execute(
            "INSERT INTO state VALUES (?, ?, ?)"
            " ON CONFLICT (series) DO UPDATE SET archive = excluded.archive, data = excluded.data",
            (series, archive, data),
        )

    def delete(self, table: str, ids: Sequence[int]) -> None:
        if table == "directory":
            self._delete_text("directory", list(self.directory_paths(ids).items()))
        self._connection.executemany(f"DELETE FROM {table} WHERE id = ?", [(one,) for one in ids])  # noqa: S608

    def delete_unused_names(self, names: Sequence[int]) -> int:
        unused = self.rows_in(
            "SELECT id, name FROM name WHERE id {in} AND NOT EXISTS (SELECT 1 FROM path WHERE path.name = name.id)",
            names,
        )
        self._delete_text("name", [(row[0], row[1]) for row in unused])
        self._connection.executemany("DELETE FROM name WHERE id = ?", [(row[0],) for row in unused])
        return len(unused)

    def _delete_text(self, table: str, rows: Sequence[tuple[int, bytes]]) -> None:
        if not self.has_text_search():
            return
        column = "name" if table == "name" else "path"
        # A contentless table needs the old text to delete a row; it can be derived from the stored name.
        self._connection.executemany(
            f"INSERT INTO {table}_text({table}_text, rowid, {column}) VALUES ('delete', ?, ?)",  # noqa: S608
            [(row[0], self._text(table, row[1])) for row in rows],
        )


class SqliteStore:
    """The store in a file that `create` has made: a few connections read, one writes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._writing = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._closed = False
        with named_errors(file):
            connection = self._reader()
            try:
                meta = _checked(connection, file)
                self.generation = meta["generation"].decode()
                self._has_text_search = meta["text_search"] == _TEXT_SEARCH
            except BaseException:
                connection.close()
                raise
        self._idle.append(connection)  # opening one costs more than most queries

    @classmethod
    def create(cls, file: Path) -> "SqliteStore":
        """Create an empty index; the file appears complete or not at all. Raise IndexBusy if it exists."""
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{secrets.token_hex(4)}.new")
        try:
            with named_errors(file), closing(connect(new, _WRITE_CACHE_KIB)) as connection:
                _fill(connection)
            _put_in_place(new, file)
        except FileExistsError as error:
            raise IndexBusy(f"a history index is already at {file.name}") from error
        finally:
            for suffix in _SUFFIXES:
                new.with_name(new.name + suffix).unlink(missing_ok=True)
        return cls(file)

    @contextmanager
    def read(self) -> Iterator[SqliteSnapshot]:
        with named_errors(self.file):
            connection = self._take()
            try:
                connection.execute("BEGIN")
                yield SqliteSnapshot(connection, has_text_search=self._has_text_search)
                connection.execute("ROLLBACK")
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)

    @contextmanager
    def write(self) -> Iterator[SqliteTransaction]:
        with self._writing, named_errors(self.file):
            connection = self._writer = self._writer or self._open(_WRITE_CACHE_KIB)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteTransaction(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                if self._closed:
                    self._close_writer()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self.file.with_name(self.file.name + ".lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise IndexBusy(f"the history index {self.file.name} is being written by another ingest") from error
            yield

    def size(self) -> int:
        parts = (self.file.with_name(self.file.name + suffix) for suffix in _SUFFIXES)
        return sum(part.stat().st_size for part in parts if part.exists())

    def damage(self) -> list[str]:
        with self.read() as snapshot:
            found = snapshot.rows("PRAGMA quick_check(20)")
        return [str(row[0]) for row in found if row[0] != "ok"]

    def close(self) -> None:
        self.retire()
        with self._writing:
            self._close_writer()

    def retire(self) -> None:
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._writing.acquire(blocking=False):
            try:
                self._close_writer()
            finally:
                self._writing.release()

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def destroy(self) -> None:
        self.close()
        for suffix in _SUFFIXES:
            self.file.with_name(self.file.name + suffix).unlink(missing_ok=True)

    def _open(self, cache_kib: int) -> sqlite3.Connection:
        if not self.file.exists():
            raise IndexMissing(f"no history index at {self.file.name}")
        return connect(self.file, cache_kib)

    def _take(self) -> sqlite3.Connection:
        with self._guard:
            if self._idle:
                return self._idle.pop()
        return self._reader()

    def _reader(self) -> sqlite3.Connection:
        connection = self._open(_READ_CACHE_KIB)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._guard:
            if not self._closed and len(self._idle) < _IDLE_READERS:
                self._idle.append(connection)
                return
        connection.close()


def _put_in_place(new: Path, file: Path) -> None:
    """Give the new file its name. Raise FileExistsError if the name is taken."""
    try:
        os.link(new, file)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links; then only the caller's lock prevents a race
        if file.exists():
            raise FileExistsError(file) from None
        new.rename(file)


def connect(file: Path, cache_kib: int) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False, cached_statements=256)
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _fill(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    for statement in sqlite_tables():
        connection.execute(statement)
    transaction = SqliteTransaction(connection)
    transaction.set_meta("generation", secrets.token_hex(16).encode())
    transaction.set_meta("secret", secrets.token_bytes(32))
    transaction.set_meta("text_search", _add_text_search(connection))
    transaction.insert("directory", [(ROOT_ID, key32(ROOT), ROOT)])
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # Only in rollback mode can the database be linked into place as one file; the next connection enables WAL again.
    connection.execute("PRAGMA journal_mode = DELETE")


def _add_text_search(connection: sqlite3.Connection) -> bytes:
    connection.execute("SAVEPOINT text_search")
    try:
        for statement in sqlite_search():
            connection.execute(statement)
    except sqlite3.OperationalError:  # this SQLite was built without full-text search: names are searched one by one
        connection.execute("ROLLBACK TO text_search")
        return b"scan"
    return _TEXT_SEARCH


def _checked(connection: sqlite3.Connection, file: Path) -> dict[str, bytes]:
    """Return the meta table. Raise IndexDamaged or IndexVersionMismatch if this is not an index of this version."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise IndexDamaged(f"{file.name} is not a history index")
    if version != SCHEMA_VERSION:
        raise IndexVersionMismatch(f"{file.name} has version {version}, this code writes {SCHEMA_VERSION}")
    meta = SqliteSnapshot(connection).meta()
    if not {"generation", "secret", "text_search"} <= set(meta):
        raise IndexDamaged(f"{file.name} lacks its own description")
    return meta
