"""HTTP client for the service: one persistent connection; answers become values or exceptions."""

import contextlib
import http.client
import json
import os
import re
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from backup_agent import AGENT_VERSION
from backup_agent.plain_names import PlainHTTP, PlainHTTPS
from backup_agent.problems import Problem
from backup_agent.proxies import proxy_for
from backup_engine import bounded_json
from backup_protocol import AUTHORIZATION_HEADER

if TYPE_CHECKING:
    import ssl

SECONDS_TO_ANSWER = 30.0
LARGEST_ANSWER = 16 * 1024 * 1024
PIECE_BYTES = 16 * 1024
"""The time limit applies to each piece of a body, so that a slow link does not end a large one."""
DEFAULT_PORTS = {"http": 80, "https": 443}

BODY_REFUSED = "agents.body_refused"

HASHED = re.compile(r"[0-9a-f]{8}\.\d+")
"""OpenSSL's names for certificates that it finds by hash."""


class NoAnswer(Exception):
    """The service did not answer, or the answer came from something else; the request can be retried later."""

    def __init__(self, message: str, retry_after: float = 0.0, *, was_sent: bool = True) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.was_sent = was_sent
        """False if the service certainly never received the request."""


class Refusal(Exception):
    """The service refused the request."""

    def __init__(self, status: int, key: str, message: str) -> None:
        super().__init__(message)
        self.http_status = status
        self.key = key


class NotAllowed(Refusal):
    """The credential is invalid, or the agent is disabled or revoked."""


class TooLarge(Refusal):
    """The body is larger than the service, or a proxy in front of it, accepts."""


class Unknown(Refusal):
    """The service does not know the requested resource."""


class InvalidAddress(Problem):
    """The service's address cannot be used."""


class OpenStream:
    """An answer that is read piece by piece; another thread may cut the connection."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self._socket = connection.sock
        self._answer = answer

    def read(self, size: int, /) -> bytes:
        return self._answer.read(size)

    def cut(self) -> None:
        _cut(self._socket)


class Link:
    """The connection of a long request, which another thread may cut."""

    def __init__(self) -> None:
        self.connection: http.client.HTTPConnection | None = None

    def cut(self) -> None:
        if self.connection is not None:
            _cut(self.connection.sock)


class _Sent:
    """A long request body, with the number of bytes sent so far.

    Without TLS, sending stops when an answer arrives early, which can only be a refusal. Under TLS the socket may be
    readable for other reasons, so the whole body is sent.
    """

    def __init__(self, blocks: Iterator[bytes], connection: http.client.HTTPConnection) -> None:
        self._blocks = blocks
        self._connection = connection
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        for block in self._blocks:
            if self._is_answered():
                return
            yield block
            self.size += len(block)

    def _is_answered(self) -> bool:
        connection = self._connection
        if connection.sock is None or isinstance(connection, http.client.HTTPSConnection):
            return False
        return bool(select.select([connection.sock], [], [], 0)[0])


class _Turns:
    """A fair lock: the longest-waiting thread is next, so that a flood of log lines cannot delay a heartbeat."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._next_ticket = 0
        self._serving = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        with self._changed:
            mine = self._next_ticket
            self._next_ticket += 1
            self._changed.wait_for(lambda: self._serving == mine)
        try:
            yield
        finally:
            with self._changed:
                self._serving += 1
                self._changed.notify_all()


