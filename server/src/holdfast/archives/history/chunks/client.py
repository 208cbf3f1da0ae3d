"""Our side of the helper: start it, ask for chunks, never trust a byte of what comes back."""

import json
import os
import queue
import select
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, NamedTuple, Self

from backup_engine.command import LARGEST_STREAM, Secret
from holdfast.archives.history.chunks.far import FarEngine, Texts, fingerprint, helper_texts, trial_texts
from holdfast.archives.history.chunks.program import HELPER, HELPER_2, interpreter_of
from holdfast.archives.history.chunks.state import ID_BYTES
from holdfast.archives.history.errors import (
    ArchiveGone,
    ArchiveTooLarge,
    ChunkRouteFailed,
    ContentMoved,
    HistoryError,
    LinkLost,
    ProgramChanged,
    RepositoryReplaced,
)

PROTOCOL = 3

FRAME = struct.Struct(">cQ")
_SEGMENT_BYTES = 4
ANSWER_BYTES_MOST = 64 * 1024
IDS_BYTES_MOST = 4 * 1024 * 1024  # the chunks of an archive with about 65 million files; beyond it, the listing
CHUNK_BYTES_MOST = 4 * 1024 * 1024  # the engine cuts item metadata into chunks of at most 512 KiB
_AHEAD_BYTES = 4 * 1024 * 1024
_SAME_CHUNK_MOST = 4  # times, on average: the helper refuses more, but one on another machine may not be ours
TRIAL_BYTES_MOST = 4 * 1024 * 1024
SILENCE_SECONDS = 600.0
"""How long the helper may take for one answer; opening a large repository without an index is the longest of them."""
_STOP_SECONDS = 10.0
_LAST_WORDS_SECONDS = 1.0
_ERROR_BYTES_KEPT = 4096
_MESSAGE_CHARACTERS_MOST = 1000
_READ_BYTES = 1024 * 1024
_CHUNKS_ASKED_FOR = 256  # at once
_TOO_LARGE = frozenset({"TooLarge", "MemoryError"})
_LINK_ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}


