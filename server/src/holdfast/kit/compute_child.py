"""The program of the computing process (`kit/compute_process.py`): call the functions that arrive on a socket.

It imports only what those functions need, and numpy only for those that use it.
"""

import os
import pickle
import resource
import signal
import socket
import struct
import sys
from contextlib import suppress

HEAD = struct.Struct("!cQ")
"""Header of each message: kind and length."""
CALL, ANSWER, TOO_LARGE, FAILED = b"C", b"A", b"L", b"F"
NICENESS = 5
"""Requests that compute give way to all others, but get an answer in time even beside busy programs of this machine."""
MEMORY_BYTES = 1 << 30
ORPHAN_SECONDS = 5
"""If the service does not end the process at the time limit, the process ends itself this many seconds later."""
OUT_OF_TIME = signal.SIGPROF
"""The signal that ends the process when a computation has used up its processor time."""


def main(processor_seconds: int, clock_seconds: int) -> None:
    os.nice(NICENESS)
    with suppress(ValueError, OSError):  # a lower limit is already set
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with socket.socket(fileno=0) as connection, connection.makefile("rb") as calls:
        while head := calls.read(HEAD.size):
            signal.alarm(clock_seconds + ORPHAN_SECONDS)
            signal.setitimer(signal.ITIMER_PROF, processor_seconds)
            _, length = HEAD.unpack(head)
            kind, content = answer(calls.read(length))
            connection.sendall(HEAD.pack(kind, len(content)))
            connection.sendall(content)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)


def answer(call: bytes) -> tuple[bytes, bytes]:
    try:
        function, arguments = pickle.loads(call)  # noqa: S301 - sent by the service, which started this process
        return ANSWER, pickle.dumps(function(*arguments), pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        return TOO_LARGE, b""
    except Exception as error:  # noqa: BLE001 - reported to the service
        return FAILED, f"{type(error).__name__}: {error}".encode("utf-8", "replace")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