class Client:
    """Sends the requests of all threads over one connection, one at a time."""

    def __init__(self, server_url: str, credential: str | None = None, ca_file: str | None = None) -> None:
        parts = urlsplit(server_url.rstrip("/"))
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            raise InvalidAddress(f"{server_url!r} is not a service address; it must begin with https:// or http://.")
        self._scheme = parts.scheme
        self._host = parts.hostname
        try:
            self._port = parts.port or DEFAULT_PORTS[parts.scheme]
        except ValueError as error:
            raise InvalidAddress(f"{server_url!r} has an invalid port.") from error
        self._prefix = parts.path.rstrip("/")
        self._headers = {
            "Accept": "application/json",
            "User-Agent": f"backup-agent/{AGENT_VERSION}",
            **({AUTHORIZATION_HEADER: f"Bearer {credential}"} if credential else {}),
        }
        self._proxy = proxy_for(self._scheme, self._host, self._port)
        self._context = _tls(ca_file) if self._scheme == "https" else None
        self._turns = _Turns()
        self._connection: http.client.HTTPConnection | None = None
        self._is_interrupted = False

    def close(self) -> None:
        with self._turns.turn():
            self._drop()

    def interrupt(self) -> None:
        """Abort a request that is waiting for its answer: it raises NoAnswer, and so do later requests."""
        self._is_interrupted = True
        connection = self._connection
        if connection is not None:
            _cut(connection.sock)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        seconds: float = SECONDS_TO_ANSWER,
        repeat: bool = True,
    ) -> Any:
        """Send a request and return its JSON answer. Raise NoAnswer or Refusal.

        `seconds` limits the time for each piece of the body, and for the answer. The client notices that the service
        has closed the connection only when using it. So a request over an existing connection is repeated over a new
        one, unless `repeat` is False.
        """
        content = None if body is None else json.dumps(body).encode()
        with self._turns.turn():
            kept = self._connection is not None
            try:
                status, headers, raw = self._exchange(method, path, content, seconds)
            except NoAnswer as failure:
                if self._is_interrupted or not kept or (failure.was_sent and not repeat):
                    raise
                status, headers, raw = self._exchange(method, path, content, seconds)
        return _understood(status, headers, raw, sent=len(content or b""))

    @contextmanager
    def stream(self, path: str, seconds: float) -> Iterator["OpenStream"]:
        """Open a long answer over a separate connection. Raise NoAnswer or Refusal.

        `seconds` limits the time without data.
        """
        connection = self._new_connection(seconds)
        try:
            try:
                connection.request("GET", self._target(path), None, self._request_headers(None))
                answer = connection.getresponse()
                if answer.status != 200:
                    _understood(answer.status, answer.headers, answer.read(LARGEST_ANSWER))
                    raise NoAnswer(f"The service returned HTTP {answer.status}.")
            except (OSError, http.client.HTTPException) as error:
                raise NoAnswer(self._message_of_failure(error)) from error
            yield OpenStream(connection, answer)
        finally:
            connection.close()

    def send(self, path: str, content: Iterator[bytes], seconds: float, link: Link | None = None) -> Any:
        """Send a body as it is generated, over a separate connection; return the JSON answer. Raise NoAnswer or
        Refusal.

        `seconds` limits the time in which the service accepts no data.
        """
        connection = self._new_connection(seconds)
        if link is not None:
            link.connection = connection
        headers = {**self._request_headers(b""), "Content-Type": "application/octet-stream"}
        headers["Transfer-Encoding"] = "chunked"
        body = _Sent(content, connection)
        try:
            # A proxy that refuses the body may answer and close the connection before it has read all of it.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST", self._target(path), iter(body), headers, encode_chunked=True)
            answer = connection.getresponse()
            raw = answer.read(LARGEST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(self._message_of_failure(error)) from error
        finally:
            connection.close()
        return _understood(answer.status, answer.headers, raw, sent=body.size)

    def _exchange(
        self, method: str, path: str, content: bytes | None, seconds: float
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        was_sent = False
        try:
            connection = self._connected(seconds)
            if self._is_interrupted:
                raise ConnectionAbortedError("the agent stops")
            was_sent = True
            headers, pieces = self._request_headers(content), None
            if content is not None:
                headers["Content-Length"], pieces = str(len(content)), _pieces(content)
            connection.request(method, self._target(path), pieces, headers)
            answer = connection.getresponse()
            raw = answer.read(LARGEST_ANSWER)
            if answer.will_close or len(raw) == LARGEST_ANSWER:
                self._drop()
            return answer.status, answer.headers, raw
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise NoAnswer(self._message_of_failure(error), was_sent=was_sent) from error

    def _connected(self, seconds: float) -> http.client.HTTPConnection:
        if self._connection is None:
            self._connection = self._new_connection(seconds)
            self._connection.connect()
        if self._connection.sock is not None:
            self._connection.sock.settimeout(seconds)
        return self._connection

    def _new_connection(self, seconds: float) -> http.client.HTTPConnection:
        host, port = (self._proxy.host, self._proxy.port) if self._proxy else (self._host, self._port)
        if self._context is None:
            return PlainHTTP(host, port, timeout=seconds)
        connection = PlainHTTPS(host, port, timeout=seconds, context=self._context)
        if self._proxy:
            tunnel = {"Proxy-Authorization": self._proxy.authorization} if self._proxy.authorization else {}
            connection.set_tunnel(self._host, self._port, tunnel)
        return connection

    def _target(self, path: str) -> str:
        if self._proxy and self._context is None:
            return f"{self._scheme}://{self._authority()}{self._prefix}{path}"
        return self._prefix + path

    def _request_headers(self, content: bytes | None) -> dict[str, str]:
        headers = dict(self._headers)
        if content is not None:
            headers["Content-Type"] = "application/json"
        if self._proxy and self._context is None:
            headers["Host"] = self._authority()
            if self._proxy.authorization:
                headers["Proxy-Authorization"] = self._proxy.authorization
        return headers

    def _authority(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return host if self._port == DEFAULT_PORTS[self._scheme] else f"{host}:{self._port}"

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _message_of_failure(self, error: Exception) -> str:
        place = f"{self._scheme}://{self._authority()}"
        if isinstance(error, socket.gaierror):
            return f"The host name {self._host} cannot be resolved ({error.strerror})."
        if isinstance(error, TimeoutError):
            return f"{place} did not respond in time."
        if type(error).__name__ == "SSLCertVerificationError":
            reason = getattr(error, "verify_message", str(error))
            return f"The certificate of {place} is not valid: {reason}. For a private CA, use --ca-file."
        return f"{place} cannot be reached: {getattr(error, 'strerror', None) or error or type(error).__name__}."


def _pieces(content: bytes) -> Iterator[bytes]:
    return (content[start : start + PIECE_BYTES] for start in range(0, len(content), PIECE_BYTES))


def _cut(connected: socket.socket | None) -> None:
    """End a connection that another thread may be using. The base class keeps TLS in place until the end."""
    if connected is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _tls(ca_file: str | None) -> "ssl.SSLContext":
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file, capath=None if ca_file else _hashed_authorities())
    except (OSError, ssl.SSLError) as error:
        raise InvalidAddress(f"The certificates in {ca_file} cannot be read: {error}.") from error


def _hashed_authorities() -> str | None:
    """Return the system's folder of certificate authorities if OpenSSL can find all of them there by hash.

    OpenSSL then reads only the one it needs. Keeping all of them in memory would cost an idle agent two megabytes.
    """
    import ssl

    places = ssl.get_default_verify_paths()
    if places.capath is None or os.environ.get(places.openssl_cafile_env):
        return None
    try:
        hashed = sum(HASHED.fullmatch(path.name) is not None for path in Path(places.capath).iterdir())
        known = Path(places.cafile).read_bytes().count(b"BEGIN CERTIFICATE") if places.cafile else 1
    except OSError:
        return None
    return places.capath if hashed >= max(known, 1) else None


def _understood(status: int, headers: http.client.HTTPMessage, raw: bytes, sent: int = 0) -> Any:
    try:
        content = bounded_json.document(raw) if raw else None
    except ValueError:
        if status == 413:
            raise TooLarge(status, BODY_REFUSED, proxy_refuses(sent)) from None
        raise NoAnswer(
            f"The response (HTTP {status}) is not from a backup service; a proxy may be in between."
        ) from None
    if 200 <= status < 300:
        return content
    detail = content.get("detail") if isinstance(content, dict) else None
    if status in (408, 429) or status >= 500 or (status not in (413, 422) and not isinstance(detail, dict)):
        raise NoAnswer(f"The service returned HTTP {status}{_message_of(detail)}.", _retry_after(headers))
    key = str(detail.get("key", "")) if isinstance(detail, dict) else "invalid"
    sentence = str(detail.get("message", "")) if isinstance(detail, dict) else "The service refused the request."
    if status == 413:
        is_ours = isinstance(detail, dict)
        raise TooLarge(status, key if is_ours else BODY_REFUSED, sentence if is_ours else proxy_refuses(sent))
    if status in (401, 403):
        raise NotAllowed(status, key, sentence)
    if status == 404:
        raise Unknown(status, key, sentence)
    raise Refusal(status, key, sentence)


def proxy_refuses(sent: int) -> str:
    return (
        f"A proxy in front of the service refuses large request bodies (HTTP 413 after {sent} bytes). Raise its limit "
        f"(nginx: client_max_body_size 0; proxy_request_buffering off;)"
    )


def _message_of(detail: Any) -> str:
    return f": {detail['message']}" if isinstance(detail, dict) and detail.get("message") else ""


def _retry_after(headers: http.client.HTTPMessage) -> float:
    try:
        return max(0.0, float(headers.get("Retry-After", "0")))
    except ValueError:
        return 0.0
