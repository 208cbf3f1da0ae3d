"""The near side of a helper on another machine: keeps the connection and passes data in both directions.

Run as ``python -I -S helper_proxy.py``. The first line on standard input contains the ssh command and the request for
`remote_helper.py`, including secrets. Everything after it goes to the helper there, and the helper's output comes out
here. The far side receives a sign of life every few seconds, even if nothing else is sent or this side's reader is
slow; without one it stops the helper. This process ends when either side does. It never buffers more than a few
blocks.

It imports only the standard library and nothing of this package: it has to start in milliseconds.
"""

import contextlib
import json
import os
import select
import shlex
import struct
import subprocess
import sys
import time
from typing import Any

PIECE = struct.Struct(">I")
MARK = b"\0holdfast helper\0"
BLOCK = 256 * 1024
KEEPALIVE_SECONDS = 5.0
SILENCES = 10
"""Number of missing signs of life after which the machine treats the connection as cut, before the local ssh does."""
LONGEST_GREETING = 1 << 16
LARGEST_REQUEST = 8 * 1024 * 1024
HANG_UP_SECONDS = 5.0
CANNOT = 2


class Over(Exception):
    """One of the two sides has ended."""


class HelperProxy:
    def __init__(self, link: "subprocess.Popen[bytes]", request: dict[str, Any], rest: bytes) -> None:
        assert link.stdin is not None
        assert link.stdout is not None
        self._to_link = link.stdin.fileno()
        self._from_link = link.stdout.fileno()
        self._outgoing = bytearray(piece(json.dumps(request).encode()) + (piece(rest) if rest else b""))
        self._incoming = b""
        self._is_marked = False
        self._is_heard = True
        self._sent_at = time.monotonic()
        for descriptor in (1, self._to_link):
            os.set_blocking(descriptor, False)

    def run(self) -> None:
        """Pass data on until the far side has ended. Raise Over if the near side ends first."""
        while True:
            has_output = bool(self._incoming) and self._is_marked
            poller = select.poll()
            poller.register(1, select.POLLOUT if has_output else 0)
            if not has_output:
                poller.register(self._from_link, select.POLLIN)
            if len(self._outgoing) < BLOCK:
                poller.register(0, select.POLLIN)
            if self._outgoing:
                poller.register(self._to_link, select.POLLOUT)
            ready = dict(poller.poll(KEEPALIVE_SECONDS * 1000))
            if 1 in ready and not ready[1] & select.POLLOUT:
                raise Over  # there is no reader any more
            if 0 in ready:
                self._read_input()
            if self._from_link in ready and not self._receive():
                return
            if 1 in ready:
                self._incoming = self._incoming[os.write(1, self._incoming) :]
            if self._to_link in ready:
                self._send()
            self._send_keepalive()

    def _read_input(self) -> None:
        block = os.read(0, BLOCK)
        if not block:
            raise Over
        if self._is_heard:
            self._outgoing += piece(block)

    def _send(self) -> None:
        try:
            del self._outgoing[: os.write(self._to_link, self._outgoing[:BLOCK])]
        except BrokenPipeError:  # what the program wrote before it ended is still to be read
            self._is_heard = False
            self._outgoing.clear()

    def _receive(self) -> bool:
        block = os.read(self._from_link, BLOCK)
        self._incoming += block
        if not self._is_marked:
            _, mark, rest = self._incoming.partition(MARK)
            self._is_marked = bool(mark)
            self._incoming = rest if mark else self._incoming[-LONGEST_GREETING:]
        return bool(block)

    def _send_keepalive(self) -> None:
        now = time.monotonic()
        if now - self._sent_at >= KEEPALIVE_SECONDS and self._is_heard and not self._outgoing:
            self._outgoing += piece(b"")
            self._sent_at = now


def piece(content: bytes) -> bytes:
    return PIECE.pack(len(content)) + content


def far_text() -> str:
    here = os.path.dirname(os.path.abspath(__file__))
    with open(f"{here}/remote_helper.py", encoding="utf-8") as file:
        return file.read()


def first_line() -> tuple[dict[str, Any], bytes]:
    received = b""
    while b"\n" not in received:
        block = os.read(0, BLOCK)
        received += block
        if not block or len(received) > LARGEST_REQUEST:
            raise Over
    line, rest = received.split(b"\n", 1)
    request: dict[str, Any] = json.loads(line)
    return request, rest


def hang_up(link: "subprocess.Popen[bytes]") -> None:
    assert link.stdin is not None
    with contextlib.suppress(OSError):
        link.stdin.close()
    try:
        link.wait(HANG_UP_SECONDS)
    except subprocess.TimeoutExpired:
        link.kill()
        link.wait()


def main() -> int:
    try:
        wanted, rest = first_line()
    except Over:
        return CANNOT
    request = {**wanted["request"], "silence_seconds": KEEPALIVE_SECONDS * SILENCES}
    command = shlex.join((wanted["python"], "-I", "-S", "-c", far_text()))
    try:
        link = subprocess.Popen(
            [*wanted["ssh"], command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
    except OSError as error:
        os.write(2, f"ssh cannot be run: {error}\n".encode())
        return CANNOT
    try:
        HelperProxy(link, request, rest).run()
    except (Over, BrokenPipeError):
        pass
    finally:
        hang_up(link)
    return 0


if __name__ == "__main__":
    sys.exit(main())
