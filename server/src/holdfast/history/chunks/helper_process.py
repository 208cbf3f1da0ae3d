"""A helper process: start it under the engine's own Python, send it requests, and distrust every byte it returns."""

import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, Self

from backup_engine.command import Secret
from holdfast.history.chunks.far import FarEngine, Texts, fingerprint, helper_texts
from holdfast.history.chunks.frames import (
    ANSWER_BYTES_MOST,
    FRAME,
    MESSAGE_CHARACTERS_MOST,
    PROTOCOL,
    named_error,
)
from holdfast.history.chunks.program import HELPER, HELPER_2, interpreter_of
from holdfast.history.errors import ChunkRouteFailed, LinkLost, ProgramChanged, RepositoryReplaced

SILENCE_SECONDS = 600.0
"""Time limit for one answer; the longest takes opening a large repository without an index."""
_STOP_SECONDS = 10.0
_LAST_WORDS_SECONDS = 1.0
_LOOK_SECONDS = 0.5
"""Interval at which to check whether the answer is still wanted."""
_ERROR_BYTES_KEPT = 4096
_READ_BYTES = 1024 * 1024
_LINK_ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}


class HelperProcess:
    """The helper process and the requests to it. Use as a context manager.

    The environment is the engine's own (passphrase by variable or by an inherited descriptor, remote shell, base
    folder). With `far`, the helper runs on that machine, and the secrets are sent there. Raise ChunkRouteFailed for any
    failure on the other side, ProgramChanged if the engine there is not the one that was tested.
    """

    silence_seconds = SILENCE_SECONDS
    stop_seconds = _STOP_SECONDS
    """How long the helper may take to end by itself, and again after SIGTERM."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """How the helper opens the repository unless the caller specifies otherwise."""
    is_abandoned: Callable[[], bool] | None = None
    """Returns whether the answer is no longer wanted; called while waiting for it."""

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
        **opening: Any,
    ) -> None:
        self._program = program
        self._far = far
        self._secrets = secrets or {}
        self.major = major  # of the engine
        self._opening = {"repository": repository, **self.defaults, **opening}
        self._environment = dict(environment)
        self._pass_fds = tuple(pass_fds)
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._turn = threading.Lock()  # for helpers that several threads use
        self._complaints = b""
        self.is_usable = True  # False once the helper has ended or sent an invalid answer
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
        """Make the machine start the helper. Its first answer identifies the engine's program."""
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
                process_group=0,  # not a session of its own, in which its niceness would have no effect
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
        """Read the rest of the helper's greeting; return False if something is missing."""
        raise NotImplementedError

    def _stop(self) -> None:
        """End the helper. It leaves by itself at the end of its input, and releases the lock unless it has to be
        killed.
        """
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        self._let_go(process.terminate)
        process.stdout.close()
        for insist in (process.terminate, partial(kill_group, process)):
            try:
                process.wait(self.stop_seconds)
            except subprocess.TimeoutExpired:
                insist()
        process.wait()

    def _let_go(self, terminate: Callable[[], None]) -> None:
        """Stop all reads from the helper."""

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
        """Given a number of bytes within the limits, read exactly that many.

        Raise ChunkRouteFailed if the helper ends or stalls.
        """
        pieces = []
        deadline = time.monotonic() + self.silence_seconds  # for all of them; single bytes do not extend it
        while size:
            self._wait_for(pipe, deadline)
            piece = os.read(pipe.fileno(), min(size, _READ_BYTES))
            if not piece:
                raise self._failed("the helper ended early")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _wait_for(self, pipe: IO[bytes], deadline: float) -> None:
        poller = select.poll()  # `select` refuses descriptors above 1,023, which a service with many clients has
        poller.register(pipe, select.POLLIN)
        while not poller.poll(1000 * min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                raise self._unusable(f"the helper did not answer within {self.silence_seconds:.0f} seconds")
            if self.is_abandoned is not None and self.is_abandoned():
                self.is_usable = False
                self._running().terminate()  # so that it releases its lock
                raise ChunkRouteFailed("nobody waits for the answer any more")

    def _unusable(self, why: str) -> ChunkRouteFailed:
        """Kill the helper, because nothing after this can be understood; return the exception to raise."""
        self._running().kill()
        self.is_usable = False
        return ChunkRouteFailed(why)

    def _failed(self, what: str) -> ChunkRouteFailed:
        self.is_usable = False
        if self._listener is not None:
            self._listener.join(_LAST_WORDS_SECONDS)  # a helper that has ended may have given the reason
        said = self._complaints.decode("utf-8", "replace").strip().splitlines()
        return ChunkRouteFailed(f"{what}: {said[-1][:MESSAGE_CHARACTERS_MOST]}" if said else what)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the helper and its children: an ssh whose network is gone would take a minute to end by itself."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
