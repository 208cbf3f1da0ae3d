"""Numeric columns next to the rows: one number per id, stored in chunks, read as arrays."""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.history.bits import CHUNK_BITS, CHUNK_IDS
from holdfast.history.schema import COLUMN_TYPES, PATH_DIRECTORY, VERSION_BYTES, VERSION_PATH
from holdfast.history.store import Snapshot, Transaction

Numbers = npt.NDArray[Any]

_READ_AT_ONCE = 128  # of at most 192 KiB each
_CACHED_CHUNKS = 1024  # of 32 KiB each: 8.4 million ids


_EMPTY = {kind: np.zeros(0, dtype) for kind, dtype in COLUMN_TYPES.items()}


def load(snapshot: Snapshot, kind: int) -> Numbers:
    """Return the whole column, at least one chunk long; ids beyond its end have the number 0."""
    rows = snapshot.column(kind)
    top = max((chunk for chunk, _ in rows), default=0)
    whole = np.zeros((top + 1) * CHUNK_IDS, COLUMN_TYPES[kind])
    for chunk, data in rows:
        _fill(whole, chunk, data)
    return whole


def _fill(column: Numbers, chunk: int, data: bytes) -> None:
    """Copy a stored chunk into a column. Zeros at the end of a chunk are not stored."""
    numbers = np.frombuffer(data, column.dtype)
    start = chunk << CHUNK_BITS
    column[start : start + len(numbers)] = numbers


def _stored(numbers: Numbers) -> bytes:
    data = numbers.tobytes().rstrip(b"\0")
    return data + bytes(-len(data) % numbers.itemsize)


def take(column: Numbers, ids: Numbers) -> Numbers:
    """Given a loaded column, return the numbers at these ids; 0 beyond its end."""
    return np.where(ids < len(column), column[np.minimum(ids, len(column) - 1)], 0)


def read(snapshot: Snapshot, kind: int, ids: Numbers) -> Numbers:
    """Return the numbers at these ids, 0 if none is stored, reading only the chunks of the column that contain them."""
    chunks = np.unique(ids >> CHUNK_BITS)
    if len(chunks) > _READ_AT_ONCE:
        return _read_in_turn(snapshot, kind, ids, chunks)
    stored = dict(snapshot.column_chunks(kind, chunks.tolist()))
    size = CHUNK_IDS * np.dtype(COLUMN_TYPES[kind]).itemsize
    whole = (stored.get(chunk, b"").ljust(size, b"\0") for chunk in chunks.tolist())
    joined = np.frombuffer(b"".join(whole), COLUMN_TYPES[kind])
    places = np.searchsorted(chunks, ids >> CHUNK_BITS) << CHUNK_BITS
    return joined[places + (ids & (CHUNK_IDS - 1))]


def _read_in_turn(snapshot: Snapshot, kind: int, ids: Numbers, chunks: Numbers) -> Numbers:
    """Like `read`, with few chunks of the column in memory at a time."""
    found = np.zeros(len(ids), COLUMN_TYPES[kind])
    turn = np.searchsorted(chunks, ids >> CHUNK_BITS) // _READ_AT_ONCE
    for number in range(-(-len(chunks) // _READ_AT_ONCE)):
        places = np.flatnonzero(turn == number)
        found[places] = read(snapshot, kind, ids[places])
    return found


def update(transaction: Transaction, kind: int, ids: Numbers, numbers: Numbers) -> None:
    """Set the numbers at these ids."""
    if not len(ids):
        return
    order = np.argsort(ids, kind="stable")
    ids, numbers = ids[order], numbers[order]
    chunk_of = ids >> CHUNK_BITS
    chunks, starts = np.unique(chunk_of, return_index=True)
    stored = dict(transaction.column_chunks(kind, chunks.tolist()))
    ends = [*starts[1:].tolist(), len(ids)]
    changed = []
    for chunk, start, end in zip(chunks.tolist(), starts.tolist(), ends, strict=True):
        values = np.zeros(CHUNK_IDS, COLUMN_TYPES[kind])
        _fill(values, 0, stored.get(chunk, b""))
        values[ids[start:end] & (CHUNK_IDS - 1)] = numbers[start:end]
        changed.append((chunk, _stored(values)))
    transaction.put_column(kind, changed)


class CachedColumn:
    """A column for reading, kept in memory. Once set, a number stays until a sweep frees its id."""

    def __init__(self, kind: int) -> None:
        self._kind = kind
        self._guard = threading.Lock()
        self._forget(b"")

    def take(self, snapshot: Snapshot, epoch: bytes, ids: Numbers) -> Numbers:
        """Return the numbers at these ids. `epoch`: the last sweep that the transaction sees."""
        if not len(ids):
            return np.zeros(0, COLUMN_TYPES[self._kind])
        chunks = np.flatnonzero(np.bincount(ids >> CHUNK_BITS)).tolist()
        if chunks[-1] >= _CACHED_CHUNKS:
            return read(snapshot, self._kind, ids)  # the column is too large to keep
        with self._guard:
            if epoch != self._epoch:
                self._forget(epoch)
            self._read(snapshot, [chunk for chunk in chunks if chunk not in self._loaded])
            found = self._numbers[ids]
            if not found.all():  # a chunk was read before these ids were assigned
                self._read(snapshot, np.unique(ids[found == 0] >> CHUNK_BITS).tolist())
                found = self._numbers[ids]
        return found

    def _forget(self, epoch: bytes) -> None:
        self._epoch = epoch
        self._loaded: set[int] = set()
        self._numbers: Numbers = _EMPTY[self._kind]

    def _read(self, snapshot: Snapshot, chunks: list[int]) -> None:
        if not chunks:
            return
        room = (max(chunks) + 1) * CHUNK_IDS
        if room > len(self._numbers):
            self._numbers = np.concatenate([self._numbers, np.zeros(room - len(self._numbers), self._numbers.dtype)])
        for chunk, data in snapshot.column_chunks(self._kind, chunks):
            _fill(self._numbers, chunk, data)
        self._loaded.update(chunks)


class KeptColumns:
    """The columns that many answers need, kept once per index."""

    def __init__(self) -> None:
        self.version_path = CachedColumn(VERSION_PATH)
        self.version_bytes = CachedColumn(VERSION_BYTES)
        self.path_directory = CachedColumn(PATH_DIRECTORY)
