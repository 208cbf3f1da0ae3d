"""Loops that never end by an exception: an unexpected error in one turn is logged, and the turn is tried again
after a pause.
"""

import logging
from collections.abc import Callable

from backup_agent.backoff import Backoff

log = logging.getLogger(__name__)

MOST_SECONDS = 60.0


class ResilientLoop:
    """For one loop. The loop handles the errors it expects; this handles all others."""

    def __init__(self, what: str, backoff: Backoff | None = None) -> None:
        self._what = what
        self._backoff = backoff or Backoff(most=MOST_SECONDS)

    def turn(self, work: Callable[[], float]) -> float:
        """Do one turn. Return the seconds until the next: the turn's own value, or increasing ones while it fails."""
        try:
            pause = work()
        except Exception:  # no defect may end a loop that jobs rely on
            seconds = self._backoff.failed()
            log.exception("%s failed unexpectedly; the next attempt is in %.0f s.", self._what, seconds)
            return seconds
        self._backoff.succeeded()
        return pause
