"""The far side of a run: starts the shim on this machine and streams the engine's output while the connection lasts.

Copied to the machine together with ``shim.py`` and the programs that the shim runs, and started there over ssh as
``python3 -I -S remote_run.py``. It imports only the standard library and must run under Python 3.9.

The first line on standard input is the request. Later lines are single words: ``TERM`` and ``KILL`` are sent as signals
to the engine's process group, ``DONE`` means that everything was received and the run can be forgotten, ``HERE`` is a
sign of life. The connection counts as lost at the end of the input or after ``silence_seconds`` (part of the request)
without input, because a cut network sends no notice. The engine then continues, and its spool can be followed again.

Answers are frames (one letter, eight bytes of length, content) after a mark that separates them from the output of the
account's login shell: ``h`` hello, ``e`` and ``o`` the engine's streams from the requested offsets on, ``x`` how the
engine ended. With ``piped``, the output is not stored on this machine, and the engine stops when its reader is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import runpy
import select
import shutil
import signal
import struct
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # loading it takes almost half as long as starting Python
    from collections.abc import Callable
    from typing import Any

FRAME = struct.Struct(">cQ")
MARK = b"\0holdfast frames\0"
BLOCK = 256 * 1024
LOOK_SECONDS = 0.2
KEPT_SECONDS = 7 * 24 * 3600.0
"""How long the record of a run is kept if nobody fetches it."""
HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = os.path.join(os.path.dirname(HERE), "runs")
FORGOTTEN = os.path.join(os.path.dirname(HERE), "forgotten")
"""A file for each run that was removed before its output was fetched. Such a run must never be started again."""
RESERVED = ("started.json", "engine.json", "exit.json")
RESERVED_BYTES = 4096
LARGEST_REQUEST = 8 * 1024 * 1024
"""More than a command's arguments and secrets can take."""
LARGEST_WORD = 64 * 1024
SIGNALS = {b"TERM": signal.SIGTERM, b"KILL": signal.SIGKILL}


class TooMuchSaid(Exception):
    """The other side sends more than a request or a word can be."""


class NobodyIsThere(Exception):
    """The other side has been silent for too long to still be connected."""


def main() -> int:
    os.umask(0o077)
    control = ControlInput()
    frames = Frames(control)
    frames.begin()
    request = control.request()
    if request is None:
        return 0
    control.silence_seconds = request.get("silence_seconds")
    forget_old_runs(besides=request["run"])
    run = Run(os.path.join(RUNS, request["run"]))
    if request["must_exist"] and not run.was_started():
        frames.send_end({"state": "interrupted"})  # forgotten after everything was sent once
        return 0
    try:
        pipe = run.start(request)
    except OSError as error:
        frames.send_end({"state": "not_started", "words": str(error)})
        return 0
    if pipe is False:
        frames.send_end({"state": "not_started", "words": "the shim ended at once"})
    elif not run.follow(control, frames, request, pipe):
        return 0
    if control.wait_for_done():
        shutil.rmtree(run.folder, ignore_errors=True)
    return 0


class Frames:
    """Writes frames to standard output."""

    def __init__(self, control: ControlInput) -> None:
        self._control = control

    def begin(self) -> None:
        os.write(1, MARK + FRAME.pack(b"h", 0))
        os.set_blocking(1, False)  # even while a write blocks, words and a closed connection must be noticed

    def send(self, letter: bytes, content: bytes) -> None:
        data = memoryview(FRAME.pack(letter, len(content)) + content)
        while data:
            self._control.receive()
            try:
                data = data[os.write(1, data) :]
            except BlockingIOError:
                select.select([], [1], [], LOOK_SECONDS)

    def send_end(self, end: dict[str, Any]) -> None:
        self.send(b"x", json.dumps(end).encode())


