"""Start an engine under the shim, and determine its state at any later time."""

import contextlib
import enum
import fcntl
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from backup_engine import shim
from backup_engine.command import Command
from backup_engine.compiled import run_compiled
from backup_engine.far.request import ended_file, near_command
from backup_engine.far.streaming import joined
from backup_engine.file_lock import locked_if_free
from backup_engine.frozen import frozen
from backup_engine.small_shutil import remove_tree, which

MAX_SECRET_BYTES = 60_000
ENGINE_NICENESS, FURTHER_NICENESS, LOWEST_NICENESS = 10, 9, 19
NICENESS_VARIABLE = "BACKUP_ENGINE_NICENESS"
"""Overrides the default niceness of the engines started by this process, 0 to 19."""
PIPE_BYTES = 1 << 20
GRACE_SECONDS = 30.0


class SpoolState(enum.Enum):
    NEVER_STARTED = "never_started"
    ALIVE = "alive"
    EXITED = "exited"
    INTERRUPTED = "interrupted"


class SecretTooLong(ValueError):
    """The secret does not fit into the buffer of a pipe."""


@frozen
class ExitRecord:
    code: int | None
    signal: int | None
    exec_error: str | None
    started_at: float
    finished_at: float
    cpu_seconds: float = 0.0
    max_rss_kib: int = 0
    free_bytes: int | None = None
    """Space where the repository is stored, measured after the engine ended; None if it is not in a folder of its
    machine.
    """
    total_bytes: int | None = None
    timed_out: bool = False
    """A script exceeded its time limit and was stopped."""
    too_much_output: bool = False
    """A script exceeded its output limit and was stopped."""


@cache
def io_priority_command() -> tuple[str, ...]:
    """The command that gives a process a low I/O priority, to be followed by its pid; empty if the system has none."""
    program = which("ionice")
    return (program, "-c", "2", "-n", "7", "-p") if program else ()


def niceness(*, gives_way: bool = False) -> int:
    given = os.environ.get(NICENESS_VARIABLE, "")
    usual = int(given) if given.isascii() and given.isdigit() else ENGINE_NICENESS
    return min(LOWEST_NICENESS, usual + FURTHER_NICENESS if gives_way else usual)


