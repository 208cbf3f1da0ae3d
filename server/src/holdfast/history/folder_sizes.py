"""The sizes of an archive's folders: the sizes of its files, added up from folder to folder."""

import threading
from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from backup_engine.frozen import frozen
from holdfast.history import bits, columns
from holdfast.history.bits import CHUNK_BITS, CHUNK_IDS, Packed
from holdfast.history.columns import KeptColumns, Numbers
from holdfast.history.schema import COLUMN_TYPES, DIRECTORY_ENTRY, DIRECTORY_PARENT, VERSION_BYTES
from holdfast.history.store import ArchiveRow, Snapshot, Store

MOST_ENTRIES = 4_000_000
"""Most entries of an archive for which sizes are added up. The sizes of folders in a larger archive stay unknown."""
_MOST_BYTES = 2**62
_KEPT_ARCHIVES = 24
_KEPT_BYTES = 32 * 1024 * 1024
_FEW = 3  # a neighbour is used if fewer than one in this many entries differ
_COMPLETE = "version_bytes"  # key in the meta table once every version has its size


Epoch = bytes


@frozen
class Folder:
    entries: int
    """Directly in the folder."""
    bytes: int
    """Of all files below the folder."""


@frozen
class _Totals:
    """The totals of one archive, by directory id."""

    entries: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.float64]  # exact up to 9 petabytes, and never negative beyond that
    members: Packed  # the versions that were added up
    epoch: Epoch  # in which the ids are valid

    @property
    def memory(self) -> int:
        return self.entries.nbytes + self.bytes.nbytes + self.members.nbytes

    def of(self, directory: int) -> Folder:
        if directory >= len(self.entries):
            return Folder(0, 0)
        return Folder(int(self.entries[directory]), int(self.bytes[directory]))


class FolderSizes:
    """Adds up all folders of an archive at once. The last few archives are remembered, since they never change."""

    def __init__(self, columns: KeptColumns) -> None:
        self._columns = columns
        self._guard = threading.Lock()
        self._kept: OrderedDict[int, _Totals] = OrderedDict()

    def in_directory(self, snapshot: Snapshot, archive: ArchiveRow, directory: int) -> dict[int, Folder] | None:
        """Return the folders directly in a directory, by the path id of their entry, without those that never had
        content.

        Return None if sizes are unknown: for huge archives, and in an index without sizes until its next ingest.
        """
        meta = snapshot.meta()
        if _COMPLETE not in meta or archive.entries > MOST_ENTRIES:
            return None
        totals = self._totals(snapshot, archive, meta.get("epoch", b""))
        children = np.flatnonzero(columns.load(snapshot, DIRECTORY_PARENT) == directory)
        own = columns.take(columns.load(snapshot, DIRECTORY_ENTRY), children)
        return {path: totals.of(child) for child, path in zip(children.tolist(), own.tolist(), strict=True)}

    def _totals(self, snapshot: Snapshot, archive: ArchiveRow, epoch: bytes) -> _Totals:
        with self._guard:
            if archive.id in self._kept:
                self._kept.move_to_end(archive.id)
                return self._kept[archive.id]
        totals = self._added_up(snapshot, archive, epoch)
        with self._guard:
            self._kept[archive.id] = totals
            memory = sum(one.memory for one in self._kept.values())
            while len(self._kept) > 1 and (memory > _KEPT_BYTES or len(self._kept) > _KEPT_ARCHIVES):
                memory -= self._kept.popitem(last=False)[1].memory
        return totals

    def _added_up(self, snapshot: Snapshot, archive: ArchiveRow, epoch: bytes) -> _Totals:
        """Add up the differences from a neighbour with known totals if they are few, otherwise all entries."""
        chunks = range((snapshot.top_id("version") >> CHUNK_BITS) + 1)
        members = bits.decode(snapshot.bits(archive.id, chunks))
        near = self._nearest(archive, epoch)
        if near is not None:
            versions = bits.unpack(_different(members, near.members))
            if len(versions) * _FEW < archive.entries:
                signs = np.where(bits.member_mask(members, versions), 1.0, -1.0)
                return self._with(snapshot, near, members, versions, signs)
        versions = bits.unpack(members)
        nothing = _Totals(np.zeros(0, np.int64), np.zeros(0), members, epoch)
        return self._with(snapshot, nothing, members, versions, None)

    def _nearest(self, archive: ArchiveRow, epoch: bytes) -> _Totals | None:
        """Return the known archive that was indexed most closely before or after: it shares the most entries."""
        with self._guard:
            known = [(abs(number - archive.id), number) for number, one in self._kept.items() if one.epoch == epoch]
            return self._kept[min(known)[1]] if known else None

    def _with(
        self,
        snapshot: Snapshot,
        base: _Totals,
        members: Packed,
        versions: Numbers,
        signs: npt.NDArray[np.float64] | None,
    ) -> _Totals:
        """Return the totals with these versions added, or subtracted if their sign is negative."""
        epoch = base.epoch
        paths = self._columns.version_path.take(snapshot, epoch, versions)
        directories = self._columns.path_directory.take(snapshot, epoch, paths)
        parent = columns.load(snapshot, DIRECTORY_PARENT)
        stored = self._columns.version_bytes.take(snapshot, epoch, versions)
        sizes = np.maximum(stored.astype(np.float64) - 1, 0)
        count = np.bincount(directories, signs, len(parent)).astype(np.int64)
        below = _with_all_below(_sums(directories, sizes if signs is None else sizes * signs, len(parent)), parent)
        count[: len(base.entries)] += base.entries[: len(parent)]
        below[: len(base.bytes)] += base.bytes[: len(parent)]
        return _Totals(count, np.maximum(below, 0), members, epoch)


