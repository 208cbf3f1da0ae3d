"""Measures how fast a client reads a download. Only the client's time counts, not that of a slow engine."""

import time
from collections.abc import Callable

WINDOW_SECONDS = 60.0
"""How long in total a client may be below the minimum rate; a faster client catches up."""


class Pace:
    def __init__(self, least: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._least = least
        self._clock = clock
        self._behind = 0.0
        """Seconds by which the reader lags behind the minimum rate."""
        self._bytes = self._earlier_bytes = 0
        self._waited = self._earlier_waited = 0.0
        self._turned = clock()
        self._sending_since: float | None = None

    def begin(self, size: int) -> float:
        """Note that a block is being sent, and return how long it may take."""
        self._turn()
        self._sending_since = self._clock()
        return WINDOW_SECONDS - self._behind + size / self._least

    def end(self, size: int) -> None:
        """Note that the block has been read."""
        took = self._clock() - self._sending_since if self._sending_since is not None else 0.0
        self._sending_since = None
        self._behind = max(0.0, self._behind + took - size / self._least)
        self._bytes += size
        self._waited += took

    def rate(self) -> float:
        """Bytes per second that the client has read recently."""
        sending = self._clock() - self._sending_since if self._sending_since is not None else 0.0
        waited = self._waited + self._earlier_waited + sending
        return (self._bytes + self._earlier_bytes) / waited if waited else float("inf")

    def _turn(self) -> None:
        """Forget measurements older than two windows."""
        if self._clock() - self._turned > WINDOW_SECONDS:
            self._turned = self._clock()
            self._earlier_bytes, self._earlier_waited = self._bytes, self._waited
            self._bytes, self._waited = 0, 0.0