class Spool:
    """The folder of one engine run. ``shim`` describes the files in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.err = folder / "err"

    def exists(self) -> bool:
        return (self.folder / "command.json").exists()

    def launch(self, command: Command) -> "Child":
        """Write the command and start the shim for it, in a new session."""
        return self._launch(command, None)

    def launch_piped(self, command: Command) -> tuple["Child", int]:
        """Like `launch`, but with the engine's output in a pipe instead of a file; return the pipe's read end.

        The stream ends after the exit record is written. Closing the descriptor, or the death of this process, stops
        the engine.
        """
        reading, writing = os.pipe()
        try:
            _widen(writing)
            child = self._launch(command, writing)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return child, reading

    def _launch(self, command: Command, output: int | None) -> "Child":
        wanted = command
        if wanted.machine is not None:
            command = near_command(wanted, self.folder, piped=output is not None or bool(wanted.into))
        if wanted.into:
            command = joined(wanted, command)
        secrets = {
            name: {"value": secret.value, "delivery": secret.delivery} for name, secret in command.secrets.items()
        }
        if any(
            len(secret["value"].encode("utf-8", "surrogateescape")) > MAX_SECRET_BYTES for secret in secrets.values()
        ):
            raise SecretTooLong("a secret may have at most 60,000 bytes")
        if self.exists():
            raise FileExistsError(f"a run was launched over {self.folder} already")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # a late shim may have put a lock there
        self._reserve("started.json", "engine.json", "exit.json")
        self._write("command.json", _command_record(command, gives_way=wanted.gives_way))
        reading, writing = os.pipe()
        passed = (reading,) if output is None else (reading, output)
        try:
            process = subprocess.Popen(
                [*run_compiled(shim.__file__), str(self.folder), *map(str, passed)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
                start_new_session=True,
                pass_fds=passed,
            )
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(secrets).encode() + b"\n")
        return Child(process)

    def settle(self) -> SpoolState:
        """Return the state of the run. If it has not started by now, ensure that it never will."""
        if not self.exists():
            return SpoolState.NEVER_STARTED
        with self._lock_if_free() as free:
            if not free:
                return SpoolState.ALIVE
            if self.exit_record() is not None:
                return SpoolState.EXITED
            if (self.folder / "started.json").exists():
                return SpoolState.INTERRUPTED
            (self.folder / "abandoned").touch(mode=0o600)
            return SpoolState.NEVER_STARTED

    def is_alive(self) -> bool:
        """Whether the shim or the engine is alive."""
        with self._lock_if_free() as free:
            return not free

    def has_started(self) -> bool:
        return (self.folder / "started.json").exists()

    def exit_record(self) -> ExitRecord | None:
        record = self._read("exit.json")
        if record is None:
            return None
        return ExitRecord(**{**record, **self._remote_end()})

    def _remote_end(self) -> dict[str, Any]:
        """When an engine on another machine ended, and the space there, if its near side has recorded that."""
        try:
            kept = json.loads(ended_file(self.folder).read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        space = {name: kept[name] for name in ("free_bytes", "total_bytes") if isinstance(kept.get(name), int)}
        return {"finished_at": float(kept["finished_at"]), **space}

    def signal_engine(self, number: signal.Signals) -> bool:
        """Send a signal to the engine's process group. Return False if it no longer exists."""
        engine = self._read("engine.json")
        if not engine or not self.is_alive():
            return False
        pid = int(engine["pid"])
        if engine["start_time"] is not None and shim.process_start_time(pid) != engine["start_time"]:
            return self._signal_survivors(number)
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            return False
        return True

    def remove(self) -> None:
        """Remove the folder. A shim that starts late finds either the mark that it was abandoned, or no command."""
        (self.folder / "command.json").unlink(missing_ok=True)
        remove_tree(self.folder)

    def _signal_survivors(self, number: signal.Signals) -> bool:
        """Signal the processes that the engine left behind: all that still have the lock open, except the shim."""
        started = self._read("started.json") or {}
        signalled = False
        for pid in _processes_with_open(self.folder / "lock") - {started.get("shim_pid"), os.getpid()}:
            signalled = _signal_if_open(pid, self.folder / "lock", number) or signalled
        return signalled

    def _reserve(self, *names: str) -> None:
        """Reserve disk space for the shim's records, so that on a full disk already the starter fails and can report
        it.
        """
        for name in names:
            (self.folder / f"{name}.part").write_bytes(b" " * shim.EXIT_RECORD_BYTES)

    def _write(self, name: str, record: dict[str, Any]) -> None:
        part = self.folder / f"{name}.part"
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        part.rename(self.folder / name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            content = (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None
        record: dict[str, Any] = json.loads(content)
        return record

    @contextlib.contextmanager
    def _lock_if_free(self) -> Iterator[bool]:
        with contextlib.ExitStack() as stack:
            try:
                is_free = stack.enter_context(locked_if_free(self.folder / "lock"))
            except FileNotFoundError:  # the spool was removed
                is_free = True
            yield is_free


def spools_below(folder: Path) -> list[Spool]:
    """All spools in a folder and its subfolders."""
    # Unlike a glob, a walk tolerates that others remove folders at the same time.
    return [Spool(Path(path)) for path, _, files in os.walk(folder) if "command.json" in files]


def remove_spools(folder: Path) -> None:
    """Remove a folder with all spools in it."""
    for spool in spools_below(folder):
        spool.remove()
    remove_tree(folder)


def _widen(pipe: int) -> None:
    """Enlarge a pipe, so that engine and reader switch less often; the system may refuse."""
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _command_record(command: Command, *, gives_way: bool = False) -> dict[str, Any]:
    return {
        "argv": list(command.argv),
        "environment": dict(command.environment),
        "secret_names": sorted(command.secrets),
        "working_directory": command.working_directory,
        "most_output": command.most_output,
        "nice": niceness(gives_way=gives_way),
        "io_priority": io_priority_command(),
        "guard": command.guard.record() if command.guard else None,
        "script": command.script.record() if command.script else None,
    }


def _processes_with_open(file: Path) -> set[int]:
    """Processes that have this file open, as far as this process can see them."""
    pids = {int(entry.name) for entry in Path("/proc").glob("[0-9]*")}
    return {pid for pid in pids if _has_open(pid, file)}


def _has_open(pid: int, file: Path) -> bool:
    try:
        wanted = file.stat()
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    return any(_is_same_file(descriptor, wanted) for descriptor in descriptors)


def _is_same_file(link: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(link.stat(), wanted)
    except OSError:
        return False


def _signal_if_open(pid: int, file: Path, number: signal.Signals) -> bool:
    """Signal a process if it has the file open. Its descriptor is opened first, so that a reused pid is never
    signalled.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, AttributeError):
        return False
    try:
        if not _has_open(pid, file):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


class Child:
    """The shim as a child of this process; waiting ends as soon as the shim does."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._descriptor = _open_pidfd(process.pid)

    def wait(self, seconds: float) -> bool:
        """Wait up to the given time; True once the shim has ended."""
        if self._descriptor is not None:
            poller = select.poll()
            poller.register(self._descriptor, select.POLLIN)
            if not poller.poll(seconds * 1000):
                return False
            self._process.wait()
            os.close(self._descriptor)
            self._descriptor = None
            return True
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    def __del__(self) -> None:
        if self._descriptor is not None:  # nobody waits for the shim any more
            os.close(self._descriptor)


class Adopted:
    """An engine started by another process; only its spool shows when it has ended."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._spool.is_alive():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            time.sleep(min(0.1, remaining))
        return True


def _open_pidfd(pid: int) -> int | None:
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        descriptor: int = opener(pid)
    except OSError:
        return None
    return descriptor
