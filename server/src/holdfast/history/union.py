"""The versions of several archives together."""

from collections.abc import Collection

import numpy as np

from holdfast.history import bits
from holdfast.history.bits import Packed
from holdfast.history.ingest import all_chunks
from holdfast.history.store import Snapshot


def union(snapshot: Snapshot, archives: Collection[str]) -> tuple[Packed, set[str]]:
    """Return the versions that are in at least one of the archives, and the archives that are not indexed."""
    chunks, missing = all_chunks(snapshot), set(archives)
    whole = np.zeros(len(chunks) * bits.CHUNK_BYTES, np.uint8)
    for row in snapshot.archives():
        if row.engine_id in missing:
            packed = bits.decode(snapshot.bits(row.id, chunks))
            whole[: len(packed)] |= packed
            missing.discard(row.engine_id)
    return whole, missing
