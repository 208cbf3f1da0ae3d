"""Our side of the helper: start it, ask for chunks, never trust a byte of what comes back."""

import json
import queue
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from holdfast.archives.history.chunks.program import interpreter_of
from holdfast.archives.history.chunks.state import ID_BYTES
from holdfast.archives.history.errors import ArchiveGone, ChunkRouteFailed

HELPER = Path(__file__).with_name("helper.py")
PROTOCOL = 1

_FRAME = struct.Struct(">cQ")
_ANSWER_BYTES_MOST = 256 * 1024 * 1024  # the list of chunks of an archive with a billion files
_CHUNK_BYTES_MOST = 32 * 1024 * 1024  # the engine's own limit is 20 MiB
_AHEAD_BYTES = 16 * 1024 * 1024
_STOP_SECONDS = 10.0
_ERROR_BYTES_KEPT = 4096


class EngineChunks:
    """Metadata chunks of a repository, read through a helper process. Use as a context manager.

    The environment is the one for the engine itself (passphrase by variable or by an inherited descriptor, remote shell,
    base folder). Raise ChunkRouteFailed for anything that goes wrong on the other side.
    """

    def __init__(
        self,
        program: Path,
        repository: str,
        *,
        environment: Mapping[str, str],
        pass_fds: Sequence[int] = (),
        lock_wait: int = 60,
    ) -> None:
        self._program = program
        self._repository = repository
        self._environment = dict(environment)
        self._pass_fds = tuple(pass_fds)
        self._lock_wait = lock_wait
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints = b""
        self.version = ""
        self.latest_nanoseconds = 0

    def __enter__(self) -> Self:
        python = interpreter_of(self._program)
        if python is None:
            raise ChunkRouteFailed("the engine's program does not name a Python to run under")
        try:
            self._start(python)
            self._greet()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def chunk_ids(self, archive: str) -> list[bytes]:
        """Given an archive's id, return the ids of its metadata chunks in order. Raise ArchiveGone, ChunkRouteFailed."""
        self._ask({"op": "ids", "archive": archive})
        answer = self._json()
        try:
            ids = [bytes.fromhex(one) for one in answer]
        except (TypeError, ValueError) as error:
            raise ChunkRouteFailed("the helper answered something else than chunk ids") from error
        if any(len(one) != ID_BYTES for one in ids):
            raise ChunkRouteFailed("the helper answered a chunk id of the wrong length")
        return ids

    def chunks(self, ids: Sequence[bytes]) -> Iterator[bytes]:
        """Given chunk ids, yield their content. The helper works ahead while the caller works on what it has."""
        if ids:
            self._ask({"op": "get", "ids": [one.hex() for one in ids]})
            yield from _Ahead(self, len(ids))

    def read_chunk(self) -> bytes:
        return self._frame(b"C", _CHUNK_BYTES_MOST)

    def _start(self, python: list[str]) -> None:
        try:
            self._process = subprocess.Popen(
                [*python, str(HELPER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                pass_fds=self._pass_fds,
                start_new_session=True,
            )
        except OSError as error:
            raise ChunkRouteFailed(f"the engine's Python cannot be started: {error}") from error
        threading.Thread(target=self._keep_complaints, daemon=True).start()

    def _greet(self) -> None:
        self._ask({"repository": self._repository, "lock_wait": self._lock_wait})
        hello = self._json()
        if not isinstance(hello, dict) or hello.get("protocol") != PROTOCOL:
            raise ChunkRouteFailed("the helper speaks another protocol")
        version, latest = hello.get("version"), hello.get("latest_nanoseconds")
        if not isinstance(version, str) or not isinstance(latest, int):
            raise ChunkRouteFailed("the helper does not say which engine it belongs to")
        self.version, self.latest_nanoseconds = version, latest

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _keep_complaints(self) -> None:
        process = self._process
        if process is None or process.stderr is None:
            return
        with process.stderr as stream:
            while text := stream.read1(_ERROR_BYTES_KEPT):
                self._complaints = (self._complaints + text)[-_ERROR_BYTES_KEPT:]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ChunkRouteFailed("the helper is not running")
        return self._process

    def _ask(self, request: dict[str, Any]) -> None:
        pipe = self._running().stdin
        assert pipe is not None
        try:
            pipe.write(json.dumps(request).encode() + b"\n")
            pipe.flush()
        except (OSError, ValueError) as error:
            raise self._failed("the helper does not listen") from error

    def _json(self) -> Any:
        data = self._frame(b"J", _ANSWER_BYTES_MOST)
        try:
            return json.loads(data)
        except ValueError as error:
            raise ChunkRouteFailed("the helper answered no JSON") from error

    def _frame(self, wanted: bytes, most: int) -> bytes:
        pipe = self._running().stdout
        assert pipe is not None
        letter, length = _FRAME.unpack(self._exactly(pipe, _FRAME.size))
        if letter not in (wanted, b"E") or length > most:
            raise ChunkRouteFailed("the helper's answer is garbled")
        data = self._exactly(pipe, length)
        if letter == b"E":
            raise _named(data)
        return data

    def _exactly(self, pipe: BinaryIO, size: int) -> bytes:
        data = pipe.read(size)
        if len(data) != size:
            raise self._failed("the helper ended early")
        return data

    def _failed(self, what: str) -> ChunkRouteFailed:
        said = self._complaints.decode("utf-8", "replace").strip().splitlines()
        return ChunkRouteFailed(f"{what}: {said[-1]}" if said else what)


def _named(data: bytes) -> ChunkRouteFailed:
    """Given the helper's error, return ours."""
    try:
        error = json.loads(data)
        kind, message = str(error["kind"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return ChunkRouteFailed("the helper failed and did not say why")
    if kind == "LookupError":
        return ArchiveGone(message)
    return ChunkRouteFailed(f"{kind}: {message}" if message else kind)


class _Ahead:
    """Reads a known number of chunks in a thread, a bounded number of bytes ahead of whoever iterates."""

    def __init__(self, source: EngineChunks, count: int) -> None:
        self._source = source
        self._count = count
        self._ready: queue.SimpleQueue[bytes | ChunkRouteFailed] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._ahead = 0
        self._abandoned = False

    def __iter__(self) -> Iterator[bytes]:
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        try:
            for _ in range(self._count):
                data = self._ready.get()
                if isinstance(data, ChunkRouteFailed):
                    raise data
                self._took(len(data))
                yield data
        finally:
            with self._room:  # let the reader run to its end, so that the next answer is read from its start
                self._abandoned = True
                self._room.notify()
            reader.join()

    def _took(self, size: int) -> None:
        with self._room:
            self._ahead -= size
            self._room.notify()

    def _read(self) -> None:
        for _ in range(self._count):
            try:
                data = self._source.read_chunk()
            except ChunkRouteFailed as error:
                self._ready.put(error)
                return
            with self._room:
                self._room.wait_for(lambda: self._abandoned or self._ahead < _AHEAD_BYTES)
                self._ahead += len(data)
            if not self._abandoned:
                self._ready.put(data)
