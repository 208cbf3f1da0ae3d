"""The feeder: runs an engine that reads database dumps from named pipes, and starts each dump when the engine opens its
pipe.

Run under the shim, in its spool folder, as ``python -I -S feed.py SPEC`` with a JSON object (see ``dumps.feeding``). It
imports only the standard library and also runs on ssh machines, under Python 3.9 or newer.

For the engine, the end of a pipe is the end of a file, so a dump that breaks off would look complete. The feeder
therefore closes a pipe only after its dump has exited with 0 and, if the format has one, its end mark was seen.
Otherwise it stops the engine, which then creates no archive. A second process, the holder, also keeps each pipe open:
if the feeder is killed, the holder kills the engine before the pipe is closed.

``dump-N.json``, synced before pipe N is closed, records how the dump ended, its size and its SHA-256. Without these
records, an archive does not count. If the dump includes tables outside its transaction, the record names some of them.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLOCK_BYTES = 1024 * 1024
TAIL_BYTES = 4096
LOOK_SECONDS = 0.01
GRACE_SECONDS = 30.0
"""Time from SIGTERM to SIGKILL for an engine whose dump has failed."""
PIPES = "pipes"
FAILED = 2
DONE = b"."
PROGRAM = "{program}"
"""Placeholder in a dump's arguments for the first of its ``programs`` that is installed here."""
MOST_TABLES = 10
"""Maximum number of tables that are named; the rest are only counted."""
NOTHING = {"exit_code": None, "signal": None, "start_error": None, "bytes": 0, "sha256": None}
NOTHING |= {"end_seen": False, "engine_gone": False}


def write_synced(name: str, content: bytes) -> None:
    """Write a file atomically and durably."""
    descriptor = os.open(name + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, content)
    os.fsync(descriptor)
    os.close(descriptor)
    os.rename(name + ".part", name)  # noqa: PTH104
    folder = os.open(".", os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def take_secrets(names: list[str]) -> dict[str, str]:
    """Read the passwords from the pipes that the shim opened, so that neither the engine nor other dumps receive
    them.
    """
    found = {}
    for name in names:
        descriptor = int(os.environ.pop(name))
        received = b""
        while block := os.read(descriptor, 65536):
            received += block
        os.close(descriptor)
        found[name] = received.decode("utf-8", "surrogateescape")
    return found


def lock_descriptor() -> list[int]:
    """The descriptor of the spool's lock; a process that holds it counts as alive."""
    lock = os.stat("lock")  # noqa: PTH116
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            if os.path.samestat(os.fstat(int(name)), lock):
                return [int(name)]
        except OSError:
            continue
    return []


class Feeder:
    def __init__(self, spec: dict[str, Any]) -> None:
        self._dumps: list[dict[str, Any]] = spec["dumps"]
        self._secrets = take_secrets([dump["secret"] for dump in self._dumps if dump.get("secret")])
        self._lock = lock_descriptor()
        self._stopping = self.dump_failed = False
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        os.makedirs(PIPES, 0o700, exist_ok=True)  # noqa: PTH103
        for dump in self._dumps:
            os.mkfifo(self._path(dump), 0o600)
        # Descriptors stay open: the engine inherits the lock and its passphrase, and nothing that was opened here.
        self._engine = subprocess.Popen(spec["engine"], cwd=PIPES, close_fds=False)

    def _path(self, dump: dict[str, Any]) -> str:
        return f"{PIPES}/{dump['file']}"

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def run(self) -> int:
        """Feed all dumps; return the engine's exit code, or the negative number of the signal that ended it.

        The result is 0 only if every dump is complete.
        """
        for number, dump in enumerate(self._dumps, 1):
            pipe = self._wait_for_reader(self._path(dump))
            if pipe is None:
                return self._engine.wait() or FAILED  # it ended before it read this one
            if not self._feed(number, dump, pipe):
                return self._engine.wait() or FAILED
        return self._engine.wait()

    def _wait_for_reader(self, path: str) -> int | None:
        """Open a pipe as soon as the engine reads it. Return None if the engine ends first."""
        while True:
            try:
                pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
            else:
                os.set_blocking(pipe, True)
                widen(pipe)
                return pipe
            if self._engine.poll() is not None:
                return None
            time.sleep(LOOK_SECONDS)

    def _feed(self, number: int, dump: dict[str, Any], pipe: int) -> bool:
        """Run one dump into its pipe; close the pipe only if the dump is complete."""
        holder, control = hold(pipe, self._engine.pid)
        ended = self._copy(dump, pipe)
        is_complete = ended["exit_code"] == 0 and ended["end_seen"] and not ended["engine_gone"] and not self._stopping
        record = {"name": dump["name"], "file": dump["file"], "complete": is_complete, **ended}
        if tables := record.pop("tables"):
            record["inconsistent"] = {"tables": tables[:MOST_TABLES], "count": len(tables)}
        write_synced(f"dump-{number}.json", json.dumps(record).encode())
        if not is_complete:
            if not ended["engine_gone"]:
                self.dump_failed = not self._stopping
                self._stop_engine()
            os.close(pipe)
            os.write(control, DONE)
            os.waitpid(holder, 0)
            return False
        os.write(control, DONE)
        os.waitpid(holder, 0)
        os.close(pipe)
        os.close(control)
        return True

    def _copy(self, dump: dict[str, Any], pipe: int) -> dict[str, Any]:
        digest, size, tail, engine_gone = hashlib.sha256(), 0, b"", False
        try:
            child = self._start(dump)
        except OSError as error:
            sys.stderr.write(f"{dump['name']}: {error.strerror}\n")
            return {**NOTHING, "start_error": error.strerror, "tables": []}
        tables = NonTransactionalTables(dump["transactional"]) if dump.get("transactional") else None
        assert child.stdout is not None
        source = child.stdout.fileno()
        widen(source)
        while block := os.read(source, BLOCK_BYTES):
            try:
                write_all(pipe, block)
            except BrokenPipeError:
                engine_gone = True
                child.kill()
                break
            digest.update(block)
            if tables is not None:
                tables.scan(block)
            size += len(block)
            tail = block[-TAIL_BYTES:] if len(block) >= TAIL_BYTES else (tail + block)[-TAIL_BYTES:]
        child.stdout.close()
        code = child.wait()
        mark = dump.get("end_mark")
        return {
            "exit_code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "start_error": None,
            "bytes": size,
            "sha256": digest.hexdigest(),
            "end_seen": mark is None or mark.encode() in tail,
            "engine_gone": engine_gone,
            "tables": list(tables.found) if tables is not None else [],
        }

    def _start(self, dump: dict[str, Any]) -> subprocess.Popen[bytes]:
        environment, passed = dict(dump["environment"]), list(self._lock)
        argv = with_program(dump["argv"], dump.get("programs") or [], environment["PATH"])
        secret = self._secrets.get(dump.get("secret") or "")
        reading = None
        if secret is not None and dump.get("secret_variable"):
            environment[dump["secret_variable"]] = secret
        if "{options}" in " ".join(argv):
            reading, writing = os.pipe()
            os.write(writing, options_file(dump.get("options") or {}, secret))
            os.close(writing)
            passed.append(reading)
            argv = [argument.replace("{options}", f"/dev/fd/{reading}") for argument in argv]
        try:
            return subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, pass_fds=passed
            )
        finally:
            if reading is not None:
                os.close(reading)

    def _stop_engine(self) -> None:
        """Stop the engine while its pipe is still open, so that it never mistakes a broken dump for a complete file."""
        self._engine.terminate()
        try:
            self._engine.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._engine.kill()
            self._engine.wait()


