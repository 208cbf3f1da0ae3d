"""Long computations in a separate process.

Python threads share one lock, so a computation inside the service would slow down all other requests. Pure functions
are computed in a separate process instead. It runs at low priority with limited memory, starts when it is first needed,
and ends when it has been idle for a while. A request that waits for it holds no thread.
"""

import asyncio
import io
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from backup_engine.frozen import frozen
from holdfast.errors import Unavailable, Unprocessable
from holdfast.kit.compute_child import ANSWER, CALL, FAILED, HEAD, OUT_OF_TIME

MOST_SECONDS, LONGEST_SECONDS = 20, 120
"""Limits of a computation: processor time, and elapsed time, which is longer because a busy machine is slow."""
IDLE_SECONDS = 30.0
MOST_BYTES_GIVEN = 16 * 1024 * 1024
MOST_BYTES_ANSWERED = 64 * 1024 * 1024
BUFFER_BYTES = 1024 * 1024
ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"}
"""Nothing from the service's own environment, which may contain secrets, and no numpy thread per processor."""


class ComputationFailed(Exception):
    """The function raised an exception."""


def pack_call(function: Callable[..., Any], *arguments: Any) -> bytes:
    """Pack a module-level function and plain values for sending. Raise Unprocessable if they are too large."""
    packed = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
    if len(packed) > MOST_BYTES_GIVEN:
        raise _too_large()
    return packed


@frozen
class _Process:
    process: "subprocess.Popen[bytes]"
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class ComputeProcess:
    """The computing process. It belongs to the event loop and computes one thing at a time."""

    def __init__(
        self, seconds: int = MOST_SECONDS, clock_seconds: int = LONGEST_SECONDS, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._seconds = seconds
        self._clock_seconds = clock_seconds
        self._idle_seconds = idle_seconds
        self._running: _Process | None = None
        self._idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        return None if self._running is None else self._running.process.pid

    async def compute(self, packed: bytes) -> Any:
        """Return the plain data that a packed call returns. Raise Unprocessable, Unavailable or ComputationFailed."""
        if self._idle is not None:
            self._idle.cancel()
        try:
            async with asyncio.timeout(self._clock_seconds):
                kind, content = await self._asked(packed)
        except TimeoutError as error:
            self.end()
            raise _too_large() from error
        except (EOFError, OSError) as error:
            if self.end() == -OUT_OF_TIME:
                raise _too_large() from error
            raise Unavailable(
                "api.computation_failed", "The process that computes the answer was ended; try again.", retry_after=1
            ) from error
        except BaseException:  # nobody is waiting any more, or the answer is invalid
            self.end()
            raise
        self._idle = asyncio.get_running_loop().call_later(self._idle_seconds, self.end)
        if kind == ANSWER:
            return _Plain(io.BytesIO(content)).load()
        if kind == FAILED:
            raise ComputationFailed(content.decode())
        raise _too_large()

    async def _asked(self, packed: bytes) -> tuple[bytes, bytes]:
        running = self._running
        if running is None or running.process.poll() is not None:
            self.end()
            running = self._running = await self._started()
        running.writer.write(HEAD.pack(CALL, len(packed)))
        running.writer.write(packed)
        await running.writer.drain()
        kind, length = HEAD.unpack(await running.reader.readexactly(HEAD.size))
        if length > MOST_BYTES_ANSWERED:
            raise _too_large()
        return kind, await running.reader.readexactly(length)

    async def _started(self) -> _Process:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: ASYNC220 - it takes a few milliseconds and happens rarely
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "holdfast.kit.compute_child",
                    str(self._seconds),
                    str(self._clock_seconds),
                ],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=ENVIRONMENT,
                cwd="/",
                process_group=0,  # not a session of its own, where its niceness would have no effect
            )
        try:
            return _Process(process, *await asyncio.open_connection(sock=ours, limit=BUFFER_BYTES))
        except BaseException:
            _killed(process)
            raise

    def end(self) -> int | None:
        """End the process, which keeps no state; return its exit code."""
        running, self._running = self._running, None
        if running is None:
            return None
        running.writer.transport.abort()
        return _killed(running.process)


def _killed(process: "subprocess.Popen[bytes]") -> int:
    process.kill()
    return process.wait()


class _Plain(pickle.Unpickler):
    """Unpickle plain data only, so that an answer cannot make the service run anything."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise pickle.UnpicklingError(f"an answer holds {module_name}.{global_name}")


def _too_large() -> Unprocessable:
    return Unprocessable("api.computation_too_large", "The answer takes too long to compute. Ask for less.")