class HelperProcess:
    """The helper, and what is said to it. Use as a context manager.

    The environment is the one for the engine itself (passphrase by variable or by an inherited descriptor, remote shell,
    base folder). With `far` the helper runs on that machine, and the secrets go there. Raise ChunkRouteFailed for anything
    that goes wrong on the other side, ProgramChanged if the engine there is another than the one that was tested.
    """

    silence_seconds = SILENCE_SECONDS
    stop_seconds = _STOP_SECONDS
    """How long it may take to end by itself, and again after it was asked to."""
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
        far: FarEngine | None = None,
        secrets: Mapping[str, Secret] | None = None,
        **opening: Any,
    ) -> None:
        self._program = program
        self._far = far
        self._secrets = secrets or {}
        self.major = major  # of the engine
        self._opening = {"repository": repository, "niceness": niceness, **self.defaults, **opening}
        self._environment = dict(environment)
        self._pass_fds = tuple(pass_fds)
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._complaints = b""
        self.is_usable = True  # False once the helper has ended or speaks nonsense
        self.version = ""
        self.program_there = ""
        self.repository_id = ""

    def __enter__(self) -> Self:
        try:
            if self._far is None:
                self._start(self._command(), self._environment)
            else:
                self._start(self._far.command, _LINK_ENVIRONMENT)
                self._reach(self._far)
            self._greet()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def _command(self) -> list[str]:
        python = interpreter_of(self._program)
        if python is None:
            raise ChunkRouteFailed("the engine's program does not name a Python to run under")
        return [*python, str(HELPER if self.major == 1 else HELPER_2)]

    def _reach(self, far: FarEngine) -> None:
        """Have the machine start the helper. It says first which program its engine is."""
        self._write(far.opening(self._texts(), self._environment, self._secrets))
        try:
            self.program_there = fingerprint(self._json())
        except ValueError as error:
            raise ChunkRouteFailed(str(error)) from error
        if far.tested not in (None, self.program_there):
            raise ProgramChanged("the engine there is another than the one that was tested")

    def _texts(self) -> Texts:
        return helper_texts(self.major)

    def _start(self, command: list[str], environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=environment,
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
        self.repository_id = str(hello.get("repository_id"))

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
        for insist in (process.terminate, partial(_kill_group, process)):
            try:
                process.wait(self.stop_seconds)
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
        self._write(json.dumps(request).encode() + b"\n" + more)

    def _write(self, data: bytes) -> None:
        pipe = self._running().stdin
        assert pipe is not None
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[pipe.write(rest) :]
        except (OSError, ValueError) as error:
            raise self._failed("the helper does not listen") from error

    def _json(self, most: int = ANSWER_BYTES_MOST) -> Any:
        data = self._frame(b"J", most)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ChunkRouteFailed("the helper answered no JSON") from error

    def _frame(self, wanted: bytes, most: int) -> bytes:
        pipe = self._running().stdout
        assert pipe is not None
        letter, length = FRAME.unpack(self._exactly(pipe, FRAME.size))
        if letter not in (wanted, b"E") or length > (ANSWER_BYTES_MOST if letter == b"E" else most):
            raise self._unusable("the helper's answer is garbled")
        data = self._exactly(pipe, length)
        if letter == b"E":
            error = named_error(data)
            self.is_usable = self.is_usable and not isinstance(error, RepositoryReplaced | LinkLost)
            raise error
        return data

    def _exactly(self, pipe: IO[bytes], size: int) -> bytes:
        """Given a number of bytes within bounds, return that many. Raise ChunkRouteFailed if the helper ends or stops."""
        pieces = []
        deadline = time.monotonic() + self.silence_seconds  # for all of it: nobody holds us with a byte now and then
        while size:
            if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
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
        return ChunkRouteFailed(f"{what}: {said[-1][:_MESSAGE_CHARACTERS_MOST]}" if said else what)


class FarTrial(HelperProcess):
    """A small repository on another machine, made for the self-test; it is removed at the end."""

    def __init__(self, far: FarEngine, specification: Mapping[str, Any], *, environment: Mapping[str, str]) -> None:
        super().__init__(Path(far.program), "", environment=environment, far=far)
        self._opening = dict(specification)
        self.made: dict[str, Any] = {}

    def _texts(self) -> Texts:
        return trial_texts()

    def _greet(self) -> None:
        self._send(self._opening)
        made = self._json(TRIAL_BYTES_MOST)
        if not isinstance(made, dict):
            raise ChunkRouteFailed("the machine answers something else than a trial")
        self.made = made


class EngineChunks(HelperProcess):
    """Metadata chunks of a repository, read under a shared lock."""

    defaults: ClassVar[Mapping[str, Any]] = {"lock_wait": 60}
    _reader: threading.Thread | None = None
    _left_bytes = LARGEST_STREAM  # of the archive that is read, as of a listing
    latest_nanoseconds = 0

    def chunk_ids(self, archive: str) -> list[bytes]:
        """Given an archive's id, return the ids of its metadata chunks in order. Raise ArchiveGone, ChunkRouteFailed,
        ArchiveTooLarge."""
        self._ask({"op": "ids", "archive": archive})
        ids = joined_ids(self._frame(b"I", IDS_BYTES_MOST))
        self._left_bytes = LARGEST_STREAM
        return ids

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
    """Chunks of files of a repository. Any number of threads may ask.

    On the engine's machine they are read without a lock. On a server, `borg serve` reads them under a shared lock, which it
    gives back when the helper ends.

    Raise ContentMoved for a chunk that an engine moves at this moment, ChunkRouteFailed for anything else.
    """

    silence_seconds = 60.0
    defaults: ClassVar[Mapping[str, Any]] = {"lock_wait": 1}

    def __init__(
        self,
        program: Path,
        repository: str,
        *,
        environment: Mapping[str, str],
        pass_fds: Sequence[int] = (),
        major: int = 1,
        far: FarEngine | None = None,
        secrets: Mapping[str, Secret] | None = None,
    ) -> None:
        super().__init__(
            program,
            repository,
            environment=environment,
            pass_fds=pass_fds,
            niceness=0,
            major=major,
            far=far,
            secrets=secrets,
            reads_files=True,
        )
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        with self._turn:  # whoever ends it meanwhile waits until nobody reads from it
            return super().__enter__()

    def read(self, parts: Sequence[Part]) -> bytes:
        """Return the bytes of these parts, one after the other."""
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
        """End the helper from any thread; whoever waits for an answer gets none."""
        self.is_usable = False
        process = self._process
        if process is not None:
            _kill_group(process)
        with self._turn:
            self._stop()

    def leave(self, seconds: float) -> None:
        """End the helper when it has answered what it was asked, so that it gives its lock back; kill it after this time."""
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


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the helper and what it has started: an ssh whose network is gone would not end by itself for a minute."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def joined_ids(joined: bytes) -> list[bytes]:
    """Given ids side by side as a helper answers them, return them. Raise ChunkRouteFailed, ArchiveTooLarge."""
    if len(joined) % ID_BYTES:
        raise ChunkRouteFailed("the helper answered a chunk id of the wrong length")
    ids = [joined[at : at + ID_BYTES] for at in range(0, len(joined), ID_BYTES)]
    if len(ids) > _SAME_CHUNK_MOST * len(set(ids)):
        raise ArchiveTooLarge("the archive names the same chunks of metadata again and again")
    return ids


def named_error(data: bytes) -> HistoryError:
    """Given the helper's error, return ours."""
    try:
        error = json.loads(data)
        kind, message = str(error["kind"])[:100], str(error["message"])[:_MESSAGE_CHARACTERS_MOST]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ChunkRouteFailed("the helper failed and did not say why")
    if kind == "LookupError":
        return ArchiveGone(message)
    if kind == "Moved":
        return ContentMoved(message)
    if kind == "Replaced":
        return RepositoryReplaced(message)
    if kind == "LinkLost":
        return LinkLost(message)
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
