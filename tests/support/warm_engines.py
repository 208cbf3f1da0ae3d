"""Engines that start in a fraction of the usual time, forked from a process that has loaded the engine once.

Loading it takes a fifth of a second of processor time (engine 2: half a second), and the tests start thousands. A fork
runs the engine's program from its first line on, in place of a small process (`warm_engine.c`) that forwards signals
and ends as the fork ends. Tests of chaos, kills and the engine's adapter run the program itself.

`warm_command` returns the command to start; `warm_program` a program for callers that need the path of one.

Environment variables that the engine reads while it is loaded must be the same for the fork. Otherwise, and in case of
any other problem, the small process becomes the program itself.

This file runs under the engine's Python: it imports only the standard library.
"""

import array
import atexit
import contextlib
import ctypes
import fcntl
import functools
import gc
import hashlib
import importlib
import io
import os
import random
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PR_SET_NAME = 15
LIMITS = 16
MOST_DESCRIPTORS = 200
F_SETSIG = 10
HOST_ID = "BORG_HOST_ID"
HOST_OF_TESTS = "the host of an engine that was not started yet"
EXIT_CODES = "BORG_EXIT_CODES"
LOADED_WITH = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", EXIT_CODES: "modern", HOST_ID: HOST_OF_TESTS}
OF_NO_MATTER = (HOST_ID, EXIT_CODES, "HOME", "TMPDIR", "TEMP", "TMP")
"""Variables that are read during loading but corrected in the fork; the home folder matters only for user packages."""
SOURCE = Path(__file__).with_name("warm_engine.c")
PROGRAM = "import sys\n\nfrom borg.archiver import main\n\nsys.exit(main())\n"
NAME = "borg"
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%f"
SETTINGS = "BORG_CONFIG_DIR"
SETTINGS_PLACES = (SETTINGS, "BORG_BASE_DIR", "HOME", "XDG_CONFIG_HOME")
LONGEST_FIRST_LINE = 200
CACHE = Path(__file__).resolve().parents[2] / ".cache"


# --- in the tests -----------------------------------------------------------------------------------------------------


def warm_command(program: Path) -> list[str]:
    """The words before the engine's arguments; only the program itself if it cannot be kept warm."""
    from backup_engine.far.remote_helper import interpreter_of

    client, python = _client(), interpreter_of(str(program))
    if client is None or python is None:
        return [str(program)]
    with _making:
        return [str(client), _listening(os.getpid(), program, tuple(python)), str(program)]


@functools.cache
def warm_program(program: Path) -> Path:
    """A program that acts as the engine for callers, and refers to its Python for those that look for that.

    It is a link into a folder shared by all test runs, so that what a service finds out about it also holds for the
    next run.
    """
    from backup_engine.far.remote_helper import interpreter_of

    client, python = _client(), interpreter_of(str(program))
    if client is None or python is None or len(python) != 1:
        return program
    shared = client.with_name(f"{client.name}.{hashlib.sha256(os.fsencode(program.resolve())).hexdigest()[:16]}")
    first_line = f"#!{shared / 'python'}\n"
    if len(os.fsencode(first_line)) > LONGEST_FIRST_LINE:
        return program
    if not shared.exists():
        part = shared.with_suffix(f".{os.getpid()}")
        part.mkdir()
        (part / "python").symlink_to(client)
        (part / "real").symlink_to(python[0])
        (part / "borg").write_text(first_line + PROGRAM)
        (part / "borg").chmod(0o755)
        try:
            part.rename(shared)
        except OSError:  # another test process was first
            shutil.rmtree(part)
    # The folder lives as long as this process, like the process that answers on the socket.
    own = tempfile.TemporaryDirectory(prefix="warm-engine-")
    _keep.append(own)
    Path(own.name).chmod(0o755)
    with _making:
        (Path(own.name) / "socket").symlink_to(_listening(os.getpid(), program, tuple(python)))
    (Path(own.name) / "borg").symlink_to(shared / "borg")
    return Path(own.name) / "borg"


@functools.cache
def warm_path() -> str:
    """The PATH for services and agents: a system-wide engine in it is found loaded. Benches get the usual one."""
    path = os.environ["PATH"]
    system = shutil.which("borg") if "PYTEST_VERSION" in os.environ else None
    return path if system is None else f"{warm_program(Path(system)).parent}{os.pathsep}{path}"


_keep: list["tempfile.TemporaryDirectory[str] | int"] = []
_making = threading.Lock()
"""Only one thread loads an engine."""


