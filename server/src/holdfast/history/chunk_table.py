"""The engine's chunks that contain the content of each version: one row of numbers per distinct chunk, stored as
columns.

A version refers to its chunks by number: to the first in a column, to further ones in a separate row, which few
versions have. Only archives read by the chunk route supply chunks; for the content of other versions there are none.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.history import columns
from holdfast.history.bits import CHUNK_BITS, CHUNK_IDS, Ids
from holdfast.history.chunks.file_chunk import Chunk
from holdfast.history.chunks.frames import ID_BYTES
from holdfast.history.entry import Entry
from holdfast.history.schema import (
    CHUNK_KEY,
    CHUNK_REST,
    CHUNK_SEGMENT,
    CHUNK_SIZE,
    CHUNK_STORED,
    MORE_CHUNKS,
    VERSION_CHUNK,
    column_id,
)
from holdfast.history.store import Snapshot, Store, Transaction

_ROW = np.dtype([("key", "<u8"), ("rest", "V24"), ("size", "<u4"), ("stored", "<u4")])
_BATCH = 20_000
_NUMBER = struct.Struct("<I")
_FEW = 32
"""Number of chunks of a file up to which they are read one by one."""

Numbers = npt.NDArray[np.uint32]
Segments = Callable[[bytes], bytes]
"""Given joined ids, return a 4-byte number for each, see CHUNK_SEGMENT."""


# --- writing --------------------------------------------------------------------------------------------------------


class ChunkNumbers:
    """Numbers the chunks of new versions. Requires the right to write (`Store.exclusive`): numbers are counted in
    memory.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._levels: list[tuple[npt.NDArray[np.uint64], Numbers]] | None = None
        self._free: Iterator[int] = iter(())
        self._added: list[Numbers] = []

    def note(self, transaction: Transaction, versions: Ids, entries: Sequence[Entry]) -> None:
        """Store the chunks of these versions' entries."""
        lists = [entry.chunks for entry in entries]
        counts = np.fromiter(map(len, lists), np.int64, len(lists)) // _ROW.itemsize
        _, places = np.unique(versions, return_index=True)
        places = places[counts[places] != 0]
        ids = versions[places].astype(np.int64)
        is_new = columns.read(transaction, VERSION_CHUNK, ids) == 0
        ids, places = ids[is_new], places[is_new]
        if not len(ids):
            return
        rows = np.frombuffer(b"".join([lists[place] for place in places.tolist()]), _ROW)
        numbers = self._numbers(transaction, rows)
        ends = np.cumsum(counts[places])
        starts = ends - counts[places]
        is_whole = np.minimum.reduceat(numbers, starts) != 0
        columns.update(transaction, VERSION_CHUNK, ids[is_whole], numbers[starts[is_whole]])
        has_more = np.flatnonzero(is_whole & (counts[places] > 1))
        further = [
            (version, numbers[start + 1 : end].astype("<u4").tobytes())
            for version, start, end in zip(
                ids[has_more].tolist(), starts[has_more].tolist(), ends[has_more].tolist(), strict=True
            )
        ]
        if further:
            transaction.put_column(MORE_CHUNKS, further)

    def locate(self, segments: Segments) -> None:
        """Record the segments that contain the new chunks."""
        self._note_added(CHUNK_SEGMENT, segments)

    def note_stored(self, sizes: Segments) -> None:
        """Record the number of bytes that the new chunks take in the repository."""
        self._note_added(CHUNK_STORED, sizes)

    def _note_added(self, kind: int, ask: Segments) -> None:
        added = np.concatenate(self._added) if self._added else np.zeros(0, np.uint32)
        for start in range(0, len(added), _BATCH):
            numbers = added[start : start + _BATCH]
            with self._store.read() as snapshot:
                found = np.frombuffer(ask(_Blocks(snapshot).joined_ids(numbers)), ">u4")
            with self._store.write() as transaction:
                columns.update(transaction, kind, numbers.astype(np.int64), found)
        self._added = []

    def _numbers(self, transaction: Transaction, rows: npt.NDArray[Any]) -> Numbers:
        """Return the number of each chunk.

        Return 0 for a chunk whose id starts like that of another one, which does not happen by chance.
        """
        _, firsts, places = np.unique(rows["key"], return_index=True, return_inverse=True)
        distinct = rows[firsts]
        known = self._find(transaction, distinct["key"])
        found = np.flatnonzero(known)
        same = columns.read(transaction, CHUNK_REST, known[found]) == distinct["rest"][found]
        numbers = known.copy()
        numbers[found[~same]] = 0
        new = np.flatnonzero(known == 0)
        numbers[new] = list(islice(self._free, len(new)))
        self._write(transaction, numbers[new], distinct[new])
        spread = numbers[places]
        spread[rows["rest"] != distinct["rest"][places]] = 0
        return spread

    def _write(self, transaction: Transaction, numbers: Numbers, rows: npt.NDArray[Any]) -> None:
        if not len(numbers):
            return
        ids = numbers.astype(np.int64)
        for kind, name in ((CHUNK_KEY, "key"), (CHUNK_REST, "rest"), (CHUNK_SIZE, "size"), (CHUNK_STORED, "stored")):
            columns.update(transaction, kind, ids, rows[name])
        columns.update(transaction, CHUNK_SEGMENT, ids, np.zeros(len(ids), np.int64))
        self._added.append(numbers)
        self._remember(rows["key"].copy(), numbers)

    def _find(self, snapshot: Snapshot, keys: npt.NDArray[np.uint64]) -> Numbers:
        """Given keys in ascending order, return the chunk number for each; 0 if there is none."""
        if self._levels is None:
            self._levels = []
            self._load(snapshot)
        found = np.zeros(len(keys), np.uint32)
        for known, numbers in self._levels:
            places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            found = np.where(known[places] == keys, numbers[places], found)
        return found

    def _load(self, snapshot: Snapshot) -> None:
        sizes = columns.load(snapshot, CHUNK_SIZE)
        taken = np.flatnonzero(sizes).astype(np.uint32)
        self._free = chain((np.flatnonzero(sizes[1:] == 0) + 1).tolist(), count(len(sizes)))
        if len(taken):
            self._remember(columns.load(snapshot, CHUNK_KEY)[taken], taken)

    def _remember(self, keys: npt.NDArray[np.uint64], numbers: Numbers) -> None:
        """Keep a few sorted arrays, each less than half as long as the previous one, so that adding stays cheap."""
        assert self._levels is not None
        while self._levels and len(self._levels[-1][0]) < 2 * len(keys):
            older = self._levels.pop()
            keys, numbers = np.concatenate([older[0], keys]), np.concatenate([older[1], numbers])
        order = np.argsort(keys)
        self._levels.append((keys[order], numbers[order]))


