"""The bytes that sets of archives take in the repository, counting each chunk of their files once."""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from holdfast.history import bits, columns
from holdfast.history.schema import CHUNK_STORED, MORE_CHUNKS, VERSION_BYTES, VERSION_CHUNK
from holdfast.history.store import Snapshot
from holdfast.history.union import union

MOST_VERSIONS = 2_000_000
"""With more versions, nothing is added up: it would take seconds."""


def stored_bytes(snapshot: Snapshot, sets: Sequence[Collection[str]]) -> list[int] | None:
    """Return the bytes of each set of archives; None if chunks of a file are unknown or there are too many versions."""
    if snapshot.top_id("version") > MOST_VERSIONS:
        return None
    table = _Chunks(snapshot)
    found = []
    for archives in sets:
        used = table.used_by(_versions(snapshot, archives))
        if used is None:
            return None
        found.append(int(table.sizes[used].sum(dtype=np.int64)))
    return found


def added_bytes(snapshot: Snapshot, archives: Sequence[str]) -> list[int] | None:
    """Return the bytes of each archive that no archive before it in the list contains; None as for `stored_bytes`."""
    if snapshot.top_id("version") > MOST_VERSIONS:
        return None
    table = _Chunks(snapshot)
    seen = np.zeros(len(table.sizes), np.bool_)
    found = []
    for archive in archives:
        used = table.used_by(_versions(snapshot, [archive]))
        if used is None:
            return None
        found.append(int(table.sizes[used & ~seen].sum(dtype=np.int64)))
        seen |= used
    return found


class _Chunks:
    """The chunks that contain the files of versions."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.sizes = columns.load(snapshot, CHUNK_STORED)
        self._first = columns.load(snapshot, VERSION_CHUNK)
        self._has_content = columns.load(snapshot, VERSION_BYTES) > 1
        self._further = {version: np.frombuffer(data, "<u4") for version, data in snapshot.column(MORE_CHUNKS)}

    def used_by(self, versions: npt.NDArray[np.int64] | None) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the chunks of these versions; None if chunks, or their stored sizes, are unknown."""
        if versions is None:
            return None
        first = columns.take(self._first, versions)
        if (columns.take(self._has_content, versions) & (first == 0)).any():
            return None
        used = np.zeros(len(self.sizes), np.bool_)
        used[first] = True
        for version in set(self._further).intersection(versions.tolist()) if self._further else ():
            used[self._further[version]] = True
        used[0] = False
        return None if (self.sizes[used] == 0).any() else used


def _versions(snapshot: Snapshot, archives: Collection[str]) -> npt.NDArray[np.int64] | None:
    """Return the versions that are in at least one of the archives; None if one of them is not indexed."""
    packed, missing = union(snapshot, archives)
    return None if missing else bits.unpack(packed).astype(np.int64)