@functools.cache
def _client() -> Path | None:
    """The small process, compiled once for all test runs; None on a machine without a compiler."""
    content = SOURCE.read_bytes()
    client = CACHE / f"warm-engine-{hashlib.sha256(content).hexdigest()[:16]}"
    if not client.exists():
        part = client.with_suffix(f".{os.getpid()}")
        CACHE.mkdir(exist_ok=True)
        try:
            subprocess.run(["cc", "-O1", "-o", part, SOURCE], check=True, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            return None
        part.rename(client)
    return client


@functools.cache
def _listening(pid: int, program: Path, python: tuple[str, ...]) -> str:
    """Load the engine in a process that ends with this one; return the name of the socket on which it takes orders.

    It ends when a pipe closes. A signal at its parent's death would come at the end of the thread that started it.
    """
    name = f"warm-engine-{pid}-{program.parents[1].name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(f"\0{name}")
        listener.listen(64)
        life, own_end = os.pipe()
        _keep.append(own_end)
        subprocess.Popen(
            [*python, "-s", __file__, str(listener.fileno()), str(life)],
            pass_fds=[listener.fileno(), life],
            stdin=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], **LOADED_WITH},
            start_new_session=True,
        )
        os.close(life)
    return name


# --- in the process that forks ----------------------------------------------------------------------------------------


class Order:
    """The small process's description of itself."""

    def __init__(self, content: bytes, descriptors: list[int]) -> None:
        parts = iter(content.split(b"\0")[:-1])
        self.folder = next(parts)
        self.mask, self.niceness = int(next(parts)), int(next(parts))
        self.limits = [(int(soft), int(hard)) for soft, hard in (next(parts).split() for _ in range(LIMITS))]
        numbers = [int(next(parts)) for _ in range(int(next(parts)))]
        *given, self.life = descriptors
        self.descriptors = dict(zip(numbers, given, strict=True))
        self.words = [os.fsdecode(next(parts)) for _ in range(int(next(parts)))]
        self.environment = dict(variable.partition(b"=")[::2] for variable in parts)


def received(link: socket.socket) -> Order:
    space = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)
    head, ancillary, _, _ = link.recvmsg(4, space, socket.MSG_WAITALL)
    descriptors = array.array("i")
    for _level, _sort, data in ancillary:
        descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    content = bytearray()
    wanted = int.from_bytes(head, sys.byteorder)
    while len(content) < wanted:
        part = link.recv(wanted - len(content))
        if not part:
            raise EOFError
        content += part
    return Order(bytes(content), list(descriptors))


@contextlib.contextmanager
def noting() -> Iterator[dict[bytes, bytes | None]]:
    """Note the environment variables that are read."""
    seen: dict[bytes, bytes | None] = {}
    kind = type(os.environ)
    usual = kind.__getitem__

    def noted(environment: "os._Environ[str]", name: str) -> str:
        seen[os.fsencode(name)] = os.environb.get(os.fsencode(name)) if environment is os.environ else None
        return usual(environment, name)

    kind.__getitem__ = noted  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        kind.__getitem__ = usual  # type: ignore[method-assign]


class Loaded:
    """The engine, and what each run of it does first: build the parser of its command line.

    That takes a third of the time of a short run. A fork with another name or other variables builds its own parser.
    """

    def __init__(self) -> None:
        with noting() as seen:
            import borg.archiver  # type: ignore[import-not-found]
        self.seen = {name: value for name, value in seen.items() if os.fsdecode(name) not in OF_NO_MATTER}
        sys.argv = [NAME]
        with tempfile.TemporaryDirectory() as folder, noting() as seen:
            os.environ[SETTINGS] = folder  # engine 2 makes it
            self.archiver = borg.archiver.Archiver()
            self.parser = self.archiver.build_parser()
            os.environ.pop(SETTINGS)
        self.seen_by_parser = {name: value for name, value in seen.items() if os.fsdecode(name) not in SETTINGS_PLACES}
        importlib.import_module("msgpack.fallback")  # loaded after the start of each run
        time.strptime("2000-01-01T00:00:00.000000", TIME_FORMAT)
        gc.collect()
        gc.freeze()

    def fits(self, order: Order) -> bool:
        return is_same(self.seen, order.environment)

    def prepare(self, order: Order) -> None:
        """Let the archiver of this fork be the one whose parser is built, for its first use."""
        if Path(order.words[0]).name != NAME or not is_same(self.seen_by_parser, order.environment):
            return
        kind, parsers = type(self.archiver), [self.parser]
        usual = kind.build_parser
        kind.__new__ = lambda *_, **__: self.archiver
        kind.build_parser = lambda archiver: self.with_settings(parsers.pop()) if parsers else usual(archiver)

    def with_settings(self, parser: Any) -> Any:
        """The parser of engine 2 names the file of settings, in a folder that depends on the environment."""
        if hasattr(parser, "default_config_files"):
            from borg.helpers import get_config_dir  # type: ignore[import-not-found]

            parser.default_config_files = [
                str(Path(get_config_dir(), Path(file).name)) for file in parser.default_config_files
            ]
        return parser


