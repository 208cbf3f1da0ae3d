"""The near side of a call: runs in place of the engine under the local shim, while an agent runs the engine on its
machine.

Run as ``python -I -S agent_call.py REQUEST``. An agent connects to the service, never the other way round. So this
process puts the call and a socket into a folder; the service offers the call to the agent and connects the agent's
stream to the socket: frames of the engine's output, and a last frame that states how the engine ended. This process
writes the same output and ends the same way. If the connection is cut before any output arrived, a call that only reads
waits for the agent once more. After that, a cut ends the call, because output already passed on cannot be repeated.

The file NAME.wanted is locked while this process lives. The agent asks the service before its engine changes anything,
and the service answers yes by renaming the file to NAME.begun. This process gives up by removing the file: if it is
still NAME.wanted, the engine never runs; otherwise it may have run.

It imports only the standard library and nothing of this package: it has to start in milliseconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:  # loading it takes almost half as long as starting Python
    from collections.abc import Iterator
    from typing import Any

HEAD = struct.Struct(">cQ")
OUTPUT, PACKED_OUTPUT, ERRORS, END, HERE = b"o", b"z", b"e", b"x", b"h"
LARGEST_FRAME = 16 * 1024 * 1024
"""Also limits the content of a compressed frame."""
LARGEST_END = 1 << 16
BLOCK = 1 << 18
LOOK_SECONDS = 0.5
SILENT_SECONDS = 120.0
"""An agent sends a sign of life at least every ten seconds."""
NOT_COME = "The agent did not pick up the call; it may be offline, or busy with other requests."
CUT = "The link to the agent was cut before its engine had ended."
UNREACHABLE = 255
"""The exit code that ssh uses."""
CANNOT_READ = 2
ONCE = ("delete_archive", "undelete_archive", "compact")
"""Calls that change a repository are not repeated: the engine may have done its work before the connection was cut."""


class LinkCut(Exception):
    """The agent is gone, or sends unreadable data."""


class NobodyReads(Exception):
    """The reader of the engine's output is gone."""


class Stopped(Exception):
    """The engine was asked to stop."""


