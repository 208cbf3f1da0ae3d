"""Read one archive into the index.

Nothing is visible before the last transaction. A killed ingest leaves only unused rows.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from backup_engine.frozen import frozen
from holdfast.history import bits, columns
from holdfast.history.bits import CHUNK_BITS, Ids
from holdfast.history.chunk_table import ChunkNumbers
from holdfast.history.dictionary import Dictionary
from holdfast.history.entry import ITEM, LISTING, Entry, flaw_of, implicit_directory
from holdfast.history.errors import ArchiveTooLarge, ArchiveUnreadable, IndexDamaged
from holdfast.history.excludes import Excludes
from holdfast.history.records import Keys, Neighbour, keys_of
from holdfast.history.schema import DIRECTORY_ENTRY, DIRECTORY_PARENT, KEYS, PATH_DIRECTORY, VERSION_PATH
from holdfast.history.store import ArchiveRow, Snapshot, Store, Transaction

_BATCH_RECORDS = 20_000
_BATCH_DIRECTORIES = 2_000  # their paths may be long
_BATCH_BYTES = 8 * 1024 * 1024
_DEEP = 64  # depth of a path beyond which the directories above it are counted as bytes of the batch
_DIRECTORY_BYTES_FREE = 8 * 1024 * 1024
_DIRECTORY_RATIO_MOST = 16

Progress = Callable[[int], None]
Parse = Callable[[bytes], Entry | None]


@frozen
class IngestResult:
    archive: str
    route: str
    entries: int
    records_read: int
    records_parsed: int
    versions_before: int
    versions_after: int
    lossy: bool
    base: str | None = None  # the archive whose records did not have to be parsed
    fallback: str | None = None  # why the stored state of the series could not be used, if so


class Ingest:
    """The ingest of one archive: `accept` takes its records in order, `finish` makes it visible."""

    def __init__(
        self,
        store: Store,
        archive: str,
        record_format: int,
        parse: Parse,
        excludes: Excludes,
        progress: Progress | None,
    ) -> None:
        self._store = store
        self._archive = archive
        self._format = record_format
        self._parse = parse
        self._excludes = excludes
        self._progress = progress
        self._base: str | None = None
        self._neighbour: Neighbour | None = None
        self._pieces: list[Ids] = []
        self._missed: list[tuple[int, int, bytes]] = []  # piece, position in it, record
        self._missed_keys: list[int] = []
        self._missed_bytes = 0
        self._bytes = 0
        self._learned: list[tuple[Ids, Keys]] = []
        self.chunks = ChunkNumbers(store)
        self.read = 0
        self.parsed = 0
        self.lossy = False
        with store.read() as snapshot:
            meta = snapshot.meta()
            self._secret = meta["secret"]
            self.versions_before = snapshot.top_id("version")
            self._dictionary = Dictionary(snapshot, mixed=_is_mixed(meta, record_format))
        if not _knows_format(meta, record_format):
            with store.write() as transaction:
                transaction.set_meta(f"format_{record_format}", b"1")

    def compare_with(self, base: str | None) -> None:
        """Set an indexed archive as the neighbour whose records need no parsing. It is loaded when first needed."""
        self._base = base

    def _load_neighbour(self) -> Neighbour:
        with self._store.read() as snapshot:
            row = snapshot.archive(self._base) if self._base else None
            if row is None or row.excludes != self._excludes.fingerprint:
                return Neighbour.none()
            self.lossy = self.lossy or row.lossy
            return Neighbour.load(snapshot, row, self._format, all_chunks(snapshot))

    def accept(self, records: Sequence[bytes]) -> None:
        """Take the next records of the archive."""
        records = list(records)
        if self._neighbour is None:
            self._neighbour = self._load_neighbour()
        keys = keys_of(self._secret, records)
        versions = self._neighbour.versions_of(keys)
        piece = len(self._pieces)
        self._pieces.append(versions)
        for position in np.flatnonzero(versions == 0).tolist():
            self._missed.append((piece, position, records[position]))
            self._missed_keys.append(int(keys[position]))
            self._missed_bytes += len(records[position])
            self._missed_bytes += _bytes_above(records[position])
            if len(self._missed) >= _BATCH_RECORDS or self._missed_bytes >= _BATCH_BYTES:
                self._resolve()
        self.read += len(records)
        self._bytes += sum(map(len, records))
        if self._progress:
            self._progress(self.read)

    def versions(self) -> Ids:
        """Return the version of every record so far, in order; 0 for records that are left out."""
        self._resolve()
        return np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.uint32)

    def finish(self, route: str, versions: Ids, series: str | None = None, state: bytes | None = None) -> IngestResult:
        """Make the archive visible as the set of these versions, in one transaction."""
        with self._store.read() as snapshot:
            members = _one_per_path(snapshot, versions[versions != 0])
            missing = _directories_not_listed(snapshot, members)
        implicit = self._intern_implicit(missing.tolist())
        stored = bits.encode(bits.pack(np.concatenate([members, implicit])))
        with self._store.write() as transaction:
            number = int(transaction.meta().get("next_archive", b"1"))
            transaction.set_meta("next_archive", str(number + 1).encode())
            old = transaction.archive(self._archive)
            if old is not None:
                transaction.delete_archive(old.id, all_chunks(transaction))
            fingerprint = self._excludes.fingerprint
            row = ArchiveRow(number, self._archive, len(members), route, self.lossy, fingerprint)
            transaction.put_archive(row, stored)
            self._write_keys(transaction)
            if series is not None and state is not None:
                transaction.put_state(series, number, state)
            top = transaction.top_id("version")
        return IngestResult(
            self._archive,
            route,
            len(members),
            self.read,
            self.parsed,
            self.versions_before,
            top,
            self.lossy,
            self._base,
        )

    def _write_keys(self, transaction: Transaction) -> None:
        if self._learned:
            ids = np.concatenate([versions for versions, _ in self._learned]).astype(np.int64)
            columns.update(transaction, KEYS + self._format, ids, np.concatenate([keys for _, keys in self._learned]))

    def _resolve(self) -> None:
        """Parse the records that are not in the neighbour, and find or add their versions, in one short transaction."""
        if not self._missed:
            return
        wanted: list[Entry] = []
        places: list[int] = []
        for number, (_, _, record) in enumerate(self._missed):
            entry = self._parse(record)
            if entry is not None and not self._excludes.match(entry.path):
                if (flaw := flaw_of(entry)) is not None:
                    raise ArchiveUnreadable(flaw)
                wanted.append(entry)
                places.append(number)
                self.lossy = self.lossy or entry.is_lossy
        with self._store.write() as transaction:
            versions = self._dictionary.intern(transaction, wanted)
            self.chunks.note(transaction, versions, wanted)
        if self._dictionary.directory_bytes > _DIRECTORY_BYTES_FREE + _DIRECTORY_RATIO_MOST * self._bytes:
            raise ArchiveTooLarge("its paths have far more directories above them than files")
        for number, version in zip(places, versions.tolist(), strict=True):
            piece, position, _ = self._missed[number]
            self._pieces[piece][position] = version
        keys = np.array(self._missed_keys, np.uint64)[places]
        self._learned.append((versions, keys))
        self.parsed += len(self._missed)
        self._missed, self._missed_keys, self._missed_bytes = [], [], 0

    def _intern_implicit(self, directories: list[int]) -> Ids:
        found = [np.zeros(0, np.uint32)]
        for start in range(0, len(directories), _BATCH_DIRECTORIES):
            with self._store.write() as transaction:
                paths = transaction.directory_paths(directories[start : start + _BATCH_DIRECTORIES]).values()
                batch = [implicit_directory(path[:-1] or path) for path in paths]
                found.append(self._dictionary.intern(transaction, batch))
        return np.concatenate(found)


def _bytes_above(record: bytes) -> int:
    """Return the maximum number of bytes that the paths of all directories above a deep path take."""
    depth = record.count(b"/")
    return 2 * depth * len(record) if depth > _DEEP else 0


def all_chunks(snapshot: Snapshot) -> range:
    return range((snapshot.top_id("version") >> CHUNK_BITS) + 1)


def _knows_format(meta: dict[str, bytes], record_format: int) -> bool:
    return f"format_{record_format}" in meta


def _is_mixed(meta: dict[str, bytes], record_format: int) -> bool:
    return _knows_format(meta, ITEM if record_format == LISTING else LISTING)


def _one_per_path(snapshot: Snapshot, versions: Ids) -> Ids:
    """Given versions in the order of the archive, keep the last one of each path: that is what a restore leaves."""
    if not len(versions):
        return versions
    paths = columns.take(columns.load(snapshot, VERSION_PATH), versions)
    if not paths.all():
        raise IndexDamaged("a version has no path")
    seen = np.zeros(int(paths.max()) + 1, np.bool_)
    seen[paths] = True
    if int(seen.sum()) == len(versions):
        return versions
    _, last = np.unique(paths[::-1], return_index=True)
    return versions[::-1][last]


def _directories_not_listed(snapshot: Snapshot, members: Ids) -> npt.NDArray[np.int64]:
    """Given the versions of an archive, return the parent directories without an entry of their own."""
    if not len(members):
        return np.zeros(0, np.int64)
    paths = columns.take(columns.load(snapshot, VERSION_PATH), members)
    parent = columns.load(snapshot, DIRECTORY_PARENT)
    entry = columns.load(snapshot, DIRECTORY_ENTRY)
    used = directories_above(columns.take(columns.load(snapshot, PATH_DIRECTORY), paths), parent)
    own = columns.take(entry, used)
    listed = np.zeros(int(max(paths.max(), own.max(initial=0))) + 1, np.bool_)
    listed[paths] = True
    lacking: npt.NDArray[np.int64] = used[(own != 0) & ~listed[own]]
    return lacking


def directories_above(directories: Ids, parent: Ids) -> npt.NDArray[np.int64]:
    """Given directory ids, return them and all directories above them, each once."""
    marked = np.zeros(max(len(parent), int(directories.max(initial=0)) + 1), np.bool_)
    fresh = np.unique(directories).astype(np.int64)
    while len(fresh):
        marked[fresh] = True
        above = np.unique(columns.take(parent, fresh))
        fresh = above[(above != 0) & ~marked[above]].astype(np.int64)
    return np.flatnonzero(marked)
