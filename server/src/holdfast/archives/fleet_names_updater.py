"""Keep the file names of all repositories (`fleet_names`) up to date with their indexes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backup_engine.file_lock import locked_if_free
from backup_engine.frozen import frozen
from holdfast.archives.indexes import NOT_NOW, NOT_TO_BE_TRUSTED, Indexes
from holdfast.errors import Unavailable
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.storage.read_cache import ReadCache
from holdfast.storage.session import Database

if TYPE_CHECKING:
    import sqlite3

    from holdfast.archives.fleet_names import FleetNames, NamesOfRepository
    from holdfast.history.index import HistoryIndex

log = structlog.get_logger("holdfast.archives")

CHECK_SECONDS = 2.0
"""Interval at which to look for indexing by this process."""
LATEST_SECONDS = 60.0
"""Interval after which to catch up anyway: another process may have indexed something, or the file may be gone."""
NAMES_AT_ONCE = 5_000
STALE_NAMES = 10_000
"""A repository is read again when its names outnumber twice those of its index by more than this."""


class RepositoryColumns(NamedTuple):
    """The columns needed of every repository: reading a thousand whole rows would take longer than the search."""

    id: int
    uuid: str
    name: str
    execution_target: str
    agent_machine_id: int | None
    ssh_connection_id: int | None
    index_mode: str
    history_generation: str | None

    @property
    def machine(self) -> str:
        """The machine whose engine opens the repository, as named in the list of machines; `local` for the service's
        own.
        """
        if self.execution_target == "local":
            return "local"
        number = self.agent_machine_id if self.execution_target == "agent" else self.ssh_connection_id
        return f"{self.execution_target}:{number}"


EVERY = select(*(getattr(Repository, name) for name in RepositoryColumns._fields)).order_by(Repository.id)


@frozen
class ArchiveCounts:
    """The number of archives of a repository, and of those that are indexed."""

    total: int = 0
    indexed: int = 0
    mark: str = ""


def count_archives(session: Session) -> dict[int, ArchiveCounts]:
    """Count archives by repository. As archives never change, `mark` identifies the indexed ones and their names."""
    is_indexed = Archive.history_state == "indexed"
    statement = select(
        Archive.repository_id,
        func.count().filter(Archive.lost_at.is_(None)),
        func.count().filter(is_indexed & Archive.lost_at.is_(None)),
        func.count().filter(is_indexed),
        func.sum(Archive.id).filter(is_indexed),
        func.max(Archive.id).filter(is_indexed),
    ).group_by(Archive.repository_id)
    return {row[0]: ArchiveCounts(row[1], row[2], f"{row[3]}:{row[4]}:{row[5]}") for row in session.execute(statement)}


NO_ARCHIVES = ArchiveCounts()


@frozen
class KnownRepositories:
    """All repositories, ordered by id, and the archives of each. Treat as immutable."""

    repositories: list[RepositoryColumns]
    counts: dict[int, ArchiveCounts]

    def counts_of(self, repository_id: int) -> ArchiveCounts:
        return self.counts.get(repository_id, NO_ARCHIVES)

    def numbers(self, fed: dict[str, NamesOfRepository]) -> dict[int, int]:
        """Return the numbers, by repository id, of those repositories whose names are up to date."""
        found = {}
        for repository in self.repositories:
            known, counted = fed.get(repository.uuid), self.counts.get(repository.id)
            if known is None or counted is None:
                continue
            if known.generation == repository.history_generation and known.mark == counted.mark:
                found[repository.id] = known.number
        return found


class FleetNamesUpdater:
    def __init__(self, folder: Path, indexes: Indexes) -> None:
        self._folder = folder
        self._indexes = indexes
        self._wanted = threading.Event()
        self._latest = 0.0
        self._made: FleetNames | None = None
        self._known: ReadCache[KnownRepositories] | None = None
        self._numbers: tuple[KnownRepositories, dict[str, NamesOfRepository], dict[int, int]] | None = None

    def known(self, database: Database) -> KnownRepositories:
        if self._known is None:
            self._known = ReadCache(database.version, 1)

        def read() -> KnownRepositories:
            with database.reading() as session:
                return KnownRepositories(
                    [RepositoryColumns(*row) for row in session.connection().execute(EVERY)], count_archives(session)
                )

        known = self._known.get("all")
        return self._known.read("all", read) if known is None else known

    def numbers(self, known: KnownRepositories, fed: dict[str, NamesOfRepository]) -> dict[int, int]:
        """Like `KnownRepositories.numbers`, but computed only once while neither argument changes."""
        made = self._numbers
        if made is None or made[0] is not known or made[1] is not fed:
            made = self._numbers = known, fed, known.numbers(fed)
        return made[2]

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    @property
    def names(self) -> FleetNames:
        if self._made is None:
            from holdfast.archives.fleet_names import FleetNames  # not needed at start-up

            self._made = FleetNames(self._folder)
        return self._made

    def note_indexing(self) -> None:
        """Note that something was indexed."""
        self._wanted.set()

    def catch_up_if_due(self, database: Database, is_stopping: Callable[[], bool]) -> None:
        """Catch up if something was indexed, or if the last time is long ago."""
        now = time.monotonic()
        if self._wanted.is_set() or not self._latest or now - self._latest >= LATEST_SECONDS:
            self._wanted.clear()
            self._latest = now
            self.catch_up(database, is_stopping)

    def catch_up(self, database: Database, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Read the new names of every index. If stopped or killed, the next call resumes at the same place."""
        with database.reading() as session:
            counts = count_archives(session)
            found = session.execute(select(Repository.id, Repository.uuid, Repository.history_generation))
            wanted = {
                row.uuid: (row.history_generation, counts[row.id].mark)
                for row in found
                if row.history_generation and row.id in counts and counts[row.id].indexed
            }
        if not wanted and not (self._folder / "fleet-names.db").exists():
            return
        with self._alone() as is_alone:
            if is_alone:
                _Round(self.names, self._indexes, wanted, is_stopping).run()

    def _alone(self) -> AbstractContextManager[bool]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return locked_if_free(self._folder / "fleet-names.lock")


