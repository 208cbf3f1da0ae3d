"""A request that waits for a lane without a thread.

The use case is called in a thread. If its lane is not free, it is left with `LaneNotFree` before it has changed
anything, keeps its place in the queue by its ticket, and is called again from the start when the lane may be free.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from holdfast.kit.wake import Wake

SHORTEST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0

Result = TypeVar("Result")
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class LaneNotFree(Exception):
    """The lane is held by other work, and the caller may wait without this thread."""


class LaneTicket:
    """The place of one request in the queue of one lane."""

    def __init__(self, seconds: float) -> None:
        self.deadline = 0.0
        self.restart(seconds)
        self.operation_id: int | None = None
        self.wanted: tuple[str, str] | None = None
        """The lane and mode of the operation in the queue."""
        self.is_used = False
        """A request that holds a lane, or has held one, has done something: it is not called again."""
        self.withdraw: Callable[[], object] = lambda: None

    def restart(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()


TICKET: ContextVar[LaneTicket | None] = ContextVar("lane ticket", default=None)
GIVES_WAY: ContextVar[bool] = ContextVar("gives way", default=False)
"""Whether engines of this request run at a lower priority than others."""


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
        if ticket.operation_id is not None:
            await asyncio.shield(in_thread(ticket.withdraw))


def _with_ticket(ticket: LaneTicket, call: Callable[[], Result]) -> Result:
    token = TICKET.set(ticket)
    try:
        return call()
    finally:
        TICKET.reset(token)
