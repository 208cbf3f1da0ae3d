"""Headers of every response: the request id, and restrictions on what browsers may do with the response."""

import uuid
from collections.abc import Iterable

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Header = tuple[bytes, bytes]

FIXED: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
UNLESS_GIVEN: tuple[Header, ...] = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
ALL: tuple[Header, ...] = (*FIXED, *UNLESS_GIVEN)
"""For responses that are created outside the application."""
_FIXED_NAMES = frozenset(name for name, _ in FIXED)


def protected(headers: Iterable[Header], request_id: str) -> list[Header]:
    """Add missing headers to those of a response.

    A route may set its own caching and content policy.
    """
    kept = [header for header in headers if header[0] not in _FIXED_NAMES]
    given = [name for name, _ in kept]
    kept += FIXED
    kept += [header for header in UNLESS_GIVEN if header[0] not in given]
    kept.append((b"x-request-id", request_id.encode()))
    return kept


class AnswerHeaders:
    """Runs outside the framework, so that its responses to unexpected errors have the headers too."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = protected(message.get("headers", ()), request_id)
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self.app(scope, receive, marked)
