"""The far side of a helper: starts a program under the engine's own Python on this machine and passes on what the near
side sends.

Its text is sent over ssh and run as ``python3 -I -S -c TEXT``; it imports only the standard library and must run under
Python 3.9. Standard input carries pieces (four bytes of length, content). The first piece is the request: the path of
the engine's program, the source texts of the program to start, its environment and secrets. Later pieces go to that
program's standard input; an empty piece is a sign of life. Standard output begins with a mark that separates it from
the output of the account's login shell. After the mark come a first answer (one letter, eight bytes of length, JSON)
that identifies the engine's program, and then whatever the started program writes.

The program does not outlive its connection: it is stopped when the input ends, or after ``silence_seconds`` (part of
the request) without a piece, because a cut network sends no notice. Nothing is written to this machine's disk.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time
from typing import Any

PIECE = struct.Struct(">I")
FRAME = struct.Struct(">cQ")
MARK = b"\0holdfast helper\0"
BLOCK = 256 * 1024
LOOK_SECONDS = 0.2
STOP_SECONDS = 10.0
LARGEST_PIECE = 8 * 1024 * 1024
MOST_WAITING = 64 * 1024 * 1024
"""Limit in bytes for data that waits for the started program: more than any request takes."""
LONGEST_FIRST_LINES = 4096
START = """
import sys
if sys.path and sys.path[0] == "":
    sys.path.pop(0)  # no file of the folder it is started in may be taken for a module of the engine
import json, os, types
with os.fdopen(int(sys.argv.pop()), "rb") as pipe:
    texts = json.load(pipe)
for name, text in texts[:-1]:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__file__ = "/" + name
    exec(compile(text, name, "exec"), sys.modules[name].__dict__)
name, text = texts[-1]
exec(compile(text, name, "exec"), {"__name__": "__main__", "__file__": "/" + name})
"""


class Gone(Exception):
    """The other side has ended, was silent for too long, or sends more than any valid request."""


class Pieces:
    """Reads pieces from standard input."""

    def __init__(self) -> None:
        self._received = bytearray()
        self.heard_at = time.monotonic()

    def first(self) -> bytes:
        while (piece := self._next()) is None:
            self._read()
        return piece

    def new(self) -> list[bytes]:
        """Return the pieces received so far, without empty ones. Raise Gone at the end of the input."""
        self._read()
        found = []
        while (piece := self._next()) is not None:
            if piece:
                found.append(piece)
        return found

    def _read(self) -> None:
        block = os.read(0, BLOCK)
        if not block:
            raise Gone
        self.heard_at = time.monotonic()
        self._received += block

    def _next(self) -> bytes | None:
        if len(self._received) < PIECE.size:
            return None
        (size,) = PIECE.unpack_from(self._received)
        if size > LARGEST_PIECE:
            raise Gone
        if len(self._received) < PIECE.size + size:
            return None
        piece = bytes(self._received[PIECE.size : PIECE.size + size])
        del self._received[: PIECE.size + size]
        return piece


def main() -> int:
    os.write(1, MARK)
    pieces = Pieces()
    try:
        request = json.loads(pieces.first())
    except Gone:
        return 0
    program = os.path.expanduser(request["program"])
    python = interpreter_of(program)
    answer(about(program, python))
    if python is None:
        return 1
    child = start(python, request)
    try:
        converse(child, pieces, request["silence_seconds"])
    except Gone:
        pass
    finally:
        stop(child)
    return 0


def answer(value: dict[str, Any]) -> None:
    content = json.dumps(value).encode()
    os.write(1, FRAME.pack(b"J", len(content)) + content)


def about(program: str, python: list[str] | None) -> dict[str, Any]:
    """Identify the program: a different file or a different Python must be tested again."""
    try:
        real = os.path.realpath(program)
        status, interpreter = os.stat(real), os.stat(python[0] if python else real)
    except OSError as error:
        return {"problem": f"the engine's program cannot be read: {error}"}
    if python is None:
        return {"problem": "the engine is a standalone program without its own Python"}
    sizes = (status.st_size, status.st_mtime_ns, interpreter.st_size, interpreter.st_mtime_ns)
    return {"program": " ".join((real, *python, *map(str, sizes)))}


def interpreter_of(program: str) -> list[str] | None:
    """The Python command in the first lines of the engine's program.

    None if there is none, as in a standalone binary.
    """
    try:
        with open(program, "rb") as script:
            head = script.read(LONGEST_FIRST_LINES)
    except OSError:
        return None
    if not head.startswith(b"#!"):
        return None
    lines = os.fsdecode(head).splitlines()
    command = lines[0][2:].split(maxsplit=1)
    if command and os.path.basename(command[0]) == "sh" and len(lines) > 1:
        command = trampoline(lines[1])
    elif command and os.path.basename(command[0]) == "env":
        command = from_environment(command[1:])
    if not command or not os.path.basename(command[0]).startswith(("python", "pypy")):
        return None
    return command


def trampoline(line: str) -> list[str]:
    """Parse `'''exec' /long/path/python "$0" "$@"`, which installers write if the path is too long for a first line."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    return [words[1]] if len(words) > 1 and words[0] == "exec" else []


def from_environment(arguments: list[str]) -> list[str]:
    words = [word for word in " ".join(arguments).split() if not word.startswith("-")]
    found = shutil.which(words[0]) if words else None
    return [found, *words[1:]] if found else []


def start(python: list[str], request: dict[str, Any]) -> subprocess.Popen[bytes]:
    environment = {
        name: os.path.expanduser(value) if value.startswith("~/") else value
        for name, value in request["environment"].items()
    }
    texts, giving = os.pipe()
    passed = [texts]
    for name, secret in request["secrets"].items():
        if secret["delivery"] == "environment":
            environment[name] = secret["value"]
            continue
        reading, writing = os.pipe()
        os.write(writing, secret["value"].encode("utf-8", "surrogateescape"))
        os.close(writing)
        passed.append(reading)
        environment[name] = str(reading)
    child = subprocess.Popen(
        [*python, "-c", START, str(texts)],
        stdin=subprocess.PIPE,
        bufsize=0,
        env=environment,
        pass_fds=passed,
        start_new_session=True,
    )
    for descriptor in passed:
        os.close(descriptor)
    with os.fdopen(giving, "wb") as pipe:
        pipe.write(json.dumps(request["texts"]).encode())
    return child


def converse(child: subprocess.Popen[bytes], pieces: Pieces, silence_seconds: float) -> None:
    """Pass on input until the program has ended. Raise Gone if the other side has ended first."""
    assert child.stdin is not None
    to_child = child.stdin.fileno()
    os.set_blocking(to_child, False)
    waiting = bytearray()
    while child.poll() is None:
        readable, writable, _ = select.select([0], [to_child] if waiting else [], [], LOOK_SECONDS)
        if readable:
            for piece in pieces.new():
                waiting += piece
            if len(waiting) > MOST_WAITING:
                raise Gone
        elif time.monotonic() - pieces.heard_at > silence_seconds:
            raise Gone
        if writable:
            del waiting[: os.write(to_child, waiting[:BLOCK])]


def stop(child: subprocess.Popen[bytes]) -> None:
    """Close the program's input, upon which it ends and removes its lock on the repository; stop it if it does not."""
    assert child.stdin is not None
    child.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, number)
    child.wait()


if __name__ == "__main__":
    signal.signal(
        signal.SIGHUP, signal.SIG_IGN
    )  # the end of the input means the same, and leaves time to stop the program
    try:
        sys.exit(main())
    except BrokenPipeError:
        os._exit(0)
