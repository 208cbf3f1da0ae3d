"""Run programs whose answer is short, within limits on time and on the size of the output."""

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

TimeoutExpired = subprocess.TimeoutExpired
LARGEST_ANSWER = 16 * 1024 * 1024
"""Limit for the output, and separately for the error stream, in bytes."""
BLOCK = 1 << 16


class TooMuchOutput(Exception):
    """The program wrote more than the limit and was stopped."""


def run(
    command: Sequence[str],
    given: bytes,
    seconds: float,
    environment: Mapping[str, str],
    *,
    start_new_session: bool = False,
) -> "subprocess.CompletedProcess[bytes]":
    """Run a program to its end. Raise OSError if it cannot be run, TimeoutExpired or TooMuchOutput after stopping
    it.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=start_new_session,
    )
    try:
        output, errors = answer_of(process, given, seconds)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
    finally:
        end(process)


def answer_of(process: "subprocess.Popen[bytes]", given: bytes, seconds: float) -> tuple[bytes, bytes]:
    """Wait for the end; return the output and the error stream.

    Raise TimeoutExpired or TooMuchOutput; the process is then still running.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    deadline = time.monotonic() + seconds
    written: dict[Any, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as waiting:
        for stream in written:
            waiting.register(stream, selectors.EVENT_READ)
        rest = _begin_to_give(process, given, waiting)
        while waiting.get_map():
            ready = waiting.select(max(0.0, deadline - time.monotonic()))
            if not ready and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(process.args, seconds)
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    rest = _give(process.stdin, rest, waiting)
                else:
                    _read_block(key.fileobj, written[key.fileobj], waiting)
    process.wait(max(0.0, deadline - time.monotonic()) + 1.0)
    return bytes(written[process.stdout]), bytes(written[process.stderr])


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill the process if it is still running, and close its streams."""
    process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()


def _begin_to_give(process: "subprocess.Popen[bytes]", given: bytes, waiting: selectors.BaseSelector) -> memoryview:
    assert process.stdin is not None
    if given:
        os.set_blocking(process.stdin.fileno(), False)
        waiting.register(process.stdin, selectors.EVENT_WRITE)
    else:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    return memoryview(given)


def _give(stream: IO[bytes], rest: memoryview, waiting: selectors.BaseSelector) -> memoryview:
    try:
        rest = rest[os.write(stream.fileno(), rest[:BLOCK]) :]
    except BlockingIOError:
        return rest
    except BrokenPipeError:
        rest = rest[:0]
    if not rest:
        waiting.unregister(stream)
        stream.close()
    return rest


def _read_block(stream: Any, written: bytearray, waiting: selectors.BaseSelector) -> None:
    block = os.read(stream.fileno(), BLOCK)
    if not block:
        waiting.unregister(stream)
        return
    written += block
    if len(written) > LARGEST_ANSWER:
        raise TooMuchOutput
