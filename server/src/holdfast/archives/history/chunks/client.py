"""Our side of the helper: start it, ask for chunks, never trust a byte of what comes back."""

import json
import os
import queue
import select
import struct
import subprocess
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, NamedTuple, Self

from holdfast.archives.history.chunks.program import HELPER, HELPER_2, interpreter_of
from holdfast.archives.history.chunks.state import ID_BYTES
from holdfast.archives.history.errors import ArchiveGone, ArchiveTooLarge, ChunkRouteFailed, ContentMoved, HistoryError

PROTOCOL = 3

_FRAME = struct.Struct(">cQ")
_SEGMENT_BYTES = 4
_ANSWER_BYTES_MOST = 64 * 1024
_IDS_BYTES_MOST = 4 * 1024 * 1024  # the chunks of an archive with about 65 million files; beyond it, the listing
_CHUNK_BYTES_MOST = 4 * 1024 * 1024  # the engine cuts item metadata into chunks of at most 512 KiB
_AHEAD_BYTES = 4 * 1024 * 1024
SILENCE_SECONDS = 600.0
"""How long the helper may take for one answer; opening a large repository without an index is the longest of them."""
_STOP_SECONDS = 10.0
_LAST_WORDS_SECONDS = 1.0
_ERROR_BYTES_KEPT = 4096
_READ_BYTES = 1024 * 1024
_CHUNKS_ASKED_FOR = 256  # at once
_TOO_LARGE = frozenset({"TooLarge", "MemoryError"})


