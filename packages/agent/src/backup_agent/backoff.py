"""Pause before the next attempt: grows with each failure and is randomised, so that machines do not retry together."""

import random
from collections.abc import Callable

FIRST_SECONDS = 1.0
MOST_SECONDS = 300.0


class Backoff:
    def __init__(
        self,
        first: float = FIRST_SECONDS,
        most: float = MOST_SECONDS,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._first = first
        self._most = most
        self._chance = chance
        self._failures = 0

    @property
    def failures(self) -> int:
        """Number of consecutive failures."""
        return self._failures

    def failed(self, at_least: float = 0.0) -> float:
        """Record a failure and return the seconds to wait. `at_least` is the `Retry-After` of the service."""
        ceiling: float = min(self._most, self._first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        spread = ceiling * (0.5 + 0.5 * self._chance())
        return max(spread, min(at_least, self._most) * (1 + 0.1 * self._chance()))

    def succeeded(self) -> None:
        self._failures = 0
