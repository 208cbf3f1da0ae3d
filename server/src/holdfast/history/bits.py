"""Sets of version ids as bits, in chunks of 8192 ids."""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

CHUNK_BITS = 13
CHUNK_IDS = 1 << CHUNK_BITS
CHUNK_BYTES = CHUNK_IDS // 8
_SPARSE_MOST = 255  # a list of 16-bit positions is shorter than the bits up to about twice this number
_DENSE = 8  # if more than one byte in 8 is in use, examining all bits is cheaper than picking bytes

Ids = npt.NDArray[np.uint32]
Packed = npt.NDArray[np.uint8]


def pack(ids: Ids) -> Packed:
    """Given version ids, return their bits, padded to whole chunks."""
    if not len(ids):
        return np.zeros(0, np.uint8)
    chunks = (int(ids.max()) >> CHUNK_BITS) + 1
    mask = np.zeros(chunks * CHUNK_IDS, np.bool_)
    mask[ids] = True
    return np.packbits(mask, bitorder="little")


def unpack(packed: Packed) -> Ids:
    """Given bits, return the ids in ascending order."""
    touched = np.flatnonzero(packed)
    if not len(touched):
        return np.zeros(0, np.uint32)
    if len(touched) > len(packed) // _DENSE:
        return np.flatnonzero(np.unpackbits(packed, bitorder="little")).astype(np.uint32)
    inside = np.unpackbits(packed[touched], bitorder="little").reshape(-1, 8)
    rows, columns = np.nonzero(inside)
    return (touched[rows] * 8 + columns).astype(np.uint32)


def encode(packed: Packed) -> list[tuple[int, bytes]]:
    """Given bits, return the stored form of each chunk: nothing if empty, b"" if full, positions if sparse, else the
    bits.
    """
    rows = packed.reshape(-1, CHUNK_BYTES)
    counts = np.bitwise_count(rows).sum(axis=1, dtype=np.int64).tolist()
    stored = []
    for chunk, (row, count) in enumerate(zip(rows, counts, strict=True)):
        if count == CHUNK_IDS:
            stored.append((chunk, b""))
        elif count > _SPARSE_MOST:
            stored.append((chunk, row.tobytes()))
        elif count:
            positions = np.flatnonzero(np.unpackbits(row, bitorder="little"))
            stored.append((chunk, positions.astype("<u2").tobytes()))
    return stored


def decode(rows: Iterable[tuple[int, bytes]]) -> Packed:
    """Given the stored chunks of an archive, return its bits."""
    stored = dict(rows)
    if not stored:
        return np.zeros(0, np.uint8)
    packed = np.zeros((max(stored) + 1, CHUNK_BYTES), np.uint8)
    for chunk, data in stored.items():
        if len(data) == CHUNK_BYTES:
            packed[chunk] = np.frombuffer(data, np.uint8)
        elif data:
            mask = np.zeros(CHUNK_IDS, np.bool_)
            mask[np.frombuffer(data, "<u2")] = True
            packed[chunk] = np.packbits(mask, bitorder="little")
        else:
            packed[chunk] = 255
    return packed.reshape(-1)


def holds(data: bytes, position: int) -> bool:
    """Given a stored chunk, return whether the id at this position is in the set."""
    if len(data) == CHUNK_BYTES:
        return bool(data[position >> 3] >> (position & 7) & 1)
    if not data:
        return True
    positions = array("H", data)
    if sys.byteorder == "big":
        positions.byteswap()
    found = bisect_left(positions, position)
    return found < len(positions) and positions[found] == position


def without(left: Packed, right: Packed) -> Packed:
    """Given two sets, return the members of the left one that are not in the right one."""
    result = left.copy()
    shared = min(len(left), len(right))
    result[:shared] &= ~right[:shared]
    return result


def member_mask(packed: Packed, ids: Ids) -> npt.NDArray[np.bool_]:
    """Given a set and ids, return for each id whether it is in the set."""
    if not len(packed):
        return np.zeros(len(ids), np.bool_)
    places = ids >> 3
    inside = places < len(packed)
    values = packed[np.where(inside, places, 0)]
    return inside & ((values >> (ids & 7).astype(np.uint8)) & 1).astype(np.bool_)
