"""The chunks of a file in the form in which an entry carries them."""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.history.chunks.frames import ID_BYTES

_PACKED = struct.Struct("<32sII")


class Chunk(NamedTuple):
    """A piece of a file's content, as the engine stores it."""

    id: bytes
    size: int


def packed(chunks: Any, size: int) -> bytes:
    """Given the list of chunks of an item, return it for `Entry.chunks`; empty if it cannot be stored."""
    rows, total = bytearray(), 0
    try:
        for chunk in chunks:
            chunk_id, part = chunk[0], chunk[1]
            if len(chunk_id) != ID_BYTES or part < 1:
                return b""
            # Engine 2 does not report the stored size of a chunk.
            rows += _PACKED.pack(chunk_id, part, chunk[2] if len(chunk) > 2 else 0)
            total += part
    except (TypeError, IndexError, struct.error):
        return b""
    return bytes(rows) if total == size else b""


def unpacked(chunks: bytes) -> Iterator[Chunk]:
    """Yield the chunks that `packed` has packed."""
    return (Chunk(chunk_id, size) for chunk_id, size, _ in _PACKED.iter_unpack(chunks))
