"""The server's HTTP protocol, extended by limits on heads and on the time for heads, bodies and unread answers."""

import asyncio
import json
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.api import headers
from holdfast.api.authenticated_connections import KEY
from holdfast.entry.backlog import Backlog
from holdfast.entry.connection_gate import Gate

MOST_HEAD_BYTES = 64 * 1024
FRAMING_FOR_EACH_BYTE = 8
"""Allowed framing bytes per byte of a chunked body. Any more are trailer fields, which count as part of the head."""
STEADY_BYTES_PER_SECOND = 2048
MOST_STEADY_PERIODS = 10
"""How many times `body_seconds` a body may take that arrives at least this fast in each of these periods."""
END_OF_HEAD = b"\r\n\r\n"
IDLE, HEAD, BODY = 0, 1, 2


def answer(status: HTTPStatus, key: str, message: str, retry_after: int | None = None) -> bytes:
    """A complete answer, for connections that never reach the application."""
    content = json.dumps({"detail": {"key": key, "message": message, "params": {}}}).encode()
    fields = [
        *headers.ALL,
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"),
    ]
    if retry_after is not None:
        fields.append((b"retry-after", str(retry_after).encode()))
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), *(b": ".join(header) for header in fields)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + content


TOO_SLOW = answer(HTTPStatus.REQUEST_TIMEOUT, "api.request_too_slow", "The request did not arrive in time.")
HEAD_TOO_LARGE = answer(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "api.head_too_large", "The head of the request is too large."
)
FULL = answer(HTTPStatus.SERVICE_UNAVAILABLE, "api.too_many_connections", "Too many connections; try again.", 5)
BAD_REQUEST = answer(HTTPStatus.BAD_REQUEST, "api.bad_request", "The request is not well-formed.")


class GuardedHttp(HttpToolsProtocol):
    """One connection. Requests that arrive in one piece cost only a few comparisons; only the others are watched."""

    gate: ClassVar[Gate]
    backlog: ClassVar[Backlog | None]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.is_known = False
        self.since = 0.0
        self.address: str | None = None
        self._stage = HEAD
        self._message = 0
        self._head_bytes = 0
        self._body_bytes = 0
        """Body bytes of the piece that is being read."""
        self._watched: tuple[int, int] | None = None
        """The message and stage whose deadline is running."""
        self._deadline = 0.0
        self._periods = 0
        self._period_bytes = 0
        """Periods of `body_seconds` that the current body has taken, and the bytes that arrived in this one."""
        self._paused_at: float | None = None

    # --- the transport ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        self.address = self.client[0] if self.client else None
        if self.backlog is not None:
            self.backlog.accept_soon(self._another)
        if self.gate.admit(self, self.since):
            self._look()
        else:
            self._refuse(FULL)

    def _another(self) -> "GuardedHttp":
        return type(self)(config=self.config, server_state=self.server_state, app_state=self.app_state)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gate.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        room = MOST_HEAD_BYTES - (self._head_bytes if self._stage == HEAD else 0)
        if self._stage == BODY or len(data) <= room:
            self._receive(data)
        else:  # a head larger than the limit is not parsed to its end
            self._receive(data[:room])
            self._receive(data[room:], is_head_too_large=self._stage == HEAD and self._head_bytes >= MOST_HEAD_BYTES)

    def _receive(self, data: bytes, is_head_too_large: bool = False) -> None:
        if self.transport.is_closing():
            return
        if is_head_too_large:
            self._refuse(HEAD_TOO_LARGE)
            return
        self._body_bytes, message = 0, self._message
        super().data_received(data)
        if self._stage == HEAD and self._message != message:
            self._head_bytes = len(data) - (data.rfind(END_OF_HEAD) + len(END_OF_HEAD) if END_OF_HEAD in data else 0)
        elif self._stage != IDLE:
            framing = len(data) - (1 + FRAMING_FOR_EACH_BYTE) * self._body_bytes
            self._head_bytes = max(0, self._head_bytes + framing)
        if self._stage != IDLE and self._head_bytes > MOST_HEAD_BYTES:
            self._refuse(HEAD_TOO_LARGE)
            return
        if self._stage != IDLE or self._watched is not None:
            self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._paused_at = self.loop.time()
        self.gate.watch(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._paused_at = None

    # --- the parser ------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._stage = HEAD
        self._message += 1
        self._head_bytes = 0
        if not self.is_known:
            self.scope[KEY] = self  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._stage = BODY
        self._periods = self._period_bytes = 0
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._stage == HEAD:  # trailer fields after the body are ignored
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._period_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stage = IDLE
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        del msg
        self._refuse(BAD_REQUEST)

    def _unsupported_upgrade_warning(self) -> None:
        """Do nothing: the server supports no upgrades and answers such requests like any others."""

    # --- time ------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Start the time limit of a head or body that has begun; stop it when everything has arrived."""
        if self._stage == IDLE:
            self._watched = None
            return
        if self._watched == (self._message, self._stage):
            return
        self._watched = (self._message, self._stage)
        bounds = self.gate.bounds
        self._deadline = self.loop.time() + (bounds.head_seconds if self._stage == HEAD else bounds.body_seconds)
        self.gate.watch(self)

    def check(self, now: float) -> None:
        if self._paused_at is not None and now - self._paused_at > self.gate.bounds.stall_seconds:
            self.turn_away()
        elif self._watched is not None and now > self._deadline and not self._may_take_longer(now):
            self._refuse(TOO_SLOW if self._message else b"")
        elif self._watched is None and self._paused_at is None:
            self.gate.unwatch(self)

    def _may_take_longer(self, now: float) -> bool:
        """Whether the application is reading a body that it processes as it arrives, or one that arrives steadily."""
        if self._stage != BODY or self.cycle is None or self.cycle.response_complete:
            return False
        bounds = self.gate.bounds
        if self.scope["path"].startswith(bounds.streamed):
            return True
        self._periods += 1
        is_steady = self._period_bytes >= STEADY_BYTES_PER_SECOND * bounds.body_seconds
        self._deadline, self._period_bytes = now + bounds.body_seconds, 0
        return is_steady and self._periods < MOST_STEADY_PERIODS and self.scope["path"].startswith(bounds.steady)

    def turn_away(self) -> None:
        self.transport.abort()

    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def _refuse(self, response: bytes) -> None:
        """Close the connection, first sending this answer unless another one has begun."""
        if self.transport.is_closing():
            return
        if response and (self.cycle is None or self.cycle.response_complete or not self.cycle.response_started):
            self.transport.write(response)
        self.transport.close()


def guarded(gate: Gate, backlog: Backlog | None = None) -> type[asyncio.Protocol]:
    """Return the protocol class for all connections of this gate."""
    return type("GuardedHttpOfGate", (GuardedHttp,), {"gate": gate, "backlog": backlog})
