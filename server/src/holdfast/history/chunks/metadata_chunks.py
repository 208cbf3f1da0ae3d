"""The chunks of archive metadata, from a helper that reads them under a shared lock."""

import queue
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, ClassVar

from backup_engine.command import LARGEST_STREAM
from holdfast.history.chunks.frames import (
    CHUNK_BYTES_MOST,
    ID_BYTES,
    IDS_BYTES_MOST,
    NUMBER_BYTES,
    joined_ids,
)
from holdfast.history.chunks.helper_process import HelperProcess
from holdfast.history.errors import ArchiveTooLarge, ChunkRouteFailed, HistoryError

_AHEAD_BYTES = 4 * 1024 * 1024
_CHUNKS_ASKED_FOR = 256  # per request


class EngineChunks(HelperProcess):
    """Metadata chunks of a repository, read under a shared lock."""

    defaults: ClassVar[Mapping[str, Any]] = {"lock_wait": 60, "niceness": 10}
    _reader: threading.Thread | None = None
    _left_bytes = LARGEST_STREAM  # for the current archive; the same limit as for a listing
    latest_nanoseconds = 0

    def chunk_ids(self, archive: str) -> list[bytes]:
        """Given an archive's id, return the ids of its metadata chunks in order.

        Raise ArchiveGone, ChunkRouteFailed, ArchiveTooLarge.
        """
        self._ask({"op": "ids", "archive": archive})
        ids = joined_ids(self._frame(b"I", IDS_BYTES_MOST))
        self._left_bytes = LARGEST_STREAM
        return ids

    def chunks(self, ids: Sequence[bytes]) -> Generator[bytes]:
        """Given chunk ids, yield their content. The helper reads ahead while the caller processes a chunk."""
        if not ids:
            return
        self._wait_for_reader()
        ahead = _Ahead(self, ids)
        self._reader = threading.Thread(target=ahead.read, daemon=True)
        self._reader.start()
        try:
            for _ in ids:
                yield ahead.take()
        finally:
            ahead.abandon()

    def segments(self, joined_ids: bytes) -> bytes:
        """Given joined chunk ids, return 4 bytes for each: the number of the segment that contains it, plus one; 0 if
        unknown.
        """
        return self._numbers("segments", joined_ids)

    def stored_sizes(self, joined_ids: bytes) -> bytes:
        """Given joined chunk ids, return 4 bytes for each: its size in the repository; 0 if unknown.

        For engine 2, whose items lack these sizes.
        """
        return self._numbers("stored", joined_ids)

    def _numbers(self, what: str, joined_ids: bytes) -> bytes:
        count = len(joined_ids) // ID_BYTES
        self._ask({"op": what, "count": count}, joined_ids)
        data = self._frame(b"I", count * NUMBER_BYTES)
        if len(data) != count * NUMBER_BYTES:
            raise ChunkRouteFailed("the helper answered for another number of chunks")
        return data

    def ask_for_chunks(self, ids: Sequence[bytes]) -> None:
        self._send({"op": "get", "ids": [one.hex() for one in ids]})

    def read_chunk(self) -> bytes:
        data = self._frame(b"C", CHUNK_BYTES_MOST)
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            self._unusable("")
            raise ArchiveTooLarge("the archive's metadata is larger than any listing may be")
        return data

    def _is_understood(self, hello: dict[str, Any]) -> bool:
        latest = hello.get("latest_nanoseconds")
        if not isinstance(latest, int):
            return False
        self.latest_nanoseconds = latest
        return True

    def _let_go(self, terminate: Callable[[], None]) -> None:
        if self._reader is not None and self._reader.is_alive():
            terminate()
            self._reader.join()

    def _ask(self, request: dict[str, Any], more: bytes = b"") -> None:
        self._wait_for_reader()
        self._send(request, more)

    def _wait_for_reader(self) -> None:
        if self._reader is not None:
            self._reader.join()  # the rest of an answer that is no longer wanted
            self._reader = None


class _Ahead:
    """Reads chunks in a thread, up to a limit of bytes ahead of the consumer."""

    def __init__(self, source: EngineChunks, ids: Sequence[bytes]) -> None:
        self._source = source
        self._ids = ids
        self._ready: queue.SimpleQueue[bytes | HistoryError] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._waiting_bytes = 0
        self._abandoned = False

    def read(self) -> None:
        try:
            for start in range(0, len(self._ids), _CHUNKS_ASKED_FOR):
                asked = self._ids[start : start + _CHUNKS_ASKED_FOR]
                if self._abandoned:
                    return
                self._source.ask_for_chunks(asked)
                for _ in asked:
                    self._hand_on(self._source.read_chunk())
        except HistoryError as error:
            self._ready.put(error)

    def _hand_on(self, data: bytes) -> None:
        with self._room:
            self._room.wait_for(lambda: self._abandoned or self._waiting_bytes < _AHEAD_BYTES)
            self._waiting_bytes += len(data)
        if not self._abandoned:
            self._ready.put(data)

    def take(self) -> bytes:
        data = self._ready.get()
        if isinstance(data, HistoryError):
            raise data
        with self._room:
            self._waiting_bytes -= len(data)
            self._room.notify()
        return data

    def abandon(self) -> None:
        """Stop delivering: the thread reads what was already requested and discards it."""
        with self._room:
            self._abandoned = True
            self._room.notify()
