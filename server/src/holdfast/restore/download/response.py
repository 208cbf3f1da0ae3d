"""Sends a download as it comes. A reader that goes away, or stands still, ends it; a bad end breaks the connection off."""

import threading
from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import quote

import structlog
from anyio import CancelScope, CapacityLimiter, create_task_group, fail_after, to_thread
from anyio.lowlevel import RunVar
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.api.errors import error_answer
from holdfast.errors import HoldfastError
from holdfast.restore.download.opening import Opened
from holdfast.restore.source import BrokenOff, NobodyWaits

log = structlog.get_logger("holdfast.download")

MOST_AT_ONCE = 32
"""Threads for downloads, apart from those of all other requests."""
STANDSTILL_SECONDS = 300.0
"""A reader that takes nothing for so long holds up the repository's other work for nothing."""

Result = TypeVar("Result")
_threads: RunVar[CapacityLimiter] = RunVar("threads of downloads")


class Download(Response):
    """The answer to a request for a download; the engine is asked when it is to be sent."""

    def __init__(self, begin: Callable[[threading.Event], Opened]) -> None:
        super().__init__()
        self._begin = begin
        self._gone = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with create_task_group() as tasks:
            tasks.start_soon(self._watch, receive)
            await self._answer(scope, receive, send)
            tasks.cancel_scope.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        self._gone.set()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            opened = await self._in_thread(lambda: self._begin(self._gone))
        except NobodyWaits:
            return
        except HoldfastError as error:
            await error_answer(error)(scope, receive, send)
            return
        try:
            await self._send(opened, send)
        except TimeoutError:
            log.warning("a download stood still and was ended", name=opened.name)
        except (NobodyWaits, OSError):
            log.info("a download was given up by its reader", name=opened.name)
        except (BrokenOff, HoldfastError) as error:
            log.warning("a download was broken off", name=opened.name, reason=str(error))
        finally:
            self._gone.set()
            with CancelScope(shield=True):
                await self._in_thread(opened.close)

    async def _send(self, opened: Opened, send: Send) -> None:
        """Left without its last message, the answer is seen to be incomplete: the server breaks the connection off."""
        await send({"type": "http.response.start", "status": 200, "headers": headers(opened)})
        while (block := await self._in_thread(lambda: _next(opened.blocks))) is not None:
            with fail_after(STANDSTILL_SECONDS):
                await send({"type": "http.response.body", "body": block, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _in_thread(self, call: Callable[[], Result]) -> Result:
        threads = _threads.get(None)
        if threads is None:
            threads = CapacityLimiter(MOST_AT_ONCE)
            _threads.set(threads)
        return await to_thread.run_sync(call, limiter=threads)


def headers(opened: Opened) -> list[tuple[bytes, bytes]]:
    told = {
        "content-type": opened.media_type,
        "content-disposition": disposition(opened.name),
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }
    if opened.size is not None:
        told["content-length"] = str(opened.size)
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in told.items()]


def disposition(name: str) -> str:
    """The header that names the file: a plain name for old programs, and the exact one where that differs (RFC 5987)."""
    plain = "".join(character if _is_plain(character) else "_" for character in name) or "download"
    exact = "" if name in ("", plain) else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'attachment; filename="{plain}"{exact}'


def _is_plain(character: str) -> bool:
    return character.isascii() and character.isprintable() and character not in '"\\%'


def _next(blocks: Iterator[bytes]) -> bytes | None:
    return next(blocks, None)