class NonTransactionalTables:
    """Finds tables in a dump of MySQL or MariaDB whose storage engine does not support transactions.

    Dumps escape line breaks in values, so a line that looks like a definition is never data. Definitions of routines
    may contain anything; they come after all tables and are not examined.
    """

    LINES = re.compile(
        rb"\n(?:CREATE TABLE `((?:[^`\n]|``)+)` \(|\) ENGINE=(\w+)(?=[ ;])([^\n]*)(?=\n)|-- Dumping (?:routines|events) for )"  # noqa: E501
    )
    LONGEST = 4096
    """Number of bytes at the end of a block that are examined again with the next block."""

    def __init__(self, transactional: list[str]) -> None:
        self._engines = {engine.lower() for engine in transactional}
        self._rest = b"\n"
        self._table: str | None = None
        self._at_end = False
        self.found: dict[str, None] = {}

    def scan(self, block: bytes) -> None:
        if self._at_end:
            return
        text = self._rest + block
        for line in self.LINES.finditer(text):
            table, engine, options = line.groups()
            if table is not None:
                self._table = table.replace(b"``", b"`").decode("utf-8", "replace")
            elif engine is None:
                self._at_end = True
                return
            elif self._table is not None and not options.endswith(b"*/;"):  # otherwise a placeholder for a view
                if engine.decode().lower() not in self._engines:
                    self.found[self._table] = None
                self._table = None
        self._rest = text[-self.LONGEST :]


def hold(pipe: int, engine: int) -> tuple[int, int]:
    """Start the holder of an open pipe. It ends on request; if the feeder dies first, it kills the engine."""
    del pipe  # the forked process inherits it
    descriptor = os.pidfd_open(engine) if hasattr(os, "pidfd_open") else None
    listening, control = os.pipe()
    holder = os.fork()
    if holder:
        os.close(listening)
        if descriptor is not None:
            os.close(descriptor)
        return holder, control
    try:
        os.close(control)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if os.read(listening, 1) != DONE:
            if descriptor is not None:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            else:
                os.kill(engine, signal.SIGKILL)
    finally:
        os._exit(0)


def with_program(argv: list[str], names: list[str], path: str) -> list[str]:
    """Insert the program that is installed here. Raise FileNotFoundError if there is none."""
    if not names:
        return list(argv)
    places = (f"{folder}/{name}" for name in names for folder in path.split(":"))
    program = next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)  # noqa: PTH113
    if program is None:
        raise FileNotFoundError(errno.ENOENT, f"{names[0]} is not installed on this machine")
    return [program if argument == PROGRAM else argument for argument in argv]


def options_file(options: dict[str, str], password: str | None) -> bytes:
    """Content of an option file, which the clients of MySQL and MariaDB read through a pipe instead of arguments."""
    wanted = {**options, **({"password": password} if password is not None else {})}
    lines = [f'{name}="{quoted(value)}"' for name, value in wanted.items()]
    return ("[client]\n" + "\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def quoted(value: str) -> str:
    """Escape a value for the double quotes of an option file."""
    return value.replace("\\", "\\\\").replace('"', '\\"')


def write_all(pipe: int, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[os.write(pipe, view) :]


def widen(pipe: int) -> None:
    """Enlarge a pipe, so that its two sides switch less often; the system may refuse."""
    try:
        fcntl.fcntl(pipe, getattr(fcntl, "F_SETPIPE_SZ", 1031), BLOCK_BYTES)
    except OSError:
        return


def main() -> int:
    feeder = Feeder(json.loads(sys.argv[1]))
    code = feeder.run()
    if code < 0 and not feeder.dump_failed:  # end as the engine did, so that the parent sees it
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return FAILED if feeder.dump_failed else code


if __name__ == "__main__":
    sys.exit(main())
