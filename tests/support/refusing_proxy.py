"""A proxy in front of the service that rejects large request bodies, as nginx does by default: 413 and an HTML page.

It reads the whole body before it forwards anything, as with `proxy_request_buffering on`.
"""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = b"<html><head><title>413 Request Entity Too Large</title></head><body>nginx</body></html>"
DROPPED = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})


class BodyTooLarge(Exception):
    pass


@contextmanager
def refusing_proxy(port: int, largest: int) -> Iterator[str]:
    """The address of a proxy to a port of this machine that accepts bodies up to a size."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._handle()

        def do_POST(self) -> None:
            self._handle()

        def _handle(self) -> None:
            try:
                body = self._body()
            except BodyTooLarge:
                self.close_connection = True
                self.send_response(413)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(PAGE)))
                self.end_headers()
                self.wfile.write(PAGE)
                self._linger()
                return
            self._pass_on(body)

        def _linger(self) -> None:
            """Read what is still being sent, so that the answer is not lost in a reset."""
            self.connection.settimeout(1)
            with suppress(OSError):
                while self.connection.recv(65536):
                    continue

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                size = int(self.headers.get("Content-Length", "0"))
                if size > largest:
                    raise BodyTooLarge
                return self.rfile.read(size)
            body = b""
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                body += self.rfile.read(size)
                self.rfile.readline()
                if len(body) > largest:
                    raise BodyTooLarge
            self.rfile.readline()
            return body

        def _pass_on(self, body: bytes) -> None:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in DROPPED}
            with suppress(OSError):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in DROPPED:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                connection.close()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
