"""The warm reader of a repository on a server: it reads through `borg serve`, under the engine's shared lock.

While that lock is held, nobody can write to the repository. So the reader also occupies the repository's lane, and it
releases both soon: when nobody has read for a few seconds, when it has had them for ten seconds in all, and, if other
work of the service waits for the lane, after the current read.
"""

import math
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

from holdfast.errors import Unavailable
from holdfast.history.chunks.file_chunks import FileChunks, Part
from holdfast.history.errors import ChunkRouteFailed, GaveWay, HistoryError
from holdfast.kit.change_signal import ChangeSignal
from holdfast.kit.supervisor import Supervisor
from holdfast.reading.shared_turn import SharedTurn
from holdfast.runner.lane_ticket import LaneTicket

IDLE_SECONDS = 3.0
"""How long the lock is kept after the last read."""
LONGEST_SECONDS = 10.0
"""How long the lock is kept in all, even if reads continue: programs outside the service wait for it too, and the
service cannot see them.
"""
LOOK_SECONDS = 0.5
PAUSE_SECONDS = 0.05
"""Pause between two looks at the queue, however often it changes."""
LAST_READ_SECONDS = 5.0
"""How long the current read may take while other work waits; then it is cut off."""
FIRST_READ_SECONDS = 5.0
"""How long a reader keeps the lane for the requests that waited for it, although other work waits too: the requests
came first. Afterwards, or once each of them has read, it is the other work's turn.
"""
STOP_SECONDS = 3.0
"""How long the server may take to release the lock; the same again after the reader was asked to end."""
LEFT_SECONDS = LAST_READ_SECONDS + 2 * STOP_SECONDS + 1.0


class LockedReader:
    """Safe for use from many threads. Its own thread releases the lock and the lane."""

    def __init__(self, files: FileChunks, turn: SharedTurn, work: ChangeSignal, supervisor: Supervisor) -> None:
        self._files = files
        self._turn = turn
        self._work = work
        self._supervisor = supervisor
        self._guard = threading.Lock()
        self._hold = ExitStack()
        self._leaving = threading.Event()
        self._left = threading.Event()
        self._opened_at: float | None = None
        self._used_at = time.monotonic()
        self._reading = 0
        self._has_read = False

    @property
    def is_usable(self) -> bool:
        return self._files.is_usable and not self._leaving.is_set()

    @property
    def repository_id(self) -> str:
        return self._files.repository_id

    def open(self, request: LaneTicket) -> Self:
        """Open the repository and return self.

        Raise LaneNotFree if the lane is taken; the request then waits for it. Raise ChunkRouteFailed if the repository
        cannot be opened.
        """
        self._hold.enter_context(self._turn.hold(request))
        self._supervisor.run_until_done(f"reader of a server {id(self)}", self._watch)
        try:
            self._files.stop_seconds = STOP_SECONDS
            self._files.__enter__()
        except HistoryError as error:
            was_asked = self._leaving.is_set()
            self.end()
            raise (GaveWay("other work waits for the repository") if was_asked else error) from error
        except BaseException:
            self.end()
            raise
        self._opened_at = self._used_at = time.monotonic()
        return self

    def read(self, parts: Sequence[Part]) -> bytes:
        """Read the parts. If other work needs the repository, raise GaveWay after the lock has been released."""
        with self._guard:
            self._reading += 1
        try:
            if self._leaving.is_set():
                raise ChunkRouteFailed("the reader has ended")
            content = self._files.read(parts)
            self._has_read = True
            return content
        except HistoryError as error:
            if not self._leaving.is_set():
                raise
            self._left.wait(LEFT_SECONDS)
            raise GaveWay("other work waits for the repository") from error
        finally:
            with self._guard:
                self._reading -= 1
                self._used_at = time.monotonic()

    def end(self) -> None:
        """Ask the reader to leave, without waiting for it: the caller may be in a transaction, and leaving the lane
        requires one.
        """
        self._leaving.set()
        self._work.notify()

    def wait_until_left(self) -> None:
        self._left.wait(LEFT_SECONDS)

    def _watch(self) -> None:
        wanted_since = math.inf
        while not self._is_time():
            seen, now = self._work.number, time.monotonic()
            wanted_since = min(wanted_since, now) if self._is_waited_for() else math.inf
            is_for_others = self._has_read and not self._turn.is_awaited
            if now - wanted_since >= (0.0 if is_for_others else FIRST_READ_SECONDS):
                break
            self._leaving.wait(PAUSE_SECONDS)
            self._work.wait(seen, LOOK_SECONDS)
        self._leaving.set()
        self._files.leave(LAST_READ_SECONDS)
        self._hold.close()
        self._left.set()

    def _is_time(self) -> bool:
        if self._leaving.is_set() or self._supervisor.stopping.is_set():
            return True
        now, opened_at = time.monotonic(), self._opened_at
        if opened_at is None:
            return False
        is_idle = not self._reading and now - self._used_at > IDLE_SECONDS
        return is_idle or now - opened_at > LONGEST_SECONDS

    def _is_waited_for(self) -> bool:
        try:
            return self._turn.is_in_the_way
        except Unavailable:
            return True
