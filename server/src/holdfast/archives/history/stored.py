"""How many bytes sets of archives take in the repository: each chunk of their files counted once."""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from holdfast.archives.history import bits, columns
from holdfast.archives.history.schema import CHUNK_STORED, MORE_CHUNKS, VERSION_BYTES, VERSION_CHUNK
from holdfast.archives.history.store import Snapshot
from holdfast.archives.history.union import union

MOST_VERSIONS = 2_000_000
"""Beyond it, nothing is added up: it would take seconds."""


def stored(snapshot: Snapshot, sets: Sequence[Collection[str]]) -> list[int] | None:
    """The bytes of each set of archives. None where chunks of a file are not known, or there are too many."""
    if snapshot.top_id("version") > MOST_VERSIONS:
        return None
    first = columns.load(snapshot, VERSION_CHUNK)
    sizes = columns.load(snapshot, CHUNK_STORED)
    has_content = columns.load(snapshot, VERSION_BYTES) > 1
    further = {version: np.frombuffer(data, "<u4") for version, data in snapshot.column(MORE_CHUNKS)}
    found = []
    for archives in sets:
        versions = _versions(snapshot, archives)
        if versions is None or (columns.take(has_content, versions) & (columns.take(first, versions) == 0)).any():
            return None
        used = np.zeros(len(sizes), np.bool_)
        used[columns.take(first, versions)] = True
        for version in set(further).intersection(versions.tolist()) if further else ():
            used[further[version]] = True
        used[0] = False
        if (sizes[used] == 0).any():
            return None
        found.append(int(sizes[used].sum(dtype=np.int64)))
    return found


def _versions(snapshot: Snapshot, archives: Collection[str]) -> npt.NDArray[np.int64] | None:
    """The versions that at least one of the archives has; None if one of them is not indexed."""
    packed, missing = union(snapshot, archives)
    return None if missing else bits.unpack(packed).astype(np.int64)