class HelperProcess:
    """The helper, and what is said to it. Use as a context manager.

    The environment is the one for the engine itself (passphrase by variable or by an inherited descriptor, remote shell,
    base folder). Raise ChunkRouteFailed for anything that goes wrong on the other side.
    """

    silence_seconds = SILENCE_SECONDS
    defaults: ClassVar[Mapping[str, Any]] = {}
    """How it opens the repository, where the caller does not say."""

    def __init__(
        self,
        program: Path,
        repository: str,
        *,
        environment: Mapping[str, str],
        pass_fds: Sequence[int] = (),
        niceness: int = 10,
        major: int = 1,
        **opening: Any,
    ) -> None:
        self._program = program
        self.major = major  # of the engine
        self._opening = {"repository": repository, "niceness": niceness, **self.defaults, **opening}
        self._environment = dict(environment)
        self._pass_fds = tuple(pass_fds)
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._complaints = b""
        self.is_usable = True  # False once the helper has ended or speaks nonsense
        self.version = ""

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

    def _start(self, python: list[str]) -> None:
        try:
            self._process = subprocess.Popen(
                [*python, str(HELPER if self.major == 1 else HELPER_2)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=self._environment,
                pass_fds=self._pass_fds,
                process_group=0,  # no session of its own, in which its niceness would count for nothing
            )
        except OSError as error:
            raise ChunkRouteFailed(f"the engine's Python cannot be started: {error}") from error
        self._listener = threading.Thread(target=self._keep_complaints, daemon=True)
        self._listener.start()

    def _greet(self) -> None:
        self._send(self._opening)
        hello = self._json()
        if not isinstance(hello, dict) or hello.get("protocol") != PROTOCOL:
            raise ChunkRouteFailed("the helper speaks another protocol")
        version = hello.get("version")
        if not isinstance(version, str) or not self._is_understood(hello):
            raise ChunkRouteFailed("the helper does not say which engine it belongs to")
        self.version = version

    def _is_understood(self, hello: dict[str, Any]) -> bool:
        """Take what else the helper says about itself; False if that is not enough."""
        raise NotImplementedError

    def _stop(self) -> None:
        """End the helper: it leaves by itself when its input ends, and gives the lock back in any case but the last."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        self._let_go(process)
        process.stdout.close()
        for insist in (process.terminate, process.kill):
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                insist()
        process.wait()

    def _let_go(self, process: subprocess.Popen[bytes]) -> None:
        """Have nobody read from the helper any more."""

    def _keep_complaints(self) -> None:
        process = self._process
        if process is None or process.stderr is None:
            return
        with process.stderr as stream:
            while text := os.read(stream.fileno(), _ERROR_BYTES_KEPT):
                self._complaints = (self._complaints + text)[-_ERROR_BYTES_KEPT:]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ChunkRouteFailed("the helper is not running")
        return self._process

    def _send(self, request: dict[str, Any], more: bytes = b"") -> None:
        pipe = self._running().stdin
        assert pipe is not None
        rest = memoryview(json.dumps(request).encode() + b"\n" + more)
        try:
            while rest:
                rest = rest[pipe.write(rest) :]
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
        if letter not in (wanted, b"E") or length > (_ANSWER_BYTES_MOST if letter == b"E" else most):
            raise self._unusable("the helper's answer is garbled")
        data = self._exactly(pipe, length)
        if letter == b"E":
            raise _named(data)
        return data

    def _exactly(self, pipe: IO[bytes], size: int) -> bytes:
        """Given a number of bytes within bounds, return that many. Raise ChunkRouteFailed if the helper ends or stops."""
        pieces = []
        while size:
            if not select.select([pipe], [], [], self.silence_seconds)[0]:
                raise self._unusable(f"the helper did not answer within {self.silence_seconds:.0f} seconds")
            piece = os.read(pipe.fileno(), min(size, _READ_BYTES))
            if not piece:
                raise self._failed("the helper ended early")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _unusable(self, why: str) -> ChunkRouteFailed:
        """Nothing that comes after this can be understood: end the helper."""
        self._running().kill()
        self.is_usable = False
        return ChunkRouteFailed(why)

    def _failed(self, what: str) -> ChunkRouteFailed:
        self.is_usable = False
        if self._listener is not None:
            self._listener.join(_LAST_WORDS_SECONDS)  # a helper that has ended may have said why
        said = self._complaints.decode("utf-8", "replace").strip().splitlines()
        return ChunkRouteFailed(f"{what}: {said[-1]}" if said else what)


class EngineChunks(HelperProcess):
    """Metadata chunks of a repository, read under a shared lock."""

    defaults: ClassVar[Mapping[str, Any]] = {"lock_wait": 60}
    _reader: threading.Thread | None = None
    latest_nanoseconds = 0

    def chunk_ids(self, archive: str) -> list[bytes]:
        """Given an archive's id, return the ids of its metadata chunks in order. Raise ArchiveGone, ChunkRouteFailed,
        ArchiveTooLarge."""
        self._ask({"op": "ids", "archive": archive})
        joined = self._frame(b"I", _IDS_BYTES_MOST)
        if len(joined) % ID_BYTES:
            raise ChunkRouteFailed("the helper answered a chunk id of the wrong length")
        return [joined[at : at + ID_BYTES] for at in range(0, len(joined), ID_BYTES)]

    def chunks(self, ids: Sequence[bytes]) -> Generator[bytes]:
        """Given chunk ids, yield their content. The helper works ahead while the caller works on what it has."""
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
        """Given chunk ids side by side, return for each one more than the segment that the repository keeps it in, as 4
        bytes; 0 where that is unknown."""
        return self._numbers("segments", joined_ids)

    def stored_sizes(self, joined_ids: bytes) -> bytes:
        """The same for the bytes that each takes in the repository; 0 where that is unknown. For engine 2, whose items lack
        them."""
        return self._numbers("stored", joined_ids)

    def _numbers(self, what: str, joined_ids: bytes) -> bytes:
        count = len(joined_ids) // ID_BYTES
        self._ask({"op": what, "count": count}, joined_ids)
        data = self._frame(b"I", count * _SEGMENT_BYTES)
        if len(data) != count * _SEGMENT_BYTES:
            raise ChunkRouteFailed("the helper answered for another number of chunks")
        return data

    def ask_for_chunks(self, ids: Sequence[bytes]) -> None:
        self._send({"op": "get", "ids": [one.hex() for one in ids]})

    def read_chunk(self) -> bytes:
        return self._frame(b"C", _CHUNK_BYTES_MOST)

    def _is_understood(self, hello: dict[str, Any]) -> bool:
        latest = hello.get("latest_nanoseconds")
        if not isinstance(latest, int):
            return False
        self.latest_nanoseconds = latest
        return True

    def _let_go(self, process: subprocess.Popen[bytes]) -> None:
        if self._reader is not None and self._reader.is_alive():
            process.terminate()
            self._reader.join()

    def _ask(self, request: dict[str, Any], more: bytes = b"") -> None:
        self._wait_for_reader()
        self._send(request, more)

    def _wait_for_reader(self) -> None:
        if self._reader is not None:
            self._reader.join()  # the rest of an answer that nobody wanted any more
            self._reader = None


class Part(NamedTuple):
    """Some bytes of a chunk of a file."""

    chunk: bytes
    size: int  # of the whole chunk
    start: int
    end: int


class FileChunks(HelperProcess):
    """Chunks of files of a repository on this machine, read without a lock. Any number of threads may ask.

    Raise ContentMoved for a chunk that an engine moves at this moment, ChunkRouteFailed for anything else.
    """

    silence_seconds = 60.0

    def __init__(
        self,
        program: Path,
        repository: str,
        *,
        environment: Mapping[str, str],
        pass_fds: Sequence[int] = (),
        major: int = 1,
    ) -> None:
        super().__init__(
            program,
            repository,
            environment=environment,
            pass_fds=pass_fds,
            niceness=0,
            major=major,
            reads_files=True,
        )
        self._turn = threading.Lock()
        self.repository_id = ""

    def read(self, parts: Sequence[Part]) -> bytes:
        """Return the bytes of these parts, one after the other."""
        wanted = sum(part.end - part.start for part in parts)
        if not self._turn.acquire(timeout=self.silence_seconds):
            raise ChunkRouteFailed("the helper is busy with other files")
        try:
            self._send({"parts": [(part.chunk.hex(), *part[1:]) for part in parts]})
            data = self._frame(b"C", wanted)
        finally:
            self._turn.release()
        if len(data) != wanted:
            raise self._unusable("the helper answered another number of bytes")
        return data

    def end(self) -> None:
        """End the helper from any thread; whoever waits for an answer gets none."""
        self.is_usable = False
        process = self._process
        if process is not None:
            process.kill()
        with self._turn:
            self._stop()

    def _is_understood(self, hello: dict[str, Any]) -> bool:
        self.repository_id = str(hello.get("repository_id"))
        return True


def _named(data: bytes) -> HistoryError:
    """Given the helper's error, return ours."""
    try:
        error = json.loads(data)
        kind, message = str(error["kind"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return ChunkRouteFailed("the helper failed and did not say why")
    if kind == "LookupError":
        return ArchiveGone(message)
    if kind == "Moved":
        return ContentMoved(message)
    if kind in _TOO_LARGE:
        return ArchiveTooLarge(message or "reading the archive's metadata takes more memory than is allowed")
    return ChunkRouteFailed(f"{kind}: {message}" if message else kind)


class _Ahead:
    """Reads chunks in a thread, a bounded number of bytes ahead of the one that takes them."""

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
        """Nobody takes any more: read what was asked for and forget it."""
        with self._room:
            self._abandoned = True
            self._room.notify()
