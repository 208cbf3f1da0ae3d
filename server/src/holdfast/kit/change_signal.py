"""A notification, for any number of waiting threads and tasks, that something may have changed."""

import asyncio
import threading
import time

LOOK_SECONDS = 0.05


class ChangeSignal:
    """Waiters remember the last number they saw, so that no notification is missed while they are busy."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._number = 0

    @property
    def number(self) -> int:
        return self._number

    def notify(self) -> None:
        with self._condition:
            self._number += 1
            self._condition.notify_all()

    def wait(self, seen: int, seconds: float) -> int:
        """Wait until the number differs from the one seen or the time is up; return the current number."""
        with self._condition:
            self._condition.wait_for(lambda: self._number != seen, seconds)
            return self._number

    async def changed(self, seen: int, seconds: float) -> None:
        """Like `wait`, but for a task of an event loop: it takes no thread."""
        end = time.monotonic() + seconds
        while self._number == seen and time.monotonic() < end:  # noqa: ASYNC110 - threads call `notify`
            await asyncio.sleep(LOOK_SECONDS)