# --- reading --------------------------------------------------------------------------------------------------------


def chunks_of(snapshot: Snapshot, version: int, size: int) -> list[Chunk] | None:
    """Return the chunks of a version's content, in order; None if they are unknown."""
    if size == 0:
        return []
    numbers = _chunk_numbers(snapshot, version)
    if len(numbers) > _FEW:
        return _Blocks(snapshot).chunks(version, size)
    return _few_chunks(snapshot, numbers, size)


def _chunk_numbers(snapshot: Snapshot, version: int) -> list[int]:
    """Return the numbers of a version's chunks, in order; empty if they are unknown."""
    block = VERSION_CHUNK, version >> CHUNK_BITS
    more = MORE_CHUNKS, version
    stored = snapshot.column_blocks((block, more))
    first = _number(stored.get(block, b""), version)
    return [first, *(one for (one,) in _NUMBER.iter_unpack(stored.get(more, b"")))] if first else []


def _few_chunks(snapshot: Snapshot, numbers: Sequence[int], size: int) -> list[Chunk] | None:
    """Like `_Blocks.chunks`, without making arrays of whole blocks."""
    blocks = {number >> CHUNK_BITS for number in numbers}
    kinds = (CHUNK_SIZE, CHUNK_KEY, CHUNK_REST)
    stored = snapshot.column_blocks((kind, block) for kind in kinds for block in sorted(blocks))

    def chunk(number: int) -> Chunk:
        sizes, keys, rests = (stored.get((kind, number >> CHUNK_BITS), b"") for kind in kinds)
        return Chunk(_cell(keys, number, 8) + _cell(rests, number, 24), _number(sizes, number))

    chunks = [chunk(number) for number in numbers]
    is_whole = chunks and all(one.size for one in chunks) and sum(one.size for one in chunks) == size
    return chunks if is_whole else None


def _number(block: bytes, at: int) -> int:
    return int.from_bytes(_cell(block, at, _NUMBER.size), "little")


def _cell(block: bytes, at: int, width: int) -> bytes:
    """Return one number from a block of a column. Zeros at the end of a block are not stored."""
    start = (at & (CHUNK_IDS - 1)) * width
    return block[start : start + width].ljust(width, b"\0")


