"""Services that start in a fraction of a second, forked from a process that has loaded the program once.

Loading it takes two seconds of processor time, and the tests start hundreds of services. A fork runs the command line
from its first line on, with its own arguments, environment and session, and dies with the tests. `bench/startup.py`
measures the cost of a cold start.
"""

import contextlib
import ctypes
import functools
import gc
import importlib
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

PR_SET_PDEATHSIG = 1
LONGEST_ORDER = 1 << 20
LONGEST_COMMAND_LINE = 4000
ARG_START, ARG_END = 45, 46
"""Location of the command line in memory: fields of /proc/self/stat, counted from after the name."""
LOADED = (
    "holdfast.entry.main",
    "holdfast.entry.serve",
    "holdfast.archives.file_indexes",
    "holdfast.archives.fleet_names",
    "holdfast.history.index",
    "holdfast.history.sqlite",
    "alembic.command",
    "anyio._backends._asyncio",
    "cryptography.hazmat.primitives.ciphers.aead",
    "cryptography.hazmat.primitives.kdf.hkdf",
    "numpy.ma",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
)


class Process(Protocol):
    """The part of `subprocess.Popen` that tests use and a forked process offers too."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | Any: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Forked:
    """A process forked by the starter. Its exit code arrives through a pipe once it has ended."""

    def __init__(self, pid: int, ending: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ending = ending

    def poll(self) -> int | None:
        return self.returncode if self.returncode is not None else self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self.returncode if self.returncode is not None else self._ended_within(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(f"holdfast, process {self.pid}", timeout)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, seconds: float | None) -> int | None:
        if not select.select([self._ending], [], [], seconds)[0]:
            return None
        told = os.read(self._ending, 100)
        os.close(self._ending)
        self.returncode = int(told) if told else -signal.SIGKILL  # the starter was killed, and its services with it
        return self.returncode


def start(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Forked:
    """Start `holdfast` with these arguments in a new session; its output is appended to the log."""
    with _making:  # a second starter would end, and its services with it
        starter = _starter(os.getpid())
    return starter.start(arguments, environment, log)


_making = threading.Lock()


@functools.cache
def _starter(_pid: int) -> "Starter":
    return Starter()


class Starter:
    """The tests' end of the process that forks."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), " " * LONGEST_COMMAND_LINE],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._lock = threading.Lock()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Forked:
        ending, theirs = os.pipe()
        with self._lock, log.open("ab") as stream:
            order = json.dumps({"arguments": list(arguments), "environment": dict(environment), "folder": os.getcwd()})
            socket.send_fds(self._orders, [order.encode()], [stream.fileno(), theirs])
            answer = self._orders.recv(100)
        os.close(theirs)
        assert answer, "the process that starts services is gone"
        return Forked(int(answer), ending)


# --- in the process that forks ----------------------------------------------------------------------------------------


def fork_services(orders: socket.socket) -> None:
    """Fork a service for each order, and return in it. The starter itself ends with the tests, when they close their
    end.
    """
    running: dict[int, int] = {}
    starter = os.getpid()
    awake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while True:
        ready = select.select([orders.fileno(), awake], [], [])[0]
        if awake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(awake, 4096)
            _tell_endings(running)
        if orders.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(orders, LONGEST_ORDER, 2)
        if not message:
            os._exit(0)
        log, ending = descriptors
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (orders.detach(), awake, wake, ending, *running.values()):
                os.close(descriptor)
            _become(json.loads(message), log, starter)
            return
        os.close(log)
        running[pid] = ending
        orders.send(str(pid).encode())


def _tell_endings(running: dict[int, int]) -> None:
    for pid, ending in list(running.items()):
        gone, status = os.waitpid(pid, os.WNOHANG)
        if gone:
            del running[pid]
            with contextlib.suppress(BrokenPipeError):
                os.write(ending, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(ending)


def _become(order: dict[str, Any], log: int, starter: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != starter:
        os._exit(1)
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.argv = [str(Path(sys.executable).parent / "holdfast"), *order["arguments"]]
    _show_command_line([sys.executable, *sys.argv])


def _show_command_line(words: list[str]) -> None:
    """Show the service's command line in /proc, where tests look for processes by their arguments."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[ARG_START]), int(fields[ARG_END])
    line = b"".join(os.fsencode(word) + b"\0" for word in words)
    assert len(line) < end - start
    ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)


def _load() -> None:
    """Load what most services of the tests load sooner or later, and build their routes."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's own threads would not survive a fork
    from holdfast.entry import quick_start

    quick_start.begin()
    for name in LOADED:
        importlib.import_module(name)
    from holdfast.composition import FEATURES

    for route in itertools.chain.from_iterable(router.routes for feature in FEATURES for router in feature.routers):
        getattr(route, "dependant", None)  # deferred routes are built on access
    from sqlalchemy.orm import configure_mappers

    configure_mappers()
    gc.freeze()


if __name__ == "__main__":
    orders = socket.socket(fileno=int(sys.argv[1]))
    sys.path.pop(0)  # the folder of this file, whose names are not modules of the service
    _load()
    fork_services(orders)
    from holdfast.entry.main import main

    sys.exit(main())  # type: ignore[func-returns-value] # as the installed program does