@dataclass(slots=True)
class _Round:
    names: FleetNames
    indexes: Indexes
    wanted: dict[str, tuple[str, str]]
    is_stopping: Callable[[], bool]

    def run(self) -> None:
        from holdfast.history.errors import HistoryError

        try:
            known = self._known()
            self._drop({uuid for uuid in known if uuid not in self.wanted})
            for uuid, (generation, mark) in self.wanted.items():
                if self.is_stopping():
                    return
                if uuid not in known or (known[uuid].generation, known[uuid].mark) != (generation, mark):
                    self._update_repository(known.get(uuid), uuid, generation, mark)
            self._purge()
        except NOT_TO_BE_TRUSTED as damage:
            log.warning("the names of all repositories are read again", reason=str(damage))
            self.names.destroy()
        except HistoryError as error:
            log.warning("the names of all repositories cannot be kept up to date", reason=str(error))

    def _known(self) -> dict[str, NamesOfRepository]:
        try:
            if self.names.file.exists() and not self.names.is_damaged:
                return {one.uuid: one for one in self.names.fed()}
        except NOT_TO_BE_TRUSTED:
            pass
        self.names.make()
        return {}

    def _update_repository(self, known: NamesOfRepository | None, uuid: str, generation: str, mark: str) -> None:
        try:
            index = self.indexes.reading(uuid)
            if index is None or generation.partition(":")[0] != index.generation:
                return
            if known is not None and (known.generation != generation or self._is_stale(known, index)):
                self._drop({uuid})
                known = None
            if known is None:
                known = self._begin(uuid, generation)
            self._read_on(known, index, mark)
        except (*NOT_TO_BE_TRUSTED, *NOT_NOW, Unavailable) as error:
            log.warning("the names of a repository cannot be read", repository=uuid, reason=str(error))

    @staticmethod
    def _is_stale(known: NamesOfRepository, index: HistoryIndex) -> bool:
        return known.names > 2 * index.name_count() + STALE_NAMES

    def _begin(self, uuid: str, generation: str) -> NamesOfRepository:
        from holdfast.archives.fleet_names import NamesOfRepository

        with self.names.writing() as connection:
            taken = {row[0] for row in connection.execute("SELECT number FROM repository")}
            number = next(number for number in range(len(taken) + 1) if number not in taken)
            connection.execute("INSERT INTO repository VALUES (?, ?, ?, '', 0, 0)", (number, uuid, generation))
        return NamesOfRepository(number, uuid, generation, "", 0, 0)

    def _read_on(self, known: NamesOfRepository, index: HistoryIndex, mark: str) -> None:
        from holdfast.history.names import rendered

        last, names = known.last_name, known.names
        while not self.is_stopping():
            read = index.names(last, NAMES_AT_ONCE)
            last, names = (read[-1][0] if read else last), names + len(read)
            is_end = len(read) < NAMES_AT_ONCE
            with self.names.writing() as connection:
                _add(connection, known.number, {rendered(name) for _, name in read})
                connection.execute(
                    "UPDATE repository SET last_name = ?, names = ?, mark = ? WHERE number = ?",
                    (last, names, mark if is_end else "", known.number),
                )
            if is_end:
                return

    def _drop(self, uuids: set[str]) -> None:
        """Remove repositories from all answers at once; `_purge` removes their names later."""
        from holdfast.archives.fleet_names import NOT_IN_USE

        dropped = [(uuid,) for uuid in uuids if not uuid.startswith(NOT_IN_USE)]
        if dropped:
            with self.names.writing() as connection:
                connection.executemany(
                    f"UPDATE repository SET uuid = '{NOT_IN_USE}' || number, mark = '', last_name = 0 WHERE uuid = ?",  # noqa: S608
                    dropped,
                )

    def _purge(self) -> None:
        """Remove the names of repositories that were dropped."""
        from holdfast.archives.fleet_names import NOT_IN_USE

        gone = [one for one in self.names.fed() if one.uuid.startswith(NOT_IN_USE)]
        last = min((one.last_name for one in gone), default=0)
        bits = sum(1 << one.number for one in gone)
        while gone and not self.is_stopping():
            with self.names.writing() as connection:
                sql = "SELECT id, text, holders FROM name WHERE id > ? ORDER BY id LIMIT ?"
                rows = connection.execute(sql, (last, NAMES_AT_ONCE)).fetchall()
                _remove(connection, rows, bits)
                last = rows[-1][0] if rows else last
                connection.executemany(
                    "UPDATE repository SET last_name = ? WHERE number = ?", [(last, one.number) for one in gone]
                )
                if not rows:
                    connection.executemany("DELETE FROM repository WHERE number = ?", [(one.number,) for one in gone])
                    return


