"""The chunks of file contents, from a helper that serves any number of threads."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from holdfast.history.chunks.helper_process import HelperProcess, kill_group
from holdfast.history.errors import ChunkRouteFailed


class Part(NamedTuple):
    """A range of bytes of a file's chunk."""

    chunk: bytes
    size: int  # of the whole chunk
    start: int
    end: int


class FileChunks(HelperProcess):
    """Chunks of a repository's files, for any number of threads.

    On the engine's machine they are read without a lock. On a server, `borg serve` reads them under a shared lock,
    which it releases when the helper ends.

    Raise ContentMoved for a chunk that an engine is moving, ChunkRouteFailed for any other failure.
    """

    silence_seconds = 60.0
    defaults: ClassVar[Mapping[str, Any]] = {"lock_wait": 1, "niceness": 0, "reads_files": True}

    def __enter__(self) -> Self:
        with self._turn:  # a thread that ends the helper meanwhile waits until nobody reads from it
            return super().__enter__()

    def read(self, parts: Sequence[Part]) -> bytes:
        """Return the joined bytes of these parts."""
        wanted = sum(part.end - part.start for part in parts)
        if not self._turn.acquire(timeout=self.silence_seconds):
            raise ChunkRouteFailed("the helper is busy with other files")
        try:
            if not self.is_usable:
                raise ChunkRouteFailed("the helper has ended")
            self._send({"parts": [(part.chunk.hex(), *part[1:]) for part in parts]})
            data = self._frame(b"C", wanted)
        finally:
            self._turn.release()
        if len(data) != wanted:
            raise self._unusable("the helper answered another number of bytes")
        return data

    def end(self) -> None:
        """End the helper from any thread; reads that wait for it fail."""
        self.is_usable = False
        process = self._process
        if process is not None:
            kill_group(process)
        with self._turn:
            self._stop()

    def leave(self, seconds: float) -> None:
        """End the helper after its current request, so that it releases its lock; kill it if that takes longer than
        this.
        """
        self.is_usable = False
        if not self._turn.acquire(timeout=seconds):
            self.end()
            return
        try:
            self._stop()
        finally:
            self._turn.release()

    def _is_understood(self, hello: dict[str, Any]) -> bool:
        del hello
        return True
