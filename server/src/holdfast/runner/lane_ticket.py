"""A request that waits for a lane without a thread.

The use case is called in a thread. If its lane is not free, it is left with `LaneNotFree` before it has changed
anything, keeps its place in the queue by its ticket, and is called again from the start when the lane may be free.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from holdfast.kit.wake import Wake
from holdfast.operations.lanes import MAY_START, Verdict

SHORTEST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0

Result = TypeVar("Result")
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class LaneNotFree(Exception):
    """The lane is held by other work, and the caller may wait without this thread."""

    def __init__(self, verdict: Verdict = MAY_START) -> None:
        super().__init__("the lane is not free")
        self.verdict = verdict


class LaneTicket:
    """The place in the queue of one lane: that of one request, or that of a reader which many requests wait for."""

    def __init__(self, seconds: float, *, is_last: bool = False) -> None:
        """`is_last`: its place is behind all exclusive work that waits already, whatever the priority of that."""
        self.is_last = is_last
        self.deadline = 0.0
        self.restart(seconds)
        self.operation_id: int | None = None
        self.wanted: tuple[str, str] | None = None
        """The lane and mode of the operation in the queue."""
        self.is_used = False
        """A request that holds a lane, or has held one, has done something: it is not called again."""
        self.is_read = False
        """Something of the answer has been read before there was a lane: requests that come later do not share it."""
        self.withdraw: Callable[[], object] = lambda: None
        self.leave: Callable[[], object] | None = None
        """Leaves the place that it shares with other requests."""

    def restart(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds

    @property
    def has_begun(self) -> bool:
        return self.is_used or self.is_read

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()


TICKET: ContextVar[LaneTicket | None] = ContextVar("lane ticket", default=None)
GIVES_WAY: ContextVar[bool] = ContextVar("gives way", default=False)
"""Whether engines of this request run at a lower priority than others."""


class ReadingWithoutALane:
    found = False


@contextmanager
def reading_without_a_lane() -> Iterator[ReadingWithoutALane]:
    """Look for an answer that needs no lane.

    Unless it is found, nothing has been read: the request may take its lane.
    """
    reading, ticket = ReadingWithoutALane(), TICKET.get()
    if ticket is not None:
        ticket.is_read = True
    yield reading
    if ticket is not None:
        ticket.is_read = reading.found


async def without_a_thread(in_thread: InThread, call: Callable[[], Result], work: Wake, ticket: LaneTicket) -> Result:
    """Call a use case in a thread, again whenever its lane was not free. Raise Locked when the ticket's time is up."""
    try:
        while True:
            seen = work.number
            try:
                result: Result = await in_thread(partial(_with_ticket, ticket, call))
            except LaneNotFree:
                await asyncio.sleep(SHORTEST_PAUSE_SECONDS)
                await work.changed(seen, min(LONGEST_PAUSE_SECONDS, max(0.0, ticket.seconds_left)))
            else:
                return result
    finally:
        # In a thread of its own: `in_thread` may refuse one, and a place that nobody takes would keep others from the
        # lane.
        if ticket.operation_id is not None:
            await asyncio.shield(asyncio.to_thread(ticket.withdraw))
        if ticket.leave is not None:
            await asyncio.shield(asyncio.to_thread(ticket.leave))


def _with_ticket(ticket: LaneTicket, call: Callable[[], Result]) -> Result:
    token = TICKET.set(ticket)
    try:
        return call()
    finally:
        TICKET.reset(token)
