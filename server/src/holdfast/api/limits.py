"""Limits on request bodies."""

import contextlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.api.errors import error_answer
from holdfast.errors import TooLarge

MAX_BODY_BYTES = 1024 * 1024
BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding"})
"""A request without any of these has no body."""


class BodyTooLarge(Exception):
    pass


class BodyLimit:
    """Refuses bodies over the limit, by their announced length or while they arrive."""

    def __init__(self, app: ASGIApp, maximum: int = MAX_BODY_BYTES) -> None:
        self.app = app
        self.maximum = maximum

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if not BODY_HEADERS.intersection(headers) or _is_streamed(scope):
            await self.app(scope, receive, send)
            return
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.maximum:
            await self._refuse(scope, receive, send)
            return
        received = 0
        answered = False

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > self.maximum:
                    raise BodyTooLarge
            return message

        async def noted(message: Message) -> None:
            nonlocal answered
            if received > self.maximum and not answered:
                return  # suppress the framework's response to the incomplete body; ours states the reason
            answered = True
            await send(message)

        with contextlib.suppress(BodyTooLarge):
            await self.app(scope, counted, noted)
        if received > self.maximum and not answered:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = TooLarge("api.body_too_large", f"A body may have at most {self.maximum} bytes.", maximum=self.maximum)
        await error_answer(error)(scope, receive, send)


def _is_streamed(scope: Scope) -> bool:
    """Whether the body is passed on as it arrives, without being held in memory."""
    prefixes: tuple[str, ...] = scope["app"].streamed_paths
    return str(scope["path"]).startswith(prefixes)
