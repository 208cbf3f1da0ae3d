"""The interface between the index and its database, implemented for SQLite and PostgreSQL."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from holdfast.history.entry import Entry

Row = tuple[object, ...]
Ids = Iterable[int]


class ArchiveRow(NamedTuple):
    id: int  # local to the index, never reused for another archive
    engine_id: str
    entries: int
    route: str
    lossy: bool
    excludes: bytes  # fingerprint of the exclude patterns


class VersionKey(NamedTuple):
    """The identity of a version: two entries with equal keys are one version."""

    path: int
    owner: int
    size: int
    mtime: int
    link: bytes
    content: int
    flags: int


class VersionRow(NamedTuple):
    version: int
    path: int
    entry: Entry


class OwnerKey(NamedTuple):
    mode: int
    uid: int
    gid: int
    user: str | None
    group: str | None


class Snapshot(Protocol):
    """One consistent view for reading."""

    def meta(self) -> dict[str, bytes]: ...
    def archives(self) -> list[ArchiveRow]: ...
    def archive(self, engine_id: str) -> ArchiveRow | None: ...
    def bits(self, archive: int, chunks: Ids) -> list[tuple[int, bytes]]: ...
    def bits_of_all(self, chunk: int) -> list[tuple[int, bytes]]: ...
    def column(self, kind: int) -> list[tuple[int, bytes]]: ...
    def column_chunks(self, kind: int, chunks: Ids) -> list[tuple[int, bytes]]: ...
    def column_blocks(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
        """Return blocks of several columns, by column and block number."""

    def top_id(self, table: str) -> int: ...
    def count(self, table: str) -> int: ...
    def entries(self, versions: Ids) -> list[VersionRow]: ...
    def entries_at(self, engine_id: str, directory: bytes, name: bytes) -> list[tuple[VersionRow, bytes]]:
        """Return every version that was ever at a path, each with the archive's bits for the chunk that contains it.

        Versions whose chunk has no bits in this archive are left out, as are folders that no archive lists itself.
        """

    def file_bytes(self, versions: Ids) -> int:
        """Return the total size of those versions that are files. Further names of a file add nothing."""

    def bytes_between(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the versions in a range of ids, each with its size: 0 unless it is a file. Further names of a file
        have 0.
        """

    def sizes_and_times(self, versions: Ids) -> list[tuple[int, int, int, int]]:
        """Return version, path, size and modification time of each."""

    def names_of_paths(self, paths: Ids) -> dict[int, bytes]: ...
    def versions_of_paths(self, paths: Ids) -> list[tuple[int, int]]: ...
    def versions_in_directory(self, directory: int) -> Iterator[tuple[bytes, int]]:
        """Yield names with their versions, ordered by the bytes of the names; few are in memory at a time."""

    def names_of_versions(self, versions: Ids) -> dict[int, bytes]: ...
    def implicit_versions(self) -> list[int]: ...
    def owners(self) -> dict[OwnerKey, int]: ...
    def directory_paths(self, directories: Ids) -> dict[int, bytes]: ...
    def path_names(self, paths: Ids) -> dict[int, tuple[int, int]]: ...
    def find_directories(self, paths: Sequence[bytes]) -> dict[bytes, int]: ...
    def find_names(self, names: Sequence[bytes]) -> dict[bytes, int]: ...
    def find_paths(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]: ...
    def find_versions(self, keys: Sequence[VersionKey]) -> dict[VersionKey, int]: ...
    def exact_versions_like(self, keys: Sequence[VersionKey]) -> list[tuple[VersionKey, int, bytes]]: ...
    def names_like(self, parts: Sequence[str], after: int, limit: int) -> list[tuple[int, bytes]]: ...
    def directories_like(self, parts: Sequence[str], after: int, limit: int) -> list[tuple[int, bytes]]: ...
    def paths_named(
        self, names: Sequence[int], after: tuple[int, int], limit: int
    ) -> list[tuple[int, int, int, bytes]]:
        """Return name, directory, path and the directory's path, ordered by name and directory, after a given pair."""

    def paths_in(self, directory: int, after: int, limit: int) -> list[tuple[int, bytes]]: ...
    def state(self, series: str) -> tuple[int, bytes] | None: ...
    def comparison(self, before: int, after: int) -> bytes | None: ...
    def states(self) -> Iterator[bytes]: ...


class Transaction(Snapshot, Protocol):
    """A view that also writes, all or nothing."""

    def set_meta(self, key: str, value: bytes) -> None: ...
    def insert(self, table: str, rows: Sequence[Row]) -> None: ...
    def put_column(self, kind: int, chunks: Sequence[tuple[int, bytes]]) -> None: ...
    def put_archive(self, row: ArchiveRow, bits: Sequence[tuple[int, bytes]]) -> None: ...
    def delete_archive(self, archive: int, chunks: Ids) -> None: ...
    def put_comparison(self, before: int, after: int, data: bytes) -> None: ...
    def put_state(self, series: str, archive: int, data: bytes) -> None: ...
    def delete(self, table: str, ids: Sequence[int]) -> None: ...
    def delete_unused_names(self, names: Sequence[int]) -> int: ...


class Store(Protocol):
    generation: str
    """Of the stored index."""

    def read(self) -> AbstractContextManager[Snapshot]: ...
    def write(self) -> AbstractContextManager[Transaction]: ...

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the right to ingest or sweep. Raise IndexBusy if another process or thread has it."""

    def size(self) -> int:
        """Bytes on disk."""

    def damage(self) -> list[str]:
        """Read everything and return what is broken in the storage itself."""

    def close(self) -> None: ...

    def retire(self) -> None:
        """Close what is not in use, without waiting.

        The store can still be used, at the cost of opening it again.
        """

    def destroy(self) -> None:
        """Delete the whole index."""