def chunks_of_all(snapshot: Snapshot, sizes: Mapping[int, int], most: int) -> dict[int, list[Chunk]] | None:
    """Return the chunks of many versions, given the size of each; None if those of one are unknown or there are too
    many.
    """
    blocks = _Blocks(snapshot)
    versions = np.fromiter(sizes, np.int64, len(sizes))
    wanted = np.fromiter(sizes.values(), np.int64, len(sizes))
    first = blocks.take(VERSION_CHUNK, versions).astype(np.uint32)
    if not first.all():
        return None
    has_more = versions[blocks.take(CHUNK_SIZE, first) != wanted].tolist()
    further = {version: np.frombuffer(data, "<u4") for version, data in snapshot.column_chunks(MORE_CHUNKS, has_more)}
    none = np.zeros(0, np.uint32)
    lists = [
        np.concatenate([first[at : at + 1], further.get(version, none)]) for at, version in enumerate(versions.tolist())
    ]
    if sum(map(len, lists)) > most:
        return None
    if not lists:
        return {}
    numbers = np.concatenate(lists)
    parts = blocks.take(CHUNK_SIZE, numbers)
    ends = np.cumsum([len(one) for one in lists])
    starts = np.concatenate([[0], ends[:-1]])
    if not parts.all() or (np.add.reduceat(parts.astype(np.int64), starts) != wanted).any():
        return None
    chunks = [Chunk(*both) for both in zip(blocks.ids(numbers), parts.tolist(), strict=True)]
    bounds = zip(versions.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return {version: chunks[start:end] for version, start, end in bounds}


class _Blocks:
    """Reads only the blocks of a column that contain the wanted numbers."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def chunks(self, version: int, size: int) -> list[Chunk] | None:
        first = self.take(VERSION_CHUNK, np.array([version])).astype(np.uint32)
        if not first[0]:
            return None
        numbers = np.concatenate([first, np.frombuffer(self.further(version), "<u4")])
        sizes = self.take(CHUNK_SIZE, numbers)
        if not sizes.all() or int(sizes.sum(dtype=np.int64)) != size:
            return None
        return [Chunk(*both) for both in zip(self.ids(numbers), sizes.tolist(), strict=True)]

    def ids(self, numbers: Numbers) -> list[bytes]:
        joined = self.joined_ids(numbers)
        return [joined[at : at + ID_BYTES] for at in range(0, len(joined), ID_BYTES)]

    def joined_ids(self, numbers: Numbers) -> bytes:
        rows = np.zeros(len(numbers), [("key", "<u8"), ("rest", "V24")])
        rows["key"], rows["rest"] = self.take(CHUNK_KEY, numbers), self.take(CHUNK_REST, numbers)
        return rows.tobytes()

    def further(self, version: int) -> bytes:
        found = self._snapshot.column_chunks(MORE_CHUNKS, [version])
        return found[0][1] if found else b""

    def take(self, kind: int, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return columns.read(self._snapshot, kind, ids)


class _Whole(_Blocks):
    """Reads whole columns once, to check everything."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        kinds = (VERSION_CHUNK, CHUNK_SIZE, CHUNK_KEY, CHUNK_REST)
        self._columns = {kind: columns.load(snapshot, kind) for kind in kinds}
        self._further = dict(snapshot.column(MORE_CHUNKS))

    @property
    def versions(self) -> list[int]:
        with_chunks: list[int] = np.flatnonzero(self._columns[VERSION_CHUNK]).tolist()
        return with_chunks

    def further(self, version: int) -> bytes:
        return self._further.get(version, b"")

    def take(self, kind: int, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        column = self._columns[kind]
        taken: npt.NDArray[Any] = column[np.where(ids < len(column), ids, 0)]
        return taken


# --- sweeping and checking ------------------------------------------------------------------------------------------


def forget_versions(transaction: Transaction, versions: Ids) -> None:
    """Clear the chunks of deleted versions, whose numbers may be reused."""
    ids = versions.astype(np.int64)
    ids = ids[columns.read(transaction, VERSION_CHUNK, ids) != 0]
    columns.update(transaction, VERSION_CHUNK, ids, np.zeros(len(ids), np.int64))
    transaction.delete("numbers", [column_id(MORE_CHUNKS, version) for version in ids.tolist()])


def sweep_chunks(store: Store) -> int:
    """Free the numbers of chunks that no version uses any more. Return how many there were."""
    with store.read() as snapshot:
        sizes = columns.load(snapshot, CHUNK_SIZE)
        named = np.zeros(len(sizes), np.bool_)
        named[columns.load(snapshot, VERSION_CHUNK)] = True
        for _, data in snapshot.column(MORE_CHUNKS):
            named[np.frombuffer(data, "<u4")] = True
    dead = np.flatnonzero((sizes != 0) & ~named)
    for start in range(0, len(dead), _BATCH):
        with store.write() as transaction:
            numbers = dead[start : start + _BATCH]
            columns.update(transaction, CHUNK_SIZE, numbers, np.zeros(len(numbers), np.int64))
    return len(dead)


def chunk_damage(snapshot: Snapshot, content_of: Callable[[Sequence[bytes]], int]) -> Iterator[str]:
    """Compare each version with its chunks: their sizes must add up to its size, their ids must match its content."""
    whole = _Whole(snapshot)
    versions = whole.versions
    for start in range(0, len(versions), _BATCH):
        batch = versions[start : start + _BATCH]
        entries = {found.version: found.entry for found in snapshot.entries(batch)}
        for version in batch:
            if problem := _problem(whole, version, entries.get(version), content_of):
                yield f"version {version}: {problem}"


def _problem(
    whole: _Whole, version: int, entry: Entry | None, content_of: Callable[[Sequence[bytes]], int]
) -> str | None:
    if entry is None:
        return "it has chunks and does not exist"
    chunks = whole.chunks(version, entry.size)
    if chunks is None:
        return f"the chunks of {entry.path!r} are not there, or not as large as the file"
    if content_of([chunk.id for chunk in chunks]) != entry.content:
        return f"the chunks of {entry.path!r} are not those of its content"
    return None
