"""One HTTP request to a receiver: checked address, no redirects, an overall deadline, and a limited response."""

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from holdfast.kit import clock
from holdfast.notifications.deliver.addresses import AddressRefused, connect
from holdfast.notifications.deliver.result import Result
from holdfast.notifications.events.text import clean

SECONDS = 15.0
MOST_ANSWER = 2000
LONGEST_RETRY_AFTER = 86400.0
ABOUT_THE_MESSAGE = frozenset({400, 413, 414, 415, 422, 431})
"""Answers that concern this message. Others, such as 401, 403 and 404, may end when a person, a proxy or a restart has
corrected the receiver, so the message waits for that.
"""


def post(url: str, body: bytes, headers: dict[str, str], seconds: float = SECONDS) -> Result:
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if is_tls else 80)
    try:
        with deadline(seconds) as guard, closing(http.client.HTTPConnection(host, port)) as connection:
            connection.sock = guard.connect(host, port)
            if is_tls:
                connection.sock = ssl.create_default_context().wrap_socket(connection.sock, server_hostname=host)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", target, body, {"User-Agent": "Holdfast", "Connection": "close", **headers})
            answer = connection.getresponse()
            content = answer.read(MOST_ANSWER)
    except AddressRefused as error:
        return Result(ok=False, message=f"{error}; messages cannot be sent there.")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Result(ok=False, message=_reason(error, seconds))
    return _judged(answer, content)


def _judged(answer: http.client.HTTPResponse, content: bytes) -> Result:
    if 200 <= answer.status < 300:
        return Result(ok=True, message=f"The receiver answered {answer.status}.")
    words = clean(content.decode("utf-8", "replace")) if content else ""
    message = f"The receiver answered {answer.status}{f': {words}' if words else ''}."
    if 300 <= answer.status < 400:
        message = f"The receiver answered {answer.status}; redirects are not followed."
    wait = retry_after(answer.headers.get("Retry-After"))
    return Result(
        ok=False,
        message=message,
        retry_after=wait,
        is_gone=answer.status == 410,
        is_refused=answer.status in ABOUT_THE_MESSAGE and wait is None,
    )


def retry_after(value: str | None) -> float | None:
    """Given the header (seconds or a date), return the number of seconds from now, at most a day."""
    if not value:
        return None
    try:
        seconds = float(value) if value.strip().isdigit() else _until(parsedate_to_datetime(value))
    except (ValueError, TypeError):
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)


def _until(moment: datetime) -> float:
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - clock.now()).total_seconds()


def _reason(error: Exception, seconds: float) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The certificate is not trusted: {clean(error.verify_message)}."
    if isinstance(error, TimeoutError):
        return f"No response within {seconds:.0f} seconds."
    if isinstance(error, socket.gaierror):
        return "The host name cannot be resolved."
    return f"Not delivered: {clean(error) or type(error).__name__}."


class Deadline:
    """Cuts a connection when its time is up, however slowly the other side sends."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._own: socket.socket | None = None
        """A second handle of the connection: TLS takes the first one over before its handshake."""
        self.is_over = False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect within the remaining time. Raise AddressRefused or OSError."""
        connection = connect(host, port, max(self._end - time.monotonic(), 0.0))
        self._own = connection.dup()
        if self.is_over:
            self._cut()
        return connection

    def close(self) -> None:
        self._timer.cancel()
        if self._own is not None:
            self._own.close()

    def _cut(self) -> None:
        self.is_over = True
        if self._own is not None:
            with contextlib.suppress(OSError):
                self._own.shutdown(socket.SHUT_RDWR)


@contextmanager
def deadline(seconds: float) -> Iterator[Deadline]:
    """Watch a connection within the block. Raise TimeoutError instead of the errors that cutting it causes."""
    guard = Deadline(seconds)
    try:
        yield guard
        if guard.is_over:  # a cut connection may look like the end of a response
            raise TimeoutError
    except (OSError, http.client.HTTPException, ValueError, EOFError) as error:
        if guard.is_over:
            raise TimeoutError from error
        raise
    finally:
        guard.close()
