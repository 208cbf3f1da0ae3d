"""Keep loops running: an unexpected exception in one turn is logged, and the turn is retried after a pause."""

import logging
from collections.abc import Callable

from backup_agent.backoff import Backoff

log = logging.getLogger(__name__)

MOST_SECONDS = 60.0


class ResilientLoop:
    """Guards one loop. The loop handles the errors that it expects; this class handles all others."""

    def __init__(self, what: str, backoff: Backoff | None = None) -> None:
        self._what = what
        self._backoff = backoff or Backoff(most=MOST_SECONDS)

    def turn(self, work: Callable[[], float]) -> float:
        """Run one turn. Return the pause until the next: the turn's own value, or increasing pauses while it fails."""
        try:
            pause = work()
        except Exception:  # no bug may end a loop that jobs rely on
            seconds = self._backoff.failed()
            log.exception("%s failed unexpectedly; the next attempt is in %.0f s.", self._what, seconds)
            return seconds
        self._backoff.succeeded()
        return pause
