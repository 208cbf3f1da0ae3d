"""The shim: the parent of one engine process, detached from the process that started it.

Run as ``python -I -S shim.py SPOOL SECRETS_FD [OUTPUT_FD]``. It imports only the standard library and
``repository_guard.py`` from its own folder, so that it starts in milliseconds and can be copied to another machine as
two files.

The spool folder is the single source of truth about the run, and whoever holds its ``lock`` decides about it:

========================  =====================================================================================
``command.json``          argv, environment, names of secrets (never their values); written before the shim starts
``lock``                  flock held by the shim and inherited by the engine; if it is free, neither is alive
``abandoned``             written under the lock by a process that found nothing started: the run must never start
``started.json``          written and synced before the engine is forked: from here on it may have run
``engine.json``           written by the engine's process before exec: its pid (= process group) and start time
``out`` ``err``           the engine's streams
``exit.json``             how the engine ended; appears by rename, after fsync
========================  =====================================================================================

With OUTPUT_FD, a pipe, the engine's output goes there and there is no ``out``. The shim keeps the pipe open until it
has written ``exit.json``, so that at the end of the stream the reader knows how the engine ended. When the pipe no
longer has a reader, the shim stops the engine.

``most_output`` in the command limits the bytes in ``out`` and in ``err``. An engine that writes more is stopped, and
the run ends with an error that gives this reason.

``script`` in the command runs a user's script instead of an engine. Its text becomes a file in the spool folder, whose
path replaces position ``at`` in argv. It runs in the folder ``work``, both of its streams go to ``out``, and it is
stopped after ``seconds``. When it has ended, its process group is ended too; a daemon that left the group is let go,
and the lock is released.
"""

from __future__ import annotations  # it also runs under the Python of other machines, which may be 3.9

import errno
import fcntl
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module of that name takes longer to load than all others together
    import signal
    from typing import Any
else:
    try:
        import _signal as signal  # without the enumerations of `signal`, which take longer to load than the interpreter
    except ImportError:
        import signal

EXIT_RECORD_BYTES = 4096
NOT_STARTED = 75
GRACE_SECONDS = 30.0
"""Time from SIGTERM to SIGKILL for an engine whose output has no reader left, or that has written too much."""
LOOK_SECONDS = 0.2
TOO_MUCH_OUTPUT = "Shim.TooMuchOutput"
FAILED = 2
SCRIPT_FILE = "script"
SCRIPT_FOLDER = "work"


class Rules:
    """What the parser of `json` is configured with."""

    strict = True
    object_hook = object_pairs_hook = parse_constant = None
    parse_float, parse_int = float, int


def from_json(content: bytes) -> Any:
    """The same as `json.loads`, by its part in C: loading `json` itself, with regular expressions, takes as long as
    starting Python. If anything is unusual, `json` decides.
    """
    try:
        from _json import make_scanner

        text = content.decode()
        value, end = make_scanner(Rules)(text, 0)  # type: ignore[arg-type]
        if not text[end:].strip():
            return value
    except Exception:  # noqa: BLE001, S110 -- `json` reads it or reports what is wrong
        pass
    import json

    return json.loads(content)


def to_json(record: dict[str, Any]) -> bytes:
    """The same as `json.dumps`, without loading `json`."""
    try:
        from _json import encode_basestring_ascii, make_encoder

        encode = make_encoder(None, None, encode_basestring_ascii, None, ": ", ", ", False, False, True)  # type: ignore[arg-type]
        return "".join(encode(record, 0)).encode()
    except Exception:  # noqa: BLE001
        import json

        return json.dumps(record).encode()


def write_synced(name: str, content: bytes) -> None:
    """Write a file atomically and durably."""
    part = name + ".part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT, 0o600)
    os.pwrite(descriptor, content, 0)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)
    os.close(descriptor)
    os.rename(part, name)  # noqa: PTH104 -- pathlib would double the start-up time
    sync_folder()


