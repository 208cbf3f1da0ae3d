"""Lets a request wait for a lane without occupying a thread.

The use case is called in a thread. If its lane is not free, it raises `LaneNotFree` before it has changed anything. Its
ticket keeps the place in the queue, and it is called again from the start when the lane may be free.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from holdfast.kit.change_signal import ChangeSignal
from holdfast.operations.lanes import MAY_START, Verdict

SHORTEST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0

Result = TypeVar("Result")
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class LaneNotFree(Exception):
    """Other work holds the lane; the caller may wait without this thread."""

    def __init__(self, verdict: Verdict = MAY_START) -> None:
        super().__init__("the lane is not free")
        self.verdict = verdict


class LaneTicket:
    """A place in the queue of one lane, held by a request or by a reader that many requests wait for."""

    def __init__(self, seconds: float, *, is_last: bool = False) -> None:
        """Create a ticket. `is_last` places it behind all exclusive work that already waits, whatever its priority."""
        self.is_last = is_last
        self.deadline = 0.0
        self.restart(seconds)
        self.operation_id: int | None = None
        self.wanted: tuple[str, str] | None = None
        """The lane and access of the queued operation."""
        self.is_used = False
        """Whether the request has held a lane. It may then have had effects, so it is not called again."""
        self.is_read = False
        """Whether part of the answer was read before the lane was held, so that later requests cannot share it."""
        self.withdraw: Callable[[], object] = lambda: None
        self.leave: Callable[[], object] | None = None
        """Gives up the place that it shares with other requests."""

    def restart(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds

    @property
    def has_begun(self) -> bool:
        return self.is_used or self.is_read

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()


TICKET: ContextVar[LaneTicket | None] = ContextVar("lane ticket", default=None)
LOW_PRIORITY: ContextVar[bool] = ContextVar("low priority", default=False)
"""Whether engines of this request run at a lower priority than others."""


class ReadingWithoutALane:
    found = False


@contextmanager
def reading_without_a_lane() -> Iterator[ReadingWithoutALane]:
    """Look for an answer that needs no lane.

    If none is found, nothing counts as read, and the request may take its lane.
    """
    reading, ticket = ReadingWithoutALane(), TICKET.get()
    if ticket is not None:
        ticket.is_read = True
    yield reading
    if ticket is not None:
        ticket.is_read = reading.found


async def without_a_thread(
    in_thread: InThread, call: Callable[[], Result], work: ChangeSignal, ticket: LaneTicket
) -> Result:
    """Call a use case in a thread, repeatedly until its lane is free. Raise Locked when the ticket's time is up.

    The result may still hold the lane, as a download does until it has been sent. It then gives up the place itself.
    """
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
        # In a separate thread: `in_thread` may refuse one, and an abandoned place in the queue would keep others from
        # the lane.
        if ticket.operation_id is not None and not ticket.is_used:
            await asyncio.shield(asyncio.to_thread(ticket.withdraw))
        if ticket.leave is not None:
            await asyncio.shield(asyncio.to_thread(ticket.leave))


def _with_ticket(ticket: LaneTicket, call: Callable[[], Result]) -> Result:
    token = TICKET.set(ticket)
    try:
        return call()
    finally:
        TICKET.reset(token)
