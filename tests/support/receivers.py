"""Receivers of messages: a web server that verifies signatures, and one that answers endlessly."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document

    def verified(self, secret: str) -> dict[str, Any]:
        """The body if it is signed with the secret. Raise WebhookVerificationError otherwise."""
        document: dict[str, Any] = Webhook(secret).verify(self.body, self.headers)
        return document


@dataclass
class WebReceiver:
    port: int
    received: list[Received] = field(default_factory=list)
    answer: Callable[[Received], tuple[int, dict[str, str]]] = lambda _received: (204, {})
    stall: threading.Event | None = None
    """If set, requests are read but not answered until the event is set."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def items(self) -> list[dict[str, Any]]:
        """All items of all accepted messages, in order; a message received twice counts once."""
        seen: dict[str, dict[str, Any]] = {}
        for each in self.received:
            seen.setdefault(each.id, each.json)
        return [item for message in seen.values() for item in message["data"]["items"]]


@contextmanager
def web_receiver() -> Iterator[WebReceiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            got = Received(self.path, headers, self.rfile.read(length))
            if receiver.stall is not None:
                receiver.stall.wait(60)
            status, more = receiver.answer(got)
            if status < 300:
                receiver.received.append(got)
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = WebReceiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        if receiver.stall is not None:
            receiver.stall.set()
        server.shutdown()
        server.server_close()


@contextmanager
def dripping_receiver(beginning: bytes = b"HTTP/1.1 200 OK\r\n") -> Iterator[int]:
    """A server that answers one byte at a time, endlessly."""
    import socket

    listening = socket.create_server(("127.0.0.1", 0))
    stopped = threading.Event()

    def serve() -> None:
        while not stopped.is_set():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.sendall(beginning)
                    while not stopped.is_set():
                        connection.sendall(b"X")
                        time.sleep(0.02)
                except OSError:
                    continue

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        stopped.set()
        listening.close()