def _different(one: Packed, other: Packed) -> Packed:
    """Return the members of exactly one of two sets."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    found = longer.copy()
    found[: len(shorter)] ^= shorter
    return found


def _sums(places: Numbers, amounts: npt.NDArray[np.float64], length: int) -> npt.NDArray[np.float64]:
    return np.asarray(np.bincount(places, amounts, length), np.float64)


def _with_all_below(own: npt.NDArray[np.float64], parent: Numbers) -> npt.NDArray[np.float64]:
    """Given an amount for each directory, add those of all directories below it, level by level upwards."""
    whole, moving = own.copy(), own
    while len(places := np.flatnonzero(moving)):
        moving = _sums(columns.take(parent, places), moving[places], len(own))
        moving[0] = 0  # above the root
        whole += moving
    return whole


def bytes_of(snapshot: Snapshot, kept: KeptColumns, versions: Numbers) -> npt.NDArray[np.int64] | None:
    """Return the bytes that each version adds to its folder, 0 for version 0; None if sizes are unknown."""
    meta = snapshot.meta()
    if _COMPLETE not in meta:
        return None
    found = np.zeros(len(versions), np.int64)
    there = np.flatnonzero(versions)
    stored = kept.version_bytes.take(snapshot, meta.get("epoch", b""), versions[there])
    found[there] = np.maximum(stored.astype(np.int64) - 1, 0)
    return found


def stored_bytes(file_bytes: int) -> int:
    """Return the value for the size column, in which 0 means that the id is free."""
    return min(file_bytes, _MOST_BYTES) + 1


def complete_sizes(store: Store) -> None:
    """Fill the size column of an index that lacks it, in short transactions. Requires the right to write."""
    with store.read() as snapshot:
        if _COMPLETE in snapshot.meta():
            return
        top = snapshot.top_id("version")
    for chunk in range((top >> CHUNK_BITS) + 1):
        first = chunk << CHUNK_BITS
        with store.write() as transaction:
            numbers = np.zeros(CHUNK_IDS, COLUMN_TYPES[VERSION_BYTES])
            for version, size in transaction.bytes_between(first, first + CHUNK_IDS - 1):
                numbers[version - first] = stored_bytes(size)
            transaction.put_column(VERSION_BYTES, [(chunk, numbers.tobytes())])
    with store.write() as transaction:
        transaction.set_meta(_COMPLETE, b"1")
