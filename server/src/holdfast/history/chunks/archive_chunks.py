"""A whole archive for a restore check: its items, from its own metadata, and the content of its files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from holdfast.history.chunks.file_chunk import Chunk
from holdfast.history.chunks.item_stream import ItemReader
from holdfast.history.chunks.metadata_chunks import EngineChunks
from holdfast.history.errors import GarbledItems

_METADATA_CHUNKS_AT_ONCE = 8


class ArchiveChunks(EngineChunks):
    """Reads one thing after another under the shared lock that it has taken, so nothing moves meanwhile."""

    silence_seconds = 120.0
    stop_seconds = 3.0
    defaults: ClassVar[Mapping[str, Any]] = {"lock_wait": 1, "niceness": 10}
    share_read = 0.0
    """Share of the items that has been read, from 0 to 1."""

    def items(self, archive: str) -> Iterator[bytes]:
        """Yield the raw items of an archive in its order. The caller may make other requests between two items."""
        ids = self.chunk_ids(archive)
        reader = ItemReader()
        for start in range(0, len(ids), _METADATA_CHUNKS_AT_ONCE):
            asked = ids[start : start + _METADATA_CHUNKS_AT_ONCE]
            self.ask_for_chunks(asked)
            for number, data in enumerate([self.read_chunk() for _ in asked]):
                yield from reader.feed(data, start + number, 0)[0]
                self.share_read = (start + number + 1) / len(ids)
        if not reader.at_boundary:
            raise GarbledItems("the items end in the middle of one")

    def prove(self, chunks: Sequence[Chunk]) -> None:
        """Make the helper read each of these chunks of files, authenticate it and compare its size."""
        self._ask({"op": "prove", "chunks": _named(chunks)})
        if self._json() != {"proven": len(chunks)}:
            raise self._unusable("the helper has proven another number of chunks")

    def content(self, chunks: Sequence[Chunk]) -> bytes:
        """Return the joined content of these chunks of files."""
        wanted = sum(chunk.size for chunk in chunks)
        self._ask({"op": "content", "chunks": _named(chunks)})
        data = self._frame(b"C", wanted)
        if len(data) != wanted:
            raise self._unusable("the helper answered another number of bytes")
        return data


def _named(chunks: Sequence[Chunk]) -> list[tuple[str, int]]:
    return [(chunk.id.hex(), chunk.size) for chunk in chunks]
