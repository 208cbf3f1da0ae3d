"""Raw records of an archive, compared by a keyed hash: a record that a neighbouring archive also contains is never
parsed.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Protocol

import numpy as np
import numpy.typing as npt

from holdfast.history import columns
from holdfast.history.bits import Ids, decode, unpack
from holdfast.history.entry import Entry
from holdfast.history.schema import KEYS
from holdfast.history.store import ArchiveRow, Snapshot

Keys = npt.NDArray[np.uint64]


class RecordSource(Protocol):
    """One archive, read in order. Iterating must raise if the archive was not read to its end."""

    @property
    def format(self) -> int: ...
    @property
    def route(self) -> str: ...
    def batches(self) -> Iterator[list[bytes]]: ...
    def parse(self, record: bytes) -> Entry | None: ...


def keys_of(secret: bytes, records: list[bytes]) -> Keys:
    """Return a hash for each record; it is keyed, so that users who choose file names cannot cause collisions."""
    digests = [blake2b(record, digest_size=8, key=secret).digest() for record in records]
    return np.frombuffer(b"".join(digests), "<u8")


class Neighbour:
    """The records of an indexed archive. Which archive, if any, affects the cost but never the result."""

    def __init__(self, keys: Keys, versions: Ids) -> None:
        known = keys != 0
        keys, versions = keys[known], versions[known]
        order = np.argsort(keys)
        self._keys, self._versions = keys[order], versions[order]

    @classmethod
    def none(cls) -> "Neighbour":
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.uint32))

    @classmethod
    def load(cls, snapshot: Snapshot, archive: ArchiveRow, record_format: int, chunks: range) -> "Neighbour":
        versions = unpack(decode(snapshot.bits(archive.id, chunks)))
        return cls(columns.take(columns.load(snapshot, KEYS + record_format), versions), versions)

    def versions_of(self, keys: Keys) -> Ids:
        """Return the version of each key; 0 if the neighbour does not contain it."""
        if not len(self._keys):
            return np.zeros(len(keys), np.uint32)
        order = np.argsort(keys)  # look-ups in order are several times faster than at random
        places = np.minimum(np.searchsorted(self._keys, keys[order]), len(self._keys) - 1)
        matched = np.where(self._keys[places] == keys[order], self._versions[places], 0)
        versions = np.empty(len(keys), np.uint32)
        versions[order] = matched
        return versions
