"""The near side of a call: takes the place of the engine under the shim here, while an agent runs the engine on its machine.

Run as ``python -I -S agent_call.py REQUEST``. Nobody can reach an agent; it comes by itself. So the call is laid down in a folder
beside a socket, the service tells the agent of it, and connects the socket with what the agent sends: frames of what its engine
says, and at last how it ended. This process says the same, and ends the same way. A link that is cut before anything was
heard is waited for once more if the call only reads; later that is the end of the call, because what was passed on cannot be told again.

It imports the standard library alone, and nothing of this package: it has to start in milliseconds.
"""

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any

HEAD = struct.Struct(">cQ")
OUTPUT, PACKED_OUTPUT, ERRORS, END, HERE = b"o", b"z", b"e", b"x", b"h"
LARGEST_FRAME = 16 * 1024 * 1024
"""Also of what a packed one holds."""
LARGEST_END = 1 << 16
BLOCK = 1 << 18
LOOK_SECONDS = 0.5
SILENT_SECONDS = 120.0
"""An agent says at least every ten seconds that it is there."""
NOT_COME = "The agent did not come for the call; it may be offline, or busy with other requests."
CUT = "The link to the agent was cut before its engine had ended."
UNREACHABLE = 255
"""As ssh says it."""
CANNOT_READ = 2
ONCE = ("delete_archive", "undelete_archive", "compact")
"""What changes a repository is not asked for again: its engine may have worked before the link was cut."""


class LinkCut(Exception):
    """The agent is gone, or says what cannot be read."""


class NobodyReads(Exception):
    """Whoever took the output of the engine is gone."""


class Stopped(Exception):
    """Somebody wants the engine to stop."""


class CalledRun:
    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._heard = False

    def run(self) -> int:
        os.chdir(self._request["folder"])  # the name of a socket must be short
        deadline = time.monotonic() + self._request["patience_seconds"]
        while True:
            link = self._wait_for_agent(deadline)
            if link is None:
                return lost(NOT_COME)
            with link:
                try:
                    return self._listen(link)
                except LinkCut:
                    if self._heard or self._request["method"] in ONCE:
                        return self._cut()

    def _cut(self) -> int:
        """Nobody knows how the engine ended, and so this process ends as one of which nobody knows it."""
        code = lost(CUT)
        os.kill(os.getpid(), signal.SIGKILL)
        return code

    def _wait_for_agent(self, deadline: float) -> socket.socket | None:
        """Lay the call down, and take it away when the agent has come for it or is not waited for any longer."""
        name = f"{self._request['agent_machine_id']}-{secrets.token_hex(16)}"  # another each time: none comes too late
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
        words = ("repository_id", "method", "request", "older")
        call = {word: self._request[word] for word in words if word in self._request}
        with os.fdopen(os.open(f"{name}.part", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            json.dump(call, file)
        os.rename(f"{name}.part", f"{name}.json")

    def _listen(self, link: socket.socket) -> int:
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
            self._heard = True
            for piece in unpacked(content) if letter == PACKED_OUTPUT else (content,):
                tell(2 if letter == ERRORS else 1, piece)


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
    """Piece by piece: a few bytes may hold more than memory does. Raise LinkCut if they hold too much, or cannot be read."""
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


def tell(descriptor: int, content: bytes) -> None:
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BrokenPipeError as error:
            raise NobodyReads from error


def require_reader() -> None:
    """Raise NobodyReads once the pipe that is to take the output has no end any more."""
    poller = select.poll()
    poller.register(1, 0)
    if poller.poll(0):
        raise NobodyReads


def exit_code(content: bytes) -> int:
    """How the engine there ended. Raise LinkCut if nobody can tell from this."""
    try:
        end = json.loads(content)
        code = int(end["code"]) if end.get("signal") is None else 128 + int(end["signal"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise LinkCut from error
    if not 0 <= code <= 255:  # the system would keep the last eight bits alone, and those may say that all is well
        raise LinkCut
    return code


def lost(words: str, code: int = UNREACHABLE) -> int:
    os.write(2, words.encode() + b"\n")
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
        return lost("Nobody takes the output of the engine any more.", CANNOT_READ)
    except Exception as error:  # noqa: BLE001 - an exit code of 1 would look like an engine's warning
        return lost(f"The call cannot be made: {error}", CANNOT_READ)


if __name__ == "__main__":
    sys.exit(main())
