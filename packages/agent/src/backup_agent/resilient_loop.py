"""Loops that never end by an exception: an unexpected error in one turn is logged, and the turn is tried again after a pause."""

import logging
from collections.abc import Callable

from backup_agent.backoff import Backoff

log = logging.getLogger(__name__)

MOST_SECONDS = 60.0


class ResilientLoop:
    """For one loop. Whatever it knows how to handle it handles itself; this is for all the rest."""

    def __init__(self, what: str, backoff: Backoff | None = None) -> None:
        self._what = what
        self._backoff = backoff or Backoff(most=MOST_SECONDS)

    def turn(self, work: Callable[[], float]) -> float:
        """Do one turn. Return the seconds until the next: what the turn says, or longer and longer while it fails."""
        try:
            pause = work()
        except Exception:  # no mistake, here or elsewhere, ends what jobs rely on
            seconds = self._backoff.failed()
            log.exception("%s failed in a way that nobody expected; the next try is in %.0f s.", self._what, seconds)
            return seconds
        self._backoff.succeeded()
        return pause
