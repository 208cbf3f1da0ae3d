"""The file names of all repositories in one file, which shows what repositories can contain a name at all.

It is derived from the indexes of the repositories, and only excludes what cannot match. Repositories that it does not
cover yet are searched directly. So it changes how long an answer takes, never the answer.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import structlog

from backup_engine.frozen import frozen
from holdfast.history.errors import HistoryError, IndexDamaged, IndexVersionMismatch
from holdfast.history.names import SHORTEST_SEARCHED, key32, rendered, searchable_parts, trigrams
from holdfast.history.sqlite import connect, named_errors

log = structlog.get_logger("holdfast.archives")

APPLICATION_ID = 0x486F466E  # "HoFn" in the header of the file
SCHEMA_VERSION = 1
READ_CACHE_KIB, WRITE_CACHE_KIB = 4 * 1024, 32 * 1024
MOST_NAMES = 5_000
"""Number of matching names that one search examines. Beyond it the name is common: all repositories are searched."""
NOT_IN_USE = "gone "
IDLE_READERS = 2
"""Connections that are kept open, since opening one takes as long as a search."""
_SUFFIXES = ("", "-wal", "-shm", "-journal")

# `holders`: the number of the only repository with this name, or a bitset of the numbers of several.
_TABLES = """
CREATE TABLE repository(number INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, generation TEXT NOT NULL,
    mark TEXT NOT NULL, last_name INTEGER NOT NULL, names INTEGER NOT NULL);
