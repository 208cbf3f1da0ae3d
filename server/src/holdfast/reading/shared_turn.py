"""The place of a repository's reader in the queue of its lane, shared by all requests that wait for it.

While exclusive work has the lane, requests wait for it to end, without a thread. If each request had its own place, one
reader for each of them would run before the next exclusive operation. So they share one place, behind all exclusive
work that already waits: between two exclusive operations the reader gets at most one turn, and it does get one if a
request is waiting.
"""

import threading
from contextlib import AbstractContextManager, ExitStack

from holdfast.runner.inline import InlineCalls
from holdfast.runner.lane_ticket import LaneNotFree, LaneTicket


class SharedTurn:
    """Safe for use from many threads."""

    def __init__(self, inline: InlineCalls, lane: str) -> None:
        self._inline = inline
        self._lane = lane
        self._guard = threading.Lock()
        self._place = _place()
        self._requests: set[LaneTicket] = set()

    @property
    def is_awaited(self) -> bool:
        """Whether a request that had to wait for the lane is still unanswered."""
        return bool(self._requests)

    @property
    def is_in_the_way(self) -> bool:
        """Whether an exclusive operation waits for the lane and for nothing else."""
        return self._inline.is_waited_for(self._lane)

    def hold(self, request: LaneTicket) -> AbstractContextManager[object]:
        """Hold the lane until the end of the block.

        Raise LaneNotFree; the request then keeps the shared place until it leaves.
        """
        with self._guard, ExitStack() as stack:
            try:
                # Held without a subject, so that no request is refused because a reader still has the lane for a
                # moment.
                stack.enter_context(self._inline.hold(self._lane, ticket=self._place))
            except LaneNotFree:
                self._requests.add(request)
                request.leave = lambda: self._leave(request)
                raise
            finally:
                if self._place.operation_id is None or self._place.is_used:
                    self._place = _place()
            return stack.pop_all()

    def _leave(self, request: LaneTicket) -> None:
        with self._guard:
            self._requests.discard(request)
            if not self._requests and self._place.operation_id is not None:
                self._place.withdraw()
                self._place = _place()


def _place() -> LaneTicket:
    """Return a place without a time limit; each request has its own."""
    return LaneTicket(float("inf"), is_last=True)
