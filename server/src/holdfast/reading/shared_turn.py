"""The place of a repository's reader in the queue of its lane, for all requests that wait for it.

While exclusive work has the lane, a request waits for its end without a thread. If each had a place of its own, as many
readers would follow each other ahead of the next exclusive operation. So they share one, which goes behind all
exclusive work that waits already: between two exclusive operations a reader has one turn at most, and it has one if a
request waits for it.
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
        """Whether a request that had to wait for the lane has not been answered yet."""
        return bool(self._requests)

    @property
    def is_in_the_way(self) -> bool:
        """Whether an exclusive operation waits for the lane, and for nothing else."""
        return self._inline.is_waited_for(self._lane)

    def hold(self, request: LaneTicket) -> AbstractContextManager[object]:
        """The lane, held until the end of the block.

        Raise LaneNotFree; then the request keeps the place until it leaves.
        """
        with self._guard, ExitStack() as stack:
            try:
                # Without a subject: nobody is refused anything because a reader still has the lane for a moment.
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
    """Each request has a time limit of its own."""
    return LaneTicket(float("inf"), is_last=True)
