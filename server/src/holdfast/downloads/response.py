"""Streams a download. It ends if the client leaves or stalls; if it is incomplete, the connection is broken off."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TypeVar
from urllib.parse import quote

import structlog
from anyio import CancelScope, CapacityLimiter, create_task_group, fail_after, sleep, to_thread
from anyio.lowlevel import RunVar
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from backup_engine.frozen import frozen
from holdfast.api.limits import BodyTooLarge
from holdfast.api.parts import Part
from holdfast.api.threads import in_thread
from holdfast.downloads.conditions import RequestConditions
from holdfast.downloads.download_limits import DownloadLimits
from holdfast.downloads.engine_output import ClientGone, IncompleteOutput
from holdfast.downloads.lookup import FoundArchive
from holdfast.downloads.opening import ANY_FILE, Content, Downloads, Opened, content_headers
from holdfast.downloads.pace import Pace
from holdfast.errors import HoldfastError
from holdfast.runner.lane_ticket import LaneTicket, without_a_thread
from holdfast.settings import Settings
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.download")

MOST_AT_ONCE = 32
"""Maximum number of threads for streams to agents, separate from those of all other requests."""
STANDSTILL_SECONDS = 300.0
"""An agent that reads nothing for this long delays the repository's other work for no reason."""
LOOK_SECONDS = 5.0
SENT_AT_ONCE = 256 << 10
"""Content up to this size that is already in memory is sent in one piece, like any other response; larger content in
parts of this size.
"""

Result = TypeVar("Result")
_of_agents: RunVar[CapacityLimiter] = RunVar("threads for what agents receive")


