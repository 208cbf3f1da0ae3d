"""A small HTTP server in the test's own process whose responses come from a script."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    hang_up: bool = False
    """Send no response: the request was processed, but its response is lost."""


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    connection: int


Script = Callable[[Request], Answer]


@dataclass
class InTestService:
    script: Script
    requests: list[Request] = field(default_factory=list)
    url: str = ""

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up or refuse a certificate are part of the tests."""


@contextmanager
def in_test_service(script: Script, wrap: Callable[[Any], Any] | None = None) -> Iterator[InTestService]:
    service = InTestService(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            raw = self.rfile.read(length)
            request = Request(
                self.command,
                self.path,
                {name.lower(): value for name, value in self.headers.items()},
                json.loads(raw) if raw else None,
                self.client_address[1],
            )
            service.requests.append(request)
            told = service.script(request)
            if told.hang_up:
                self.close_connection = True
                return
            content = json.dumps(told.body).encode() if told.raw is None else told.raw
            self.send_response(told.status)
            self.send_header("Content-Length", str(len(content)))
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            if told.headers.get("Connection") == "close":
                self.close_connection = True

        do_GET = do_POST = do_CONNECT = answer  # noqa: N815

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
            pass

    server = _QuietServer(("127.0.0.1", 0), Handler)
    if wrap is not None:
        server.socket = wrap(server.socket)
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    scheme = "http" if wrap is None else "https"
    service.url = f"{scheme}://localhost:{server.server_port}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
