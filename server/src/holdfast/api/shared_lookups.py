"""Lets requests that need the same lookup at the same time wait for one of them.

Otherwise each would need a thread: after a commit or a start, hundreds of requests of one user would queue for threads,
for seconds, behind requests that need none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Value = TypeVar("Value")


class SharedLookups(Generic[Value]):
    """`remembered` returns the cached value of a key if it is still valid for a request that has just arrived.

    Without a cache, each request has its own lookup.
    """

    def __init__(self, remembered: Callable[[Hashable], Value | None], *, is_cached: bool) -> None:
        self._remembered = remembered
        self._is_cached = is_cached
        self._running: dict[Hashable, Future[None]] = {}

    async def of(self, key: Hashable, look_up: Callable[[], Awaitable[Value]]) -> Value:
        """Return what another request is about to remember, or look it up."""
        if not self._is_cached:
            return await look_up()
        running = self._running.get(key)
        if running is not None:
            await asyncio.shield(asyncio.wrap_future(running))
            if (known := self._remembered(key)) is not None:  # the other request's lookup is recent enough
                return known
        mine = self._running[key] = Future()
        try:
            return await look_up()
        finally:
            if self._running.get(key) is mine:
                del self._running[key]
            mine.set_result(None)