class ControlInput:
    """Reads words from standard input."""

    silence_seconds: float | None = None

    def __init__(self) -> None:
        self._received = b""
        self._heard_at = time.monotonic()
        self._signals: list[bytes] = []
        self._is_done = False
        self.send_signal: Callable[[bytes], bool] = lambda _: False
        """Sends the signal named by a word. Returns False if the engine has not started yet."""
        self.ended = False

    def request(self) -> dict[str, Any] | None:
        parts = [self._received]
        while b"\n" not in parts[-1] and not self.ended:
            self._received = b""
            self._read()
            parts.append(self._received)
            require_at_most(LARGEST_REQUEST, sum(map(len, parts)))
        if b"\n" not in parts[-1]:
            return None
        line, self._received = b"".join(parts).split(b"\n", 1)
        request: dict[str, Any] = json.loads(line)
        return request

    def receive(self) -> None:
        """Process the words that have arrived, without waiting. Raise NobodyIsThere after too long a silence."""
        while not self.ended and select.select([0], [], [], 0)[0]:
            self._read()
            require_at_most(LARGEST_WORD + BLOCK, len(self._received))
        *words, self._received = self._received.split(b"\n")
        self._is_done = self._is_done or b"DONE" in words
        signals = (*self._signals, *(word for word in words if word in SIGNALS))
        self._signals = [word for word in signals if not self.send_signal(word)]
        if self.silence_seconds is not None and time.monotonic() - self._heard_at > self.silence_seconds:
            raise NobodyIsThere

    def wait_for_done(self) -> bool:
        self.receive()
        while not self._is_done and not self.ended:
            select.select([0], [], [], 60)
            self.receive()
        return self._is_done

    def _read(self) -> None:
        block = os.read(0, BLOCK)
        self._received += block
        self._heard_at = time.monotonic()
        self.ended = not block


def require_at_most(most: int, size: int) -> None:
    if size > most:
        raise TooMuchSaid