def _add(connection: sqlite3.Connection, number: int, texts: set[str]) -> None:
    from holdfast.archives.fleet_names import bits_of, holders_of
    from holdfast.history.names import key32

    (top,) = connection.execute("SELECT coalesce(max(id), 0) FROM name").fetchone()
    new, changed = [], []
    for text in sorted(texts):
        key = key32(text.encode())
        row = connection.execute("SELECT id, holders FROM name WHERE hash = ? AND text = ?", (key, text)).fetchone()
        if row is None:
            top += 1
            new.append((top, key, text, number))
        elif (bits := bits_of(row[1])) >> number & 1 == 0:
            changed.append((holders_of(bits | 1 << number), row[0]))
    connection.executemany("INSERT INTO name VALUES (?, ?, ?, ?)", new)
    connection.executemany("INSERT INTO name_text(rowid, text) VALUES (?, ?)", [(row[0], row[2]) for row in new])
    connection.executemany("UPDATE name SET holders = ? WHERE id = ?", changed)


def _remove(connection: sqlite3.Connection, rows: Sequence[tuple[int, str, int | bytes]], gone: int) -> None:
    from holdfast.archives.fleet_names import bits_of, holders_of

    unused, changed = [], []
    for number, text, holders in rows:
        bits = bits_of(holders)
        if not bits & ~gone:
            unused.append((number, text))
        elif bits & gone:
            changed.append((holders_of(bits & ~gone), number))
    sql = "INSERT INTO name_text(name_text, rowid, text) VALUES ('delete', ?, ?)"
    connection.executemany(sql, unused)
    connection.executemany("DELETE FROM name WHERE id = ?", [(row[0],) for row in unused])
    connection.executemany("UPDATE name SET holders = ? WHERE id = ?", changed)