CREATE TABLE name(id INTEGER PRIMARY KEY, hash INTEGER NOT NULL, text TEXT NOT NULL, holders NOT NULL);
CREATE INDEX name_hash ON name(hash);
CREATE VIRTUAL TABLE name_text USING fts5(text, content='', tokenize='trigram', detail=none, columnsize=0)
"""


class NamesOfRepository(NamedTuple):
    """The record of one repository in the file."""

    number: int
    uuid: str
    generation: str
    mark: str
    """Identifies the archives that were indexed when all names had been read; empty until then."""
    last_name: int
    names: int


@frozen
class Holders:
    """The repositories with matching names."""

    fed: dict[str, NamesOfRepository]
    bits: int

    def numbers(self) -> set[int]:
        return set(numbers_in(self.bits))


@dataclass(slots=True, eq=False)
class _Reader:
    """An open connection, with the repository records that it has read."""

    connection: sqlite3.Connection
    file: tuple[int, int]
    """Device and inode; they are not reused while this file is open."""
    version: int | None = None
    known: dict[str, NamesOfRepository] = field(default_factory=dict)

    def fed(self) -> dict[str, NamesOfRepository]:
        """Return the record of each repository as of the current transaction. Treat as immutable."""
        (version,) = self.connection.execute("PRAGMA data_version").fetchone()
        if version != self.version:
            self.known = {one.uuid: one for one in _fed(self.connection)}
            self.version = version
        return self.known


class FleetNames:
    """Safe for use from many threads and processes: readers never wait, and there is one writer at a time
    (`fleet_names_updater`).
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "fleet-names.db"
        self._guard = threading.Lock()
        self._idle: list[_Reader] = []
        self.is_damaged = False
        """Set when a reader finds the file damaged, so that it is recreated."""

    def holders_of_part(self, query: str) -> Holders | None:
        """Return the repositories with names that a search may match; None if that is unknown."""
        return self._holders([partial(_matching, text=text, fits=fits) for text, fits in _texts(query.casefold())])

    def holders_of_path(self, path: bytes) -> Holders | None:
        """Return the repositories with all names of a path; None if that is unknown."""
        return self._holders([partial(_equal, text=rendered(name)) for name in path.split(b"/") if name])

    def _holders(self, questions: Sequence[Callable[[sqlite3.Connection], int | None]]) -> Holders | None:
        if not questions or not self.file.exists():
            return None
        try:
            with self._read() as reader:
                found = [question(reader.connection) for question in questions]
                known = [bits for bits in found if bits is not None]
                if not known:
                    return None
                together = known[0]
                for bits in known[1:]:
                    together &= bits
                return Holders(reader.fed(), together)
        except IndexVersionMismatch:
            return None  # the file is being created
        except HistoryError as error:
            log.warning("the names of all repositories cannot be read", reason=str(error))
            self.is_damaged = self.is_damaged or isinstance(error, IndexDamaged)
            return None

    def fed(self) -> list[NamesOfRepository]:
        """Return all records. Raise HistoryError if the file cannot be read."""
        with self._read() as reader:
            return list(reader.fed().values())

    @contextmanager
    def _read(self) -> Iterator[_Reader]:
        with named_errors(self.file):
            reader = self._take()
            try:
                reader.connection.execute("BEGIN")
                yield reader
                reader.connection.execute("ROLLBACK")
            except BaseException:
                reader.connection.close()
                raise
            with self._guard:
                if len(self._idle) < IDLE_READERS:
                    self._idle.append(reader)
                    return
            reader.connection.close()

    def _take(self) -> _Reader:
        """Return a connection to the current file, which another process may have recreated."""
        file = self._identity()
        with self._guard:
            idle, self._idle = self._idle, []
            found = [reader for reader in idle if reader.file == file]
            self._idle = found[1:]
        for reader in idle:
            if reader.file != file:
                reader.connection.close()
        return found[0] if found else self._open()

    def _open(self) -> _Reader:
        file = self._identity()
        connection = connect(self.file, READ_CACHE_KIB)
        try:
            _check(connection)
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return _Reader(connection, file)

    def _identity(self) -> tuple[int, int]:
        """Return device and inode of the file; zeros, which no file has, if it is missing."""
        try:
            status = self.file.stat()
        except OSError:
            return 0, 0
        return status.st_dev, status.st_ino

    def close(self) -> None:
        with self._guard:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.connection.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction, for the one writer."""
        with named_errors(self.file), closing(connect(self.file, WRITE_CACHE_KIB)) as connection:
            _check(connection)
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    def make(self) -> None:
        """Create an empty file."""
        self.destroy()
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with named_errors(self.file), closing(connect(self.file, WRITE_CACHE_KIB)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
        self.is_damaged = False

    def destroy(self) -> None:
        self.close()
        for suffix in _SUFFIXES:
            self.file.with_name(self.file.name + suffix).unlink(missing_ok=True)


_LIKE = "SELECT n.holders, n.text FROM name_text t JOIN name n ON n.id = t.rowid WHERE t.name_text MATCH ? LIMIT ?"
_EQUAL = "SELECT holders FROM name WHERE hash = ? AND text = ?"
Fits = Callable[[str], bool]


def _texts(query: str) -> Iterator[tuple[str, Fits]]:
    """Yield the texts that names must contain, each with a test: next to a slash, a name must begin or end with it."""
    parts = query.split("/")
    for place, part in enumerate(parts):
        for text in searchable_parts(part):
            if len(text) >= SHORTEST_SEARCHED:
                yield text, _fits(text, begins=place > 0 and text == part, ends=place < len(parts) - 1 and text == part)


def _fits(text: str, *, begins: bool, ends: bool) -> Fits:
    if begins and ends:
        return lambda name: name == text
    if begins:
        return lambda name: name.startswith(text)
    if ends:
        return lambda name: name.endswith(text)
    return lambda name: text in name


def _matching(connection: sqlite3.Connection, text: str, fits: Fits) -> int | None:
    """Return the repositories of all matching names; None if there are too many names to examine."""
    wanted = " AND ".join('"' + gram.replace('"', '""') + '"' for gram in trigrams([text]))
    found = connection.execute(_LIKE, (wanted, MOST_NAMES + 1)).fetchall()
    if len(found) > MOST_NAMES:
        return None
    return _union(holders for holders, name in found if fits(name))


def _equal(connection: sqlite3.Connection, text: str) -> int:
    return _union(row[0] for row in connection.execute(_EQUAL, (key32(text.encode()), text)))


def _union(all_holders: Iterable[int | bytes]) -> int:
    together = 0
    for holders in set(all_holders):
        together |= bits_of(holders)
    return together


def bits_of(holders: int | bytes) -> int:
    return 1 << holders if isinstance(holders, int) else int.from_bytes(holders, "little")


def numbers_in(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def holders_of(bits: int) -> int | bytes:
    if bits.bit_count() == 1:
        return bits.bit_length() - 1
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def _fed(connection: sqlite3.Connection) -> list[NamesOfRepository]:
    return [NamesOfRepository(*row) for row in connection.execute("SELECT * FROM repository")]


def _check(connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if (application, version) != (APPLICATION_ID, SCHEMA_VERSION):
        raise IndexVersionMismatch("the file of the names of all repositories is of another release")