def sync_folder() -> None:
    descriptor = os.open(".", os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def reserve_exit_record() -> None:
    """Reserve disk space for the exit record, so that a full disk cannot hide how the engine ended."""
    descriptor = os.open("exit.json.part", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, b" " * EXIT_RECORD_BYTES)
    os.close(descriptor)


def read_secrets(descriptor: int) -> dict[str, dict[str, str]] | None:
    """Read all secrets. Return None if the starter went away before it had sent them all."""
    received = b""
    while block := os.read(descriptor, 65536):
        received += block
    os.close(descriptor)
    if not received.endswith(b"\n"):
        return None
    secrets: dict[str, dict[str, str]] = from_json(received)
    return secrets


def secret_environment(secrets: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the variables that carry the secrets; open a pipe for each secret delivered by descriptor."""
    variables = {}
    for name, secret in secrets.items():
        value = secret["value"]
        if secret["delivery"] == "environment":
            variables[name] = value
            continue
        reading, writing = os.pipe()
        os.write(writing, value.encode("utf-8", "surrogateescape"))
        os.close(writing)
        os.set_inheritable(reading, True)
        variables[name] = str(reading)
    return variables


def process_start_time(pid: int) -> str | None:
    """The kernel's start time of a process; together with the pid, it identifies the process uniquely."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 -- pathlib would double the start-up time
            return stat.read().rsplit(b")", 1)[1].split()[19].decode()
    except (OSError, IndexError):
        return None


def enter(directory: bytes) -> None:
    """Change to a folder owned by this user, without following symbolic links: others may have changed the path since
    it was checked.

    The root folder belongs to the system, and nobody can replace it.
    """
    through = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        here = os.open("/", through)
        parts = [part for part in directory.split(b"/") if part]
        for part in parts:
            below = os.open(part, through, dir_fd=here)
            os.close(here)
            here = below
        if parts and os.fstat(here).st_uid != os.geteuid():
            raise PermissionError("it belongs to another user")
        os.fchdir(here)
        os.close(here)
    except OSError as error:
        # Not the original error number, which would read as if the engine's program could not be reached.
        raise OSError(errno.EPERM, f"cannot enter the folder to work in: {error}") from error


def guard_module() -> Any:
    """Import the module next to this file. The folder is searched last, so no file in it replaces a module of
    Python.
    """
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    if folder not in sys.path:
        sys.path.append(folder)
    return __import__("repository_guard")


def become_engine(
    command: dict[str, Any],
    environment: dict[str, str],
    probe_environment: dict[str, str] | None,
    lock: int,
    report: int,
    output: int | None,
) -> None:
    """Turn this forked child into the engine.

    Never returns: after any failure, the child must not continue as a second shim.
    """
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.set_inheritable(lock, True)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open("out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if output is None else output, 1)
        script = command.get("script")
        os.dup2(1 if script else os.open("err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
        identity = {"pid": os.getpid(), "start_time": process_start_time(os.getpid())}
        write_synced("engine.json", to_json(identity))
        argv = command["argv"]
        arguments = [os.fsencode(argument) for argument in argv]
        if script:
            arguments[script["at"]] = laid_down(script)
            environment.setdefault("HOME", home_folder())
        guard = command.get("guard")
        if guard:
            make_sure(guard, environment, probe_environment)
        directory = command.get("working_directory")
        if directory:
            enter(os.fsencode(str(directory)))
        os.execvpe(arguments[0], arguments, environment)
    except OSError as error:
        os.write(report, f"{error.errno or 0} {error.strerror}: {error.filename!r}".encode("utf-8", "replace"))
    except Exception as error:  # noqa: BLE001 -- on any error, the child must not continue
        os.write(report, f"{errno.EINVAL} {error}".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def laid_down(script: dict[str, Any]) -> bytes:
    """Write a script to a file in this folder and return its path.

    From then on, the process works in a folder for the script.
    """
    if script.get("content") is None:
        path = os.fsencode(str(script["path"]))
    else:
        path = os.getcwdb() + b"/" + os.fsencode(SCRIPT_FILE)  # noqa: PTH109
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
        content = memoryview(os.fsencode(script["content"]))
        while content:
            content = content[os.write(file, content) :]
        os.close(file)
    os.mkdir(SCRIPT_FOLDER, 0o700)  # noqa: PTH102
    os.chdir(SCRIPT_FOLDER)
    return path


def home_folder() -> str:
    import pwd  # only here: imports at the top slow down every run

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir or "/"
    except KeyError:
        return "/"


def make_sure(guard: dict[str, Any], environment: dict[str, str], probe_environment: dict[str, str] | None) -> None:
    """Prepare the run, or end it in place of the engine with the reason for the refusal."""
    module = guard_module()
    try:
        module.prepare(guard, environment, probe_environment)
    except module.Refused as refusal:
        os.write(2, refusal.lines)
        os._exit(refusal.code)


def concluded(guard: dict[str, Any], environment: dict[str, str], code: int) -> int:
    """Return the exit code of the run, given that of the engine."""
    added = guard_module().conclude(guard, environment, code)
    if added is None:
        return code
    errors = os.open("err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(errors, added.lines)
    os.close(errors)
    ended: int = added.code
    return ended


def give_way_to_other_sessions(niceness: int) -> None:
    """Apply the engine's niceness to this session too.

    If the kernel divides the processor between sessions (autogroups), the niceness of a process counts only inside its
    session: each engine would get as much as the whole service. From users other than root, the kernel accepts only one
    such change per tenth of a second in total, so it may fail for some engines.
    """
    if not niceness or os.getsid(0) != os.getpid():
        return  # otherwise another process's session would change
    try:
        group = os.open("/proc/self/autogroup", os.O_WRONLY)
    except OSError:
        return
    try:
        os.write(group, str(niceness).encode())
    except OSError:
        return
    finally:
        os.close(group)


def lower_io_priority(command: dict[str, object], pid: int) -> None:
    """Run ``ionice`` next to the engine, not in front of it: a failure must neither fail nor delay the run."""
    program = command.get("io_priority")
    if isinstance(program, list) and program:
        try:
            os.posix_spawn(program[0], [*program, str(pid)], {}, file_actions=[(os.POSIX_SPAWN_CLOSE, 2)])
        except OSError:
            return


def wait_while_read(child: int, output: int) -> tuple[int, float, int]:
    """Wait for the engine, and stop its process group when its output no longer has a reader."""
    import select  # only here: imports at the top slow down every run

    poller = select.poll()
    poller.register(output, 0)  # a pipe without a reader always reports an error
    if hasattr(os, "pidfd_open"):
        poller.register(os.pidfd_open(child), select.POLLIN)
    stopped_at = None
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            return status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss
        nobody_reads = any(descriptor == output for descriptor, _ in poller.poll(200))
        if nobody_reads and stopped_at is None:
            stopped_at = time.monotonic()
            poller.unregister(output)
            os.killpg(child, signal.SIGTERM)
        elif stopped_at is not None and time.monotonic() - stopped_at > GRACE_SECONDS:
            os.killpg(child, signal.SIGKILL)


class Limits:
    """Stops an engine that writes too much, or a script that takes too long.

    It checks by a timer, so that code that waits for the process need not.
    """

    def __init__(self, child: int, most: int | None, seconds: float | None = None) -> None:
        self._child = child
        self._most = most
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._stopped_at: float | None = None
        self.timed_out = False

    def begin(self) -> None:
        if self._most is not None or self._deadline is not None:
            signal.signal(signal.SIGALRM, self._look)
            signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)

    def was_exceeded(self) -> bool:
        """Whether too much was written. Called after the engine has ended, so it also notices one that outran the
        timer.
        """
        signal.setitimer(signal.ITIMER_REAL, 0)
        stopped = self._stopped_at is not None and not self.timed_out
        return stopped or (self._most is not None and written() > self._most)

    def _look(self, *_: object) -> None:
        now, size = time.monotonic(), written()
        too_much = self._most is not None and size > self._most
        too_long = self._deadline is not None and now > self._deadline
        if self._stopped_at is None and not too_much and not too_long:
            return
        first = self._stopped_at is None
        if first:
            self._stopped_at, self.timed_out = now, not too_much
        flooding = self._most is not None and size > 2 * self._most
        if first or flooding or now - (self._stopped_at or now) > GRACE_SECONDS:
            end_group(self._child, signal.SIGTERM if first else signal.SIGKILL)


def end_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return


def written() -> int:
    """Size of the larger of the engine's two streams, as far as they are files."""
    size = 0
    for name in ("out", "err"):
        try:
            size = max(size, os.stat(name).st_size)  # noqa: PTH116
        except OSError:
            continue
    return size


def note_too_much(most: int, script: bool = False) -> None:
    """Report why the run failed. The engine's output is then useless, and may be large."""
    if script:
        return  # its output is its log, and is kept up to the limit
    if os.path.exists("out"):  # noqa: PTH110
        os.truncate("out", 0)
    text = f"The engine wrote more than {most} bytes and was stopped."
    line = {"type": "log_message", "time": time.time(), "levelname": "ERROR", "name": "backup_engine.shim"}
    errors = os.open("err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(errors, b"\n" + to_json({**line, "msgid": TOO_MUCH_OUTPUT, "message": text}) + b"\n")
    os.close(errors)


def space_of(path: str) -> dict[str, int]:
    """Free and total bytes where a folder is stored; empty if the system does not report them."""
    try:
        found = os.statvfs(os.fsencode(path))
    except OSError:
        return {}
    return {"free_bytes": found.f_bavail * found.f_frsize, "total_bytes": found.f_blocks * found.f_frsize}


def wait_for_group(leader: int) -> None:
    """Wait until a script has ended, then end what is left in its process group, while the group's number cannot have
    been reused.
    """
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT)
        end_group(leader, signal.SIGKILL)


def wait(child: int) -> tuple[int, float, int]:
    _, status, usage = os.wait4(child, 0)
    return status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def run(command: dict[str, Any], secrets: dict[str, dict[str, str]], lock: int, output: int | None) -> None:
    reserve_exit_record()
    started_at = time.time()
    write_synced("started.json", to_json({"shim_pid": os.getpid(), "started_at": started_at}))
    base, guard = command["environment"], command.get("guard")
    environment, probe_environment = {**base, **secret_environment(secrets)}, None
    if guard and guard_module().needs_probe(guard, output is not None):
        probe_environment = {**base, **secret_environment(secrets)}
    secrets.clear()
    receiving, reporting = os.pipe()
    child = os.fork()
    if child == 0:
        become_engine(command, environment, probe_environment, lock, reporting, output)
    environment.clear()
    os.close(reporting)
    lower_io_priority(command, child)
    exec_error = os.read(receiving, 4096).decode("utf-8", "replace") or None
    script = command.get("script")
    limit = Limits(child, command.get("most_output"), script["seconds"] if script else None)
    limit.begin()
    if script:
        wait_for_group(child)
    status, cpu_seconds, max_rss = wait(child) if output is None else wait_while_read(child, output)
    code = os.waitstatus_to_exitcode(status)
    too_much = limit.was_exceeded()
    if too_much:
        note_too_much(command["most_output"], bool(script))
        code = FAILED
    if guard:
        code = concluded(guard, base, code)
    record = {
        "code": code if code >= 0 else None,
        "signal": -code if code < 0 else None,
        "exec_error": exec_error,
        "started_at": started_at,
        "finished_at": time.time(),
        "cpu_seconds": round(cpu_seconds, 3),
        "max_rss_kib": max_rss,
        **(space_of(guard["path"]) if guard and guard.get("path") else {}),
        **({"timed_out": limit.timed_out, "too_much_output": too_much} if script else {}),
    }
    write_synced("exit.json", to_json(record))
    if script:
        fcntl.flock(lock, fcntl.LOCK_UN)  # its daemons keep the file open, but are not part of the run


def main() -> int:
    os.chdir(sys.argv[1])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    output = int(sys.argv[3]) if len(sys.argv) > 3 else None
    if output is not None:
        os.set_inheritable(output, False)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno != errno.EINTR:
            raise
        return NOT_STARTED
    if any(os.path.lexists(name) for name in ("abandoned", "started.json")):
        return NOT_STARTED
    with open("command.json", "rb") as file:  # noqa: PTH123
        command = from_json(file.read())
    niceness = int(str(command.get("nice") or 0))
    os.nice(niceness)  # the shim too: every engine run starts one
    give_way_to_other_sessions(niceness)
    secrets = read_secrets(int(sys.argv[2]))
    if secrets is None:
        return NOT_STARTED
    run(command, secrets, lock, output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