class Download(Response):
    """The response to a download request; its content is opened when the response is sent.

    Without rules, the client is an agent: it may be as slow as the agent's disk, and only a standstill ends the
    download. If nothing can be opened, sending raises that HoldfastError, provided that nothing has been sent.
    """

    def __init__(
        self, begin: Callable[[threading.Event], Opened], rules: "DownloadRules | None" = None, user_id: int = 0
    ) -> None:
        super().__init__()
        self._begin = begin
        self._rules = rules
        self._user_id = user_id
        self._has_body = True
        self._gone = threading.Event()
        self._opened: Opened | None = None
        self._pace = Pace(rules.least_rate) if rules is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._has_body = scope["method"] != "HEAD"
        watching = asyncio.create_task(self._watch(receive))  # a task group costs as much as reading a small file
        try:
            await self._answer(send)
        finally:
            watching.cancel()

    async def _watch(self, receive: Receive) -> None:
        try:
            while (await receive())["type"] != "http.disconnect":
                continue
        except BodyTooLarge:
            log.info("a request for a download has too large a body")  # the limit sends its own response
        self._gone.set()

    async def _answer(self, send: Send) -> None:
        with ExitStack() as stack:
            try:
                if self._rules is not None:
                    stack.enter_context(self._rules.limits.turn(self._user_id))
                opened = await self._open()
                await self._send_to_the_end(opened, send)
            except ClientGone:
                return
            finally:
                self._gone.set()
                if self._opened is not None and self._opened.close is not None:
                    # Begun at once: a service that stops cancels this task again while it waits for a thread.
                    closing = asyncio.get_running_loop().run_in_executor(None, self._opened.close)
                    with CancelScope(shield=True):
                        await asyncio.shield(closing)

    async def _send_to_the_end(self, opened: Opened, send: Send) -> None:
        try:
            await self._send_or_give_way(opened, send)
        except TimeoutError:
            log.warning("a download was read too slowly and was ended", name=opened.name)
        except (ClientGone, OSError):
            log.info("a download was given up by its reader", name=opened.name)
        except (IncompleteOutput, HoldfastError) as error:
            log.warning("a download was broken off", name=opened.name, reason=str(error))

    async def _open(self) -> Opened:
        if self._rules is None:
            return await self._in_thread(self._begun)
        ticket = LaneTicket(self._rules.wait_seconds)
        return await without_a_thread(self._in_thread, self._begun, self._rules.work, ticket)

    def _begun(self) -> Opened:
        if self._gone.is_set():
            raise ClientGone
        self._opened = opened = self._begin(self._gone)
        if self._gone.is_set() and opened.close is not None:  # nobody waits for it any more
            opened.close()
            raise ClientGone
        return opened

    async def _send_or_give_way(self, opened: Opened, send: Send) -> None:
        if self._rules is None or opened.in_the_way is None:
            await self._send(opened, send)
            return
        failure: Exception | None = None  # stays None if sending is cancelled, which is neither an error nor a result
        async with create_task_group() as tasks:
            tasks.start_soon(self._give_way, opened.name, opened.in_the_way, self._rules, tasks.cancel_scope)
            try:
                await self._send(opened, send)
            except Exception as error:  # noqa: BLE001 - raised again, outside the group that would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _give_way(
        self, name: str, in_the_way: Callable[[], bool], rules: "DownloadRules", sending: CancelScope
    ) -> None:
        """End a slow download once work that needs the repository exclusively has waited long enough."""
        waits_since: float | None = None
        while True:
            await sleep(min(LOOK_SECONDS, rules.gives_way_seconds / 4))
            try:
                is_in_the_way = await self._in_thread(in_the_way)
            except HoldfastError:
                continue
            if not is_in_the_way:
                waits_since = None
                continue
            waits_since = time.monotonic() if waits_since is None else waits_since
            is_due = time.monotonic() - waits_since >= rules.gives_way_seconds
            if is_due and self._pace is not None and self._pace.rate() < rules.slow_rate:
                log.warning("a slow download was ended in favour of waiting work", name=name)
                self._gone.set()
                sending.cancel()
                return

    async def _send(self, opened: Opened, send: Send) -> None:
        """Send the content. If the last message is missing, the response is incomplete and the server breaks off the
        connection.
        """
        await send({"type": "http.response.start", "status": opened.status, "headers": headers(opened)})
        blocks = opened.blocks
        if isinstance(blocks, list) and len(content := b"".join(blocks)) <= SENT_AT_ONCE:
            await send({"type": "http.response.body", "body": content if self._has_body else b"", "more_body": False})
            return
        unsent = iter(blocks)
        while self._has_body and (block := await self._in_thread(lambda: next(unsent, None))) is not None:
            # In parts: the server takes a client that needs too long for one of them for one that reads nothing.
            for start in range(0, len(block), SENT_AT_ONCE):
                await self._send_part(block[start : start + SENT_AT_ONCE], send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_part(self, part: bytes, send: Send) -> None:
        if self._gone.is_set():  # the server then ignores what is sent
            raise ClientGone
        allowed = self._pace.begin(len(part)) if self._pace is not None else STANDSTILL_SECONDS
        with fail_after(allowed):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if self._pace is not None:
            self._pace.end(len(part))

    async def _in_thread(self, call: Callable[[], Result]) -> Result:
        return await to_thread.run_sync(call, limiter=self._rules.threads if self._rules is not None else _threads())


class DownloadRules:
    """Limits for all downloads by users. For use on the service's event loop only."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.limits = DownloadLimits(settings)
        self.work = database.work
        self.wait_seconds = settings.inline_wait_seconds
        self.least_rate = float(settings.download_least_bytes_per_second)
        self.slow_rate = float(settings.download_slow_bytes_per_second)
        self.gives_way_seconds = settings.download_gives_way_seconds
        self._threads: CapacityLimiter | None = None

    @property
    def threads(self) -> CapacityLimiter:
        """Two threads per download: one that reads, and one that checks for waiting work."""
        if self._threads is None:
            self._threads = CapacityLimiter(2 * self.limits.most)
        return self._threads


DOWNLOAD_RULES = Part[DownloadRules]("download_rules")


def _threads() -> CapacityLimiter:
    threads = _of_agents.get(None)
    if threads is None:
        threads = CapacityLimiter(MOST_AT_ONCE)
        _of_agents.set(threads)
    return threads


def headers(opened: Opened) -> list[tuple[bytes, bytes]]:
    fields = {
        "content-type": opened.media_type,
        "content-disposition": disposition(opened.name),
        **opened.more_headers,
    }
    if opened.size is not None:
        fields["content-length"] = str(opened.size)
    return [(name.lower().encode("ascii"), value.encode("ascii")) for name, value in fields.items()]


def disposition(name: str) -> str:
    """The header with the file name: a plain name for old clients, and the exact name if it differs (RFC 5987)."""
    plain = "".join(character if _is_plain(character) else "_" for character in name) or "download"
    exact = "" if name in ("", plain) else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'attachment; filename="{plain}"{exact}'


def _is_plain(character: str) -> bool:
    return character.isascii() and character.isprintable() and character not in '"\\%'


@frozen
class WantedFile:
    """A request for a file of an archive, or only for its headers."""

    downloads: Downloads
    rules: DownloadRules
    user_id: int
    find: Callable[[], FoundArchive]
    """Raises a HoldfastError if the caller may not read the file."""
    path: bytes
    request: Request | None = None
    """Its headers may ask for a range, or for nothing if the client already has the file."""

    async def answer(self) -> Response:
        """A plain request is handled in a single thread visit, while the response is sent."""
        if self.request is not None and (self.request.method == "HEAD" or "If-None-Match" in self.request.headers):
            return await in_thread("other", self.looked_up)
        return Download(lambda gone: self._open(*self._known(), gone), self.rules, self.user_id)

    def looked_up(self) -> Response:
        """The response, once it is certain that the caller may have it. Requests that the index alone can answer do not
        count as downloads.

        Raise Unprocessable, and whatever `find` raises.
        """
        found, content = self._known()
        if content is not None and self.request is not None:
            told = content_headers(content)
            if RequestConditions.by(self.request).is_known(content.etag):
                return Response(status_code=304, headers=told)
            if self.request.method == "HEAD":
                return Response(headers={**told, "Content-Length": str(content.size)}, media_type=ANY_FILE)
        return Download(partial(self._open, found, content), self.rules, self.user_id)

    def _known(self) -> tuple[FoundArchive, Content | None]:
        found = self.find()
        return found, self.downloads.known(found[0], found[1], self.path)

    def _open(self, found: FoundArchive, content: Content | None, gone: threading.Event) -> Opened:
        """Open the requested part of the file. Raise RangeNotSatisfiable."""
        repository, archive, hidden = found
        part: tuple[int, int] | None = None
        if content is not None and self.request is not None and content.is_readable:
            part = RequestConditions.by(self.request).part(content.size, content.etag)
        return self.downloads.file(repository, archive, self.path, gone, hidden, content, part)