class Run:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._forgotten = os.path.join(FORGOTTEN, os.path.basename(folder))

    def was_started(self) -> bool:
        return self._has("started.json") or os.path.exists(self._forgotten)

    def start(self, request: dict[str, Any]) -> int | bool | None:
        """Start the shim unless it was started before.

        Return False if it cannot be started, or the output's pipe if one was requested.
        """
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        os.utime(self.folder)  # while this process follows the run, others must not take it for an old one
        starting = os.open(self._file("starting"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(starting, fcntl.LOCK_EX)
        try:
            if self.was_started() or not self.is_free():
                return None
            return self._launch(request)
        finally:
            os.close(starting)

    def _launch(self, request: dict[str, Any]) -> int | bool | None:
        for name in RESERVED:
            self._write(name + ".part", b" " * RESERVED_BYTES)
        self._write("command.json", json.dumps(here(request["command"])).encode())
        reading, writing = os.pipe()
        output = os.pipe() if request["piped"] else None
        passed = (reading,) if output is None else (reading, output[1])
        shim = subprocess.Popen(
            [sys.executable, "-I", "-S", os.path.join(HERE, "shim.py"), self.folder, *map(str, passed)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=passed,
        )
        for descriptor in passed:
            os.close(descriptor)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(request["secrets"]).encode() + b"\n")
        while not self.was_started():  # however long it takes: a shim that starts late must not run unobserved
            if shim.poll() is not None and not self.was_started():
                return False
            time.sleep(0.01)
        return output[0] if output else None

    def follow(self, control: ControlInput, frames: Frames, request: dict[str, Any], pipe: int | None) -> bool:
        """Stream the engine's output until the engine has ended. Return False if the connection ended first."""
        control.send_signal = self._signal
        streams = [Stream(frames, self._file("err"), b"e", request["err"])]
        if not request["piped"]:
            streams.append(Stream(frames, self._file("out"), b"o", request["out"]))
        while True:
            free = pipe is None and self.is_free()
            for stream in streams:
                stream.send_new()
            if free:
                frames.send_end(self._end())
                return True
            control.receive()
            if control.ended:
                return False
            ready = select.select([0] if pipe is None else [0, pipe], [], [], LOOK_SECONDS)[0]
            if pipe in ready:
                block = os.read(pipe, BLOCK)
                if block:
                    frames.send(b"o", block)
                else:
                    pipe = None

    def _end(self) -> dict[str, Any]:
        try:
            with open(self._file("exit.json"), "rb") as file:
                record = json.load(file)
        except FileNotFoundError:
            return {"state": "interrupted"}
        # Sent as an age, since the clocks of the two machines may differ.
        end = {"state": "exited", "record": record, "ended_seconds_ago": time.time() - record["finished_at"]}
        return {**end, "dumps": dumps} if (dumps := self._dumps()) else end

    def _dumps(self) -> list[Any]:
        """The feeder's records in the order of the dumps. Without them, an archive of dumps does not count."""
        found: list[Any] = []
        while self._has(f"dump-{len(found) + 1}.json"):
            with open(self._file(f"dump-{len(found) + 1}.json"), "rb") as file:
                found.append(json.load(file))
        return found

    def is_free(self) -> bool:
        """Whether all processes of the run have ended."""
        descriptor = os.open(self._file("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def forget(self) -> None:
        """Remove everything except the fact that the run was started. From then on, it counts as interrupted."""
        os.makedirs(FORGOTTEN, mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._file("exit.json"))  # first: without it, what is left cannot be taken for a complete run
        with contextlib.suppress(FileNotFoundError):
            os.rename(self._file("started.json"), self._forgotten)
        sync_folder(FORGOTTEN)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _signal(self, word: bytes) -> bool:
        """Send the signal named by a word to the engine's process group, unless the engine has ended. Return False if
        it has not started yet.
        """
        try:
            with open(self._file("engine.json"), "rb") as record:
                engine = json.load(record)
        except FileNotFoundError:
            return False
        # If the engine itself has ended, its number can only name what is left of its group, or a stranger.
        if not self.is_free() and process_start_time(engine["pid"]) in (None, engine["start_time"]):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(engine["pid"], SIGNALS[word])
        return True

    def _has(self, name: str) -> bool:
        return os.path.exists(self._file(name))

    def _file(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _write(self, name: str, content: bytes) -> None:
        part = self._file(name + ".new")
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self._file(name))


class Stream:
    """A growing file whose content is sent in frames from an offset on."""

    def __init__(self, frames: Frames, path: str, letter: bytes, offset: int) -> None:
        self._frames = frames
        self._path = path
        self._letter = letter
        self._offset = offset

    def send_new(self) -> None:
        if not os.path.exists(self._path):
            return
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            while block := file.read(BLOCK):
                self._frames.send(self._letter, block)
                self._offset += len(block)


def here(command: dict[str, Any]) -> dict[str, Any]:
    """Adapt a command to this machine: home folder, local programs, and the way to lower a process's I/O priority."""
    program, *arguments = command["argv"]
    argv = [os.path.expanduser(program), *arguments]
    if command.get("narrows"):
        argv = narrowed(argv)
    if command.get("feeder"):
        spec = {"engine": argv, **command["feeder"]}
        argv = [sys.executable, "-I", "-S", os.path.join(HERE, "feed.py"), json.dumps(spec)]
    guard = command.get("guard")
    ionice = shutil.which("ionice")
    return {
        **command,
        "argv": argv,
        "guard": guard and {**guard, "program": os.path.expanduser(guard["program"])},
        "environment": {
            name: os.path.expanduser(value) if value.startswith("~/") else value
            for name, value in command["environment"].items()
        },
        "io_priority": [ionice, "-c", "2", "-n", "7", "-p"] if ionice else [],
    }


def narrowed(argv: list[str]) -> list[str]:
    """Run the engine through `narrowed.py` under its own Python, if it has one: see ``chunks.commands``."""
    interpreter_of = runpy.run_path(os.path.join(HERE, "remote_helper.py"))["interpreter_of"]
    python = interpreter_of(argv[0])
    return argv if python is None else [*python, os.path.join(HERE, "narrowed.py"), *argv]


def process_start_time(pid: int) -> str | None:
    """The same as in the shim."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rsplit(b")", 1)[1].split()[19].decode()
    except (OSError, IndexError):
        return None


def sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def forget_old_runs(besides: str) -> None:
    """Remove the runs that have ended and that nobody has asked for in a long time, except the one to follow now."""
    now = time.time()
    try:
        names = os.listdir(RUNS)
    except FileNotFoundError:
        return
    for name in names:
        run = Run(os.path.join(RUNS, name))
        with contextlib.suppress(OSError):
            if name != besides and now - os.stat(run.folder).st_mtime > KEPT_SECONDS and run.is_free():
                run.forget()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BrokenPipeError, NobodyIsThere):
        os._exit(0)
    except TooMuchSaid:
        os._exit(2)
