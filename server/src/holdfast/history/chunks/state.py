"""The state stored for the last archive of a series, so that only the differences of the next one are read."""

import struct
import zlib

import numpy as np
import numpy.typing as npt

from backup_engine.frozen import frozen
from holdfast.history.chunks.frames import ID_BYTES
from holdfast.history.errors import IndexDamaged

_HEADER = struct.Struct("<4sII8s")
_MAGIC = b"HFS1"

Numbers = npt.NDArray[np.uint32]


@frozen
class ChunkTable:
    """Where items start in the metadata chunks of an archive."""

    ids: list[bytes]
    first: Numbers  # offset of the first item that starts in the chunk
    last: Numbers  # offset of the last one
    count: Numbers  # number of items that start in it; if there are none, first and last are meaningless

    @classmethod
    def empty(cls) -> "ChunkTable":
        return cls([], *(np.zeros(0, np.uint32) for _ in range(3)))


@frozen
class SeriesState:
    table: ChunkTable
    versions: Numbers  # of every item, in order; 0 for items that are left out
    excludes: bytes  # fingerprint of the exclude patterns

    def dump(self) -> bytes:
        header = _HEADER.pack(_MAGIC, len(self.table.ids), len(self.versions), self.excludes)
        numbers = np.concatenate([self.table.first, self.table.last, self.table.count])
        # Neighbouring items mostly have neighbouring versions, so the differences are small and compress well.
        steps = np.diff(self.versions, prepend=np.uint32(0)).astype("<u4")
        body = b"".join([*self.table.ids, numbers.astype("<u4").tobytes(), _planes(steps)])
        return header + zlib.compress(body, 1)

    @classmethod
    def load(cls, data: bytes) -> "SeriesState":
        """Given the result of `dump`, return the state. Raise IndexDamaged for anything else."""
        try:
            magic, chunks, items, excludes = _HEADER.unpack_from(data)
            body = zlib.decompress(data[_HEADER.size :])
        except (struct.error, zlib.error) as error:
            raise IndexDamaged("the carried state of a series cannot be read") from error
        if magic != _MAGIC or len(body) != chunks * (ID_BYTES + 12) + items * 4:
            raise IndexDamaged("the carried state of a series has the wrong size")
        ids = [body[at : at + ID_BYTES] for at in range(0, chunks * ID_BYTES, ID_BYTES)]
        numbers = np.frombuffer(body, "<u4", chunks * 3, chunks * ID_BYTES).astype(np.uint32)
        steps = _from_planes(body[chunks * (ID_BYTES + 12) :])
        versions = np.cumsum(steps, dtype=np.uint32)
        table = ChunkTable(ids, numbers[:chunks], numbers[chunks : 2 * chunks], numbers[2 * chunks :])
        if int(table.count.sum()) != items:
            raise IndexDamaged("the carried state of a series does not add up")
        return cls(table, versions, excludes)


def _planes(numbers: npt.NDArray[np.uint32]) -> bytes:
    """Group bytes of equal weight: the upper ones are nearly all equal."""
    return numbers.view(np.uint8).reshape(-1, 4).T.tobytes()


def _from_planes(data: bytes) -> npt.NDArray[np.uint32]:
    planes = np.frombuffer(data, np.uint8).reshape(4, -1)
    return np.ascontiguousarray(planes.T).view("<u4").reshape(-1)
