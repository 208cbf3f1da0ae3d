"""A proxy between agent and service that cuts, delays and duplicates requests, and drops responses after the service
has acted.

It knows just enough HTTP to read whole requests and responses. The fate of a request comes from a seeded random
generator; while the network is down, connections are cut immediately.
"""

import contextlib
import http.client
import random
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FATES = ("pass", "delay", "cut", "lose", "double")
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"})


@dataclass
class Weather:
    """How bad the network is: the probability of a fault, and whether it is down altogether."""

    chance: random.Random
    fault: float = 0.0
    is_down: bool = False
    fates: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fate(self) -> tuple[str, float]:
        """What happens to the next request, and the delay before it."""
        with self.lock:
            if self.is_down:
                self.fates["down"] += 1
                return "cut", 0.0
            fate = self.chance.choice(FATES[1:]) if self.chance.random() < self.fault else "pass"
            self.fates[fate] += 1
            return fate, self.chance.uniform(0.05, 1.0) if fate == "delay" else 0.0


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Broken connections are expected here."""


class FaultyProxy:
    def __init__(self, service_port: int, weather: Weather) -> None:
        self.weather = weather
        handler = _handler(service_port, weather)
        self._server = _QuietServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=lambda: self._server.serve_forever(0.05), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(service_port: int, weather: Weather) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 120

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fate, delay = weather.fate()
            time.sleep(delay)
            if fate == "cut":
                self._hang_up()
                return
            if fate == "double":  # both are in flight at the same time; the response to one is lost
                threading.Thread(target=self._ask_in_vain, args=(body,), daemon=True).start()
            try:
                answer = self._ask(body)
            except (OSError, http.client.HTTPException):
                self._hang_up()
                return
            if fate == "lose" or weather.is_down:
                self._hang_up()
                return
            with contextlib.suppress(OSError):  # the client may be gone by now
                self._answer(*answer)

        def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", service_port, timeout=60)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
                connection.request(self.command, self.path, body or None, headers)
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            finally:
                connection.close()

        def _ask_in_vain(self, body: bytes) -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._ask(body)

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _hang_up(self) -> None:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        do_GET = do_POST = pass_on  # noqa: N815

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
            pass

    return Handler
