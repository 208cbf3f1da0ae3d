"""The queries that are the same on SQLite and PostgreSQL. A dialect supplies `rows`, `each_row` and `rows_in`."""

import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from holdfast.history.bits import CHUNK_BITS
from holdfast.history.entry import Entry
from holdfast.history.names import key32
from holdfast.history.schema import ARCHIVE_BITS, ARCHIVE_MASK, bits_id, column_id
from holdfast.history.store import ArchiveRow, OwnerKey, VersionRow

Rows = list[tuple[Any, ...]]

_COLUMN_SPAN = 1 << 32
_ENTRIES_AT_ONCE = 500

_ARCHIVES = "SELECT id, engine_id, entries, route, lossy, excludes FROM archive"

_ENTRY = """
SELECT v.id, v.path, d.path, n.name, o.mode, o.uid, o.gid, o.username, o.groupname, v.size, v.mtime, v.link, v.content,
    v.flags
"""
_ENTRIES = f"""
{_ENTRY}
FROM version v JOIN path p ON p.id = v.path JOIN directory d ON d.id = p.directory JOIN name n ON n.id = p.name
    JOIN owner o ON o.id = v.owner
WHERE v.id {{in}}
"""
_AT_PATH = f"""
{_ENTRY}, b.data
FROM archive a CROSS JOIN directory d CROSS JOIN name n JOIN path p ON p.name = n.id AND p.directory = d.id
    JOIN version v ON v.path = p.id JOIN owner o ON o.id = v.owner
    JOIN bits b ON b.id = (((v.id >> {CHUNK_BITS}) << {ARCHIVE_BITS}) | a.id)
WHERE a.engine_id = ? AND d.hash = ? AND d.path = ? AND n.hash = ? AND n.name = ? AND v.flags <> 1
"""

_IN_DIRECTORY = """
SELECT n.name, v.id FROM path p JOIN name n ON n.id = p.name JOIN version v ON v.path = p.id
WHERE p.directory = ? ORDER BY n.name
"""


