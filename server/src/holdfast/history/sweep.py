"""Remove what no archive uses any more, in short transactions. Only while there is no ingest (`Store.exclusive`)."""

import numpy as np
import numpy.typing as npt

from backup_engine.frozen import frozen
from holdfast.history import bits, columns
from holdfast.history.bits import Ids
from holdfast.history.chunk_table import forget_versions, sweep_chunks
from holdfast.history.chunks.state import SeriesState
from holdfast.history.dictionary import last_name_swept
from holdfast.history.entry import ITEM, LISTING
from holdfast.history.ingest import all_chunks, directories_above
from holdfast.history.schema import (
    DIRECTORY_ENTRY,
    DIRECTORY_PARENT,
    KEYS,
    PATH_DIRECTORY,
    ROOT_ID,
    VERSION_BYTES,
    VERSION_LINK,
    VERSION_PATH,
    VERSION_TWIN,
)
from holdfast.history.store import Snapshot, Store, Transaction

_BATCH = 20_000


@frozen
class SweepResult:
    versions: int
    paths: int
    directories: int
    names: int
    chunks: int


def sweep(store: Store) -> SweepResult:
    """Delete versions that are in no archive, then unused paths, directories, names and chunks."""
    with store.read() as snapshot:
        dead_versions = _dead_versions(snapshot)
    for start in range(0, len(dead_versions), _BATCH):
        with store.write() as transaction:
            _delete_versions(transaction, dead_versions[start : start + _BATCH])
    with store.read() as snapshot:
        dead_paths, dead_directories = _dead_paths(snapshot)
    names = 0
    for start in range(0, len(dead_paths), _BATCH):
        with store.write() as transaction:
            names += _delete_paths(transaction, dead_paths[start : start + _BATCH])
    for start in range(0, len(dead_directories), _BATCH):
        with store.write() as transaction:
            _delete_directories(transaction, dead_directories[start : start + _BATCH])
    chunks = sweep_chunks(store)
    return SweepResult(len(dead_versions), len(dead_paths), len(dead_directories), names, chunks)


def _dead_versions(snapshot: Snapshot) -> Ids:
    path = columns.load(snapshot, VERSION_PATH)
    alive = np.zeros(len(path), np.bool_)
    everything = np.zeros(len(path) // 8, np.uint8)
    for row in snapshot.archives():
        packed = bits.decode(snapshot.bits(row.id, all_chunks(snapshot)))
        everything[: len(packed)] |= packed
    alive[bits.unpack(everything)] = True
    for data in snapshot.states():
        alive[SeriesState.load(data).versions] = True
    return np.flatnonzero((path != 0) & ~alive).astype(np.uint32)


def _delete_versions(transaction: Transaction, versions: Ids) -> None:
    meta = transaction.meta()
    formats = [number for number in (LISTING, ITEM) if f"format_{number}" in meta]
    ids, nothing = versions.astype(np.int64), np.zeros(len(versions), np.int64)
    transaction.delete("version", versions.tolist())
    for kind in (VERSION_PATH, VERSION_BYTES, *(KEYS + number for number in formats)):
        columns.update(transaction, kind, ids, nothing)
    linked = ids[columns.take(columns.load(transaction, VERSION_LINK), ids) != 0]
    columns.update(transaction, VERSION_LINK, linked, nothing[: len(linked)])
    forget_versions(transaction, versions)
    if len(formats) > 1:
        _delete_twins(transaction, versions)
    _next_epoch(transaction)


def _delete_twins(transaction: Transaction, versions: Ids) -> None:
    """Remove all links to these versions, as their ids may be reused."""
    twin = columns.load(transaction, VERSION_TWIN)
    lone = np.zeros(len(twin), np.bool_)
    lone[versions[versions < len(twin)]] = True
    lone |= np.isin(twin, versions)
    ids = np.flatnonzero(lone & (twin != 0))
    columns.update(transaction, VERSION_TWIN, ids, np.zeros(len(ids), np.int64))


def _dead_paths(snapshot: Snapshot) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return paths without a version that are not the entry of a used directory, and unused directories."""
    version_path = columns.load(snapshot, VERSION_PATH)
    directory_of = columns.load(snapshot, PATH_DIRECTORY)
    parent, entry = columns.load(snapshot, DIRECTORY_PARENT), columns.load(snapshot, DIRECTORY_ENTRY)
    alive = np.zeros(len(directory_of), np.bool_)
    alive[version_path] = True
    alive[columns.load(snapshot, VERSION_LINK)] = True
    used = np.zeros(len(parent), np.bool_)
    used[directories_above(columns.take(directory_of, np.flatnonzero(alive)), parent)] = True
    alive[entry[used]] = True
    dead_paths = np.flatnonzero((directory_of != 0) & ~alive)
    there = parent != 0
    there[ROOT_ID : ROOT_ID + 1] = False
    return dead_paths, np.flatnonzero(there & ~used)


def _delete_paths(transaction: Transaction, paths: npt.NDArray[np.int64]) -> int:
    names = {name for _, name in transaction.path_names(paths.tolist()).values()}
    transaction.delete("path", paths.tolist())
    columns.update(transaction, PATH_DIRECTORY, paths, np.zeros(len(paths), np.int64))
    _next_epoch(transaction)
    last_name = max(transaction.top_id("name"), last_name_swept(transaction))
    transaction.set_meta("last_name", str(last_name).encode())
    return transaction.delete_unused_names(sorted(names))


def _delete_directories(transaction: Transaction, directories: npt.NDArray[np.int64]) -> None:
    nothing = np.zeros(len(directories), np.int64)
    transaction.delete("directory", directories.tolist())
    columns.update(transaction, DIRECTORY_PARENT, directories, nothing)
    columns.update(transaction, DIRECTORY_ENTRY, directories, nothing)


def _next_epoch(transaction: Transaction) -> None:
    """Invalidate the numbers that readers remember."""
    epoch = int(transaction.meta().get("epoch", b"0")) + 1
    transaction.set_meta("epoch", str(epoch).encode())