def is_same(seen: dict[bytes, bytes | None], environment: dict[bytes, bytes]) -> bool:
    return all(environment.get(name) == value for name, value in seen.items())


def fork_engines(listener: socket.socket, life: int, loaded: Loaded) -> None:
    """Fork an engine for each order, and return in it."""
    running: dict[int, socket.socket] = {}
    awake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while True:
        ready = select.select([listener.fileno(), life, awake], [], [])[0]
        if life in ready:
            os._exit(0)
        if awake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(awake, 4096)
            tell_endings(running)
        if listener.fileno() not in ready:
            continue
        link, _ = listener.accept()
        try:
            order = received(link)
        except (EOFError, OSError, ValueError, StopIteration):
            link.close()
            continue
        pid = os.fork() if loaded.fits(order) else None
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            become(
                order,
                {listener.detach(), life, awake, wake, link.detach(), *(other.detach() for other in running.values())},
            )
            loaded.prepare(order)
            return
        for descriptor in (*order.descriptors.values(), order.life):
            os.close(descriptor)
        with contextlib.suppress(OSError):
            link.sendall(f"P{pid}\n".encode() if pid is not None else b"R0\n")
        if pid is not None:
            running[pid] = link
        else:
            link.close()


def tell_endings(running: dict[int, socket.socket]) -> None:
    for pid, link in list(running.items()):
        gone, status = os.waitpid(pid, os.WNOHANG)
        if gone:
            del running[pid]
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(OSError):
                link.sendall(f"E{code}\n".encode() if code >= 0 else f"S{-code}\n".encode())
            link.close()


def become(order: Order, ours: set[int]) -> None:
    """Take the place of the small process, in the fork."""
    os.setsid()
    for descriptor in ours:
        os.close(descriptor)
    life = fcntl.fcntl(order.life, fcntl.F_DUPFD_CLOEXEC, 300)
    moved = {number: fcntl.fcntl(given, fcntl.F_DUPFD, 300) for number, given in order.descriptors.items()}
    os.closerange(0, 300)
    for number, given in moved.items():
        os.dup2(given, number)
        os.close(given)
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([life], [], [], 0)[0]:
        os._exit(1)
    os.chdir(order.folder)
    os.umask(order.mask)
    os.setpriority(os.PRIO_PROCESS, 0, order.niceness)
    for which, limit in enumerate(order.limits):
        resource.setrlimit(which, limit)
    os.environ.clear()
    os.environb.update(order.environment)
    time.tzset()
    random.seed()
    tempfile.tempdir = None
    host = os.environ.get(HOST_ID)
    usual_codes = "modern" if sys.modules["borg"].__version_tuple__ >= (2,) else "legacy"
    for module in list(sys.modules.values()):
        if vars(module).get("hostid") == HOST_OF_TESTS:
            module.hostid = host or usual_host()  # type: ignore[attr-defined]
        if "modern_ec" in vars(module):
            module.modern_ec = os.environ.get(EXIT_CODES, usual_codes) == "modern"  # type: ignore[attr-defined]
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        usual = getattr(sys, name)
        with contextlib.suppress(OSError):
            stream = io.TextIOWrapper(
                io.open(number, f"{mode}b", closefd=False),  # noqa: SIM115, UP020
                encoding=usual.encoding,
                errors=usual.errors,
                line_buffering=name == "stderr" or os.isatty(number),
            )
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
    sys.argv = order.words


def usual_host() -> str:
    """The name that engine 1 makes up while it is loaded without one; engine 2 does so whenever it is needed."""
    return f"{sys.modules['borg.platform'].fqdn}@{uuid.getnode()}"


def run() -> None:
    """Run the engine. Skip the interpreter's cleanup at the end, which would take as long as a small backup."""
    from borg.archiver import main

    try:
        code = main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 # as the interpreter does
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else code is not None)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"warm borg")
    sys.path.pop(0)  # the folder of this file
    fork_engines(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), Loaded())
    run()