class SqlSnapshot(ABC):
    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Run a query written with `?`."""

    @abstractmethod
    def each_row(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Like `rows`, with few rows in memory at a time."""

    @abstractmethod
    def rows_in(self, sql: str, ids: Iterable[int], more: Sequence[object] = ()) -> Rows:
        """Run a query with a list of ids at `{in}`, followed by `?` for the other parameters."""

    def meta(self) -> dict[str, bytes]:
        return {key: bytes(value) for key, value in self.rows("SELECT key, value FROM meta")}

    def archives(self) -> list[ArchiveRow]:
        return [_archive_row(row) for row in self.rows(f"{_ARCHIVES} ORDER BY id")]

    def archive(self, engine_id: str) -> ArchiveRow | None:
        found = self.rows(f"{_ARCHIVES} WHERE engine_id = ?", (engine_id,))
        return _archive_row(found[0]) if found else None

    def bits(self, archive: int, chunks: Iterable[int]) -> list[tuple[int, bytes]]:
        ids = (bits_id(chunk, archive) for chunk in chunks)
        found = self.rows_in("SELECT id, data FROM bits WHERE id {in}", ids)
        return [(row[0] >> ARCHIVE_BITS, row[1]) for row in found]

    def bits_of_all(self, chunk: int) -> list[tuple[int, bytes]]:
        bounds = (bits_id(chunk, 0), bits_id(chunk, ARCHIVE_MASK))
        found = self.rows("SELECT id, data FROM bits WHERE id BETWEEN ? AND ?", bounds)
        return [(row[0] & ARCHIVE_MASK, row[1]) for row in found]

    def column(self, kind: int) -> list[tuple[int, bytes]]:
        bounds = (column_id(kind, 0), column_id(kind + 1, 0) - 1)
        found = self.rows("SELECT id, data FROM numbers WHERE id BETWEEN ? AND ? ORDER BY id", bounds)
        return [(row[0] % _COLUMN_SPAN, row[1]) for row in found]

    def column_chunks(self, kind: int, chunks: Iterable[int]) -> list[tuple[int, bytes]]:
        ids = (column_id(kind, chunk) for chunk in chunks)
        found = self.rows_in("SELECT id, data FROM numbers WHERE id {in}", ids)
        return [(row[0] % _COLUMN_SPAN, row[1]) for row in found]

    def column_blocks(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
        ids = (column_id(*one) for one in wanted)
        found = self.rows_in("SELECT id, data FROM numbers WHERE id {in}", ids)
        return {divmod(row[0], _COLUMN_SPAN): row[1] for row in found}

    def top_id(self, table: str) -> int:
        return int(self.rows(f"SELECT coalesce(max(id), 0) FROM {table}")[0][0])  # noqa: S608 - our own table names

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608

    def entries(self, versions: Iterable[int]) -> list[VersionRow]:
        found: list[VersionRow] = []
        paths: dict[int, bytes] = {}  # shared by all versions of a path
        remaining = iter(versions)
        while some := list(islice(remaining, _ENTRIES_AT_ONCE)):
            for row in self.rows_in(_ENTRIES, some):
                path = paths.get(row[1]) or paths.setdefault(row[1], row[2] + row[3])
                found.append(VersionRow(row[0], row[1], Entry(path, *row[4:])))
        return found

    def entries_at(self, engine_id: str, directory: bytes, name: bytes) -> list[tuple[VersionRow, bytes]]:
        wanted = (engine_id, key32(directory), directory, key32(name), name)
        return [
            (VersionRow(row[0], row[1], Entry(row[2] + row[3], *row[4:-1])), row[-1])
            for row in self.rows(_AT_PATH, wanted)
        ]

    def file_bytes(self, versions: Iterable[int]) -> int:
        found = self.rows_in(
            "SELECT coalesce(sum(v.size), 0) FROM version v JOIN owner o ON o.id = v.owner"
            " WHERE v.id {in} AND length(v.link) = 0 AND (o.mode & ?) = ?",
            versions,
            (0o170000, stat.S_IFREG),
        )
        return sum(int(row[0]) for row in found)

    def bytes_between(self, first: int, last: int) -> list[tuple[int, int]]:
        found = self.rows(
            "SELECT v.id, CASE WHEN length(v.link) = 0 AND (o.mode & ?) = ? THEN v.size ELSE 0 END"
            " FROM version v JOIN owner o ON o.id = v.owner WHERE v.id BETWEEN ? AND ?",
            (0o170000, stat.S_IFREG, first, last),
        )
        return [(row[0], row[1]) for row in found]

    def sizes_and_times(self, versions: Iterable[int]) -> list[tuple[int, int, int, int]]:
        found = self.rows_in("SELECT id, path, size, mtime FROM version WHERE id {in}", versions)
        return [(row[0], row[1], row[2], row[3]) for row in found]

    def names_of_paths(self, paths: Iterable[int]) -> dict[int, bytes]:
        found = self.rows_in("SELECT p.id, n.name FROM path p JOIN name n ON n.id = p.name WHERE p.id {in}", paths)
        return {row[0]: row[1] for row in found}

    def versions_of_paths(self, paths: Iterable[int]) -> list[tuple[int, int]]:
        found = self.rows_in("SELECT path, id FROM version WHERE path {in} AND flags <> 1", paths)
        return [(row[0], row[1]) for row in found]

    def versions_in_directory(self, directory: int) -> Iterator[tuple[bytes, int]]:
        for row in self.each_row(_IN_DIRECTORY, (directory,)):
            yield row[0], row[1]

    def names_of_versions(self, versions: Iterable[int]) -> dict[int, bytes]:
        found = self.rows_in(
            "SELECT v.id, n.name FROM version v JOIN path p ON p.id = v.path JOIN name n ON n.id = p.name"
            " WHERE v.id {in}",
            versions,
        )
        return {row[0]: row[1] for row in found}

    def implicit_versions(self) -> list[int]:
        return [row[0] for row in self.rows("SELECT id FROM version WHERE flags = 1")]

    def owners(self) -> dict[OwnerKey, int]:
        found = self.rows("SELECT id, mode, uid, gid, username, groupname FROM owner")
        return {OwnerKey(*row[1:]): row[0] for row in found}

    def directory_paths(self, directories: Iterable[int]) -> dict[int, bytes]:
        found = self.rows_in("SELECT id, path FROM directory WHERE id {in}", directories)
        return {row[0]: row[1] for row in found}

    def path_names(self, paths: Iterable[int]) -> dict[int, tuple[int, int]]:
        found = self.rows_in("SELECT id, directory, name FROM path WHERE id {in}", paths)
        return {row[0]: (row[1], row[2]) for row in found}

    def paths_named(
        self, names: Sequence[int], after: tuple[int, int], limit: int
    ) -> list[tuple[int, int, int, bytes]]:
        found = self.rows_in(
            "SELECT p.name, p.directory, p.id, (SELECT d.path FROM directory d WHERE d.id = p.directory) FROM path p"
            " WHERE p.name {in} AND (p.name > ? OR p.name = ? AND p.directory > ?)"
            " ORDER BY p.name, p.directory LIMIT ?",
            names,
            (after[0], *after, limit),
        )
        return [(row[0], row[1], row[2], row[3]) for row in found]

    def paths_in(self, directory: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        found = self.rows(
            "SELECT p.id, n.name FROM path p JOIN name n ON n.id = p.name"
            " WHERE p.directory = ? AND p.id > ? ORDER BY p.id LIMIT ?",
            (directory, after, limit),
        )
        return [(row[0], row[1]) for row in found]

    def state(self, series: str) -> tuple[int, bytes] | None:
        found = self.rows("SELECT archive, data FROM state WHERE series = ?", (series,))
        return (found[0][0], bytes(found[0][1])) if found else None

    def comparison(self, before: int, after: int) -> bytes | None:
        found = self.rows("SELECT data FROM comparison WHERE after = ? AND before = ?", (after, before))
        return bytes(found[0][0]) if found else None

    def states(self) -> Iterator[bytes]:
        for (series,) in self.rows("SELECT series FROM state"):
            found = self.state(series)
            if found is not None:
                yield found[1]


def _archive_row(row: tuple[Any, ...]) -> ArchiveRow:
    return ArchiveRow(row[0], row[1], row[2], row[3], bool(row[4]), bytes(row[5]))