class CalledRun:
    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._is_once = request["method"] in ONCE
        self._has_output = False

    def run(self) -> int:
        os.chdir(self._request["folder"])  # the name of a socket must be short
        deadline = time.monotonic() + self._request["patience_seconds"]
        while True:
            name = f"{self._request['agent_machine_id']}-{os.urandom(16).hex()}"  # unique, so no late answer fits
            with Permission(name) as permission:
                if self._is_once:
                    signal.signal(signal.SIGTERM, permission.stop)
                link = self._wait_for_agent(name, deadline)
                if link is None:
                    return self._cut() if permission.withdraw() and self._is_once else lost(NOT_COME)
                with link, contextlib.suppress(LinkCut):
                    return self._follow(link)
            if self._has_output or self._is_once:
                return self._cut()

    def _cut(self) -> int:
        """End so that the parent sees that the engine's ending is unknown."""
        code = lost(CUT)
        os.kill(os.getpid(), signal.SIGKILL)
        return code

    def _wait_for_agent(self, name: str, deadline: float) -> socket.socket | None:
        """Publish the call; remove it when the agent has picked it up or the wait is over."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(f"{name}.sock")
            listening.listen(1)
            listening.settimeout(LOOK_SECONDS)
            try:
                self._lay_down(name)
                while time.monotonic() < deadline:
                    require_reader()
                    with contextlib.suppress(TimeoutError):
                        link, _ = listening.accept()
                        link.settimeout(SILENT_SECONDS)
                        return link
            finally:
                for suffix in ("json", "sock"):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(f"{name}.{suffix}")
        return None

    def _lay_down(self, name: str) -> None:
        fields = ("repository_id", "method", "request", "older")
        call = {field: self._request[field] for field in fields if field in self._request}
        with os.fdopen(os.open(f"{name}.part", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            json.dump(call, file)
        os.rename(f"{name}.part", f"{name}.json")

    def _follow(self, link: socket.socket) -> int:
        while True:
            letter, size = HEAD.unpack(exactly(link, HEAD.size))
            if size > (LARGEST_FRAME if letter in (OUTPUT, PACKED_OUTPUT, ERRORS) else LARGEST_END):
                raise LinkCut
            content = exactly(link, size)
            if letter == END:
                return exit_code(content)
            if letter == HERE:
                require_reader()
                continue
            self._has_output = True
            for piece in unpacked(content) if letter == PACKED_OUTPUT else (content,):
                write_out(2 if letter == ERRORS else 1, piece)


class Permission:
    """Whether the agent may run the engine. The kernel ends it if this process is killed: it releases the lock."""

    def __init__(self, name: str) -> None:
        self._wanted, self._begun = f"{name}.wanted", f"{name}.begun"
        self._is_withdrawn = self._has_begun = False

    def __enter__(self) -> Permission:
        self._descriptor = os.open(f"{self._wanted}.part", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        os.rename(f"{self._wanted}.part", self._wanted)
        return self

    def __exit__(self, *_: object) -> None:
        self.withdraw()
        os.close(self._descriptor)

    def withdraw(self) -> bool:
        """Give up. Return whether the agent was allowed to run the engine before."""
        if not self._is_withdrawn:
            try:
                os.unlink(self._wanted)
            except FileNotFoundError:
                self._has_begun = True
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._begun)
            self._is_withdrawn = True
        return self._has_begun

    def stop(self, *_: object) -> None:
        """Stop a call that changes the repository. If the engine may be running, this process lives until the link
        ends: the agent stops the engine when it asks again.
        """
        if not self.withdraw():
            raise Stopped


def exactly(link: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        try:
            part = link.recv(min(size, BLOCK))
        except OSError as error:
            raise LinkCut from error
        if not part:
            raise LinkCut
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def unpacked(content: bytes) -> Iterator[bytes]:
    """Decompress piece by piece, as a few bytes may expand beyond memory. Raise LinkCut if it is too much or
    unreadable.
    """
    unpacking, size = zlib.decompressobj(), 0
    while not unpacking.eof:
        try:
            piece = unpacking.decompress(content, BLOCK)
        except zlib.error as error:
            raise LinkCut from error
        content, size = unpacking.unconsumed_tail, size + len(piece)
        if size > LARGEST_FRAME or not (piece or content or unpacking.eof):
            raise LinkCut
        yield piece


def write_out(descriptor: int, content: bytes) -> None:
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BrokenPipeError as error:
            raise NobodyReads from error


def require_reader() -> None:
    """Raise NobodyReads if the output pipe no longer has a reader."""
    poller = select.poll()
    poller.register(1, 0)
    if poller.poll(0):
        raise NobodyReads


def exit_code(content: bytes) -> int:
    """Exit code of the engine on the agent's machine. Raise LinkCut if the frame does not contain it."""
    try:
        end = json.loads(content)
        code = int(end["code"]) if end.get("signal") is None else 128 + int(end["signal"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise LinkCut from error
    if not 0 <= code <= 255:  # the system keeps only the low eight bits, which might look like success
        raise LinkCut
    return code


def lost(message: str, code: int = UNREACHABLE) -> int:
    os.write(2, message.encode() + b"\n")
    return code


def stop(*_: object) -> None:
    raise Stopped


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    try:
        with open(sys.argv[1], "rb") as file:
            return CalledRun(json.load(file)).run()
    except Stopped:
        return 128 + signal.SIGTERM
    except NobodyReads:
        return lost("The reader of the engine's output is gone.", CANNOT_READ)
    except Exception as error:  # noqa: BLE001 - an exit code of 1 would look like an engine's warning
        return lost(f"The call failed: {error}", CANNOT_READ)


if __name__ == "__main__":
    sys.exit(main())
