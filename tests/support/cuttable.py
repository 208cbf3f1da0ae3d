"""A connection to a server on loopback that can be cut and restored."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from tests.support.rclone import Backend

BLOCK = 65536
LOOK_SECONDS = 0.1


class Line:
    """Forwards data to and from a port. While it is cut, connections are reset and new ones end at once."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_cut = False
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(connection,), daemon=True).start()

    def _pass_on(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5) as far:
            with self._lock:
                if self._is_cut:
                    return
                self._open |= {near, far}
            try:
                _exchange(near, far)
            finally:
                with self._lock:
                    self._open -= {near, far}


def _exchange(near: socket.socket, far: socket.socket) -> None:
    other = {near: far, far: near}
    with selectors.DefaultSelector() as selector:
        for end in other:
            selector.register(end, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(LOOK_SECONDS):
                end = next(end for end in other if end is key.fileobj)
                block = end.recv(BLOCK)
                if not block:
                    return
                other[end].sendall(block)


@dataclass(frozen=True)
class Reached:
    backend: Backend
    """The same backend, reached through the line."""
    line: Line


@contextmanager
def by_a_line(backend: Backend) -> Iterator[Reached]:
    name = {"webdav": "url", "s3": "endpoint"}[backend.provider]
    line = Line(urlsplit(backend.options[name]).port or 0)
    try:
        yield Reached(replace(backend, options={**backend.options, name: f"http://127.0.0.1:{line.port}"}), line)
    finally:
        line.close()
