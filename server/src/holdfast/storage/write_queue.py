"""SQLite has one writer at a time. Here threads wait for their turn to write, in the order in which they came.

A lock of the standard library is free for anyone when it is released: a thread that writes again and again takes it
back before a waiting thread has woken up. Here a turn is handed to the thread that has waited longest.
"""

import threading
from collections import deque
from typing import Any

from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool


class WriteQueue:
    """First come, first served."""

    def __init__(self) -> None:
        # Reentrant: a connection that was never closed is returned by the garbage collector, at any instant.
        self._guard = threading.RLock()
        self._waiting: deque[_Ticket] = deque()
        self._holder: _Ticket | None = None

    @property
    def length(self) -> int:
        """How many threads wait."""
        return len(self._waiting)

    def take(self, seconds: float) -> bool:
        """Wait for the turn; false if it did not come in this time.

        Raise RuntimeError if this thread has it already.
        """
        if self._holder is not None and self._holder.thread == threading.get_ident():
            raise RuntimeError("a transaction of this thread is writing already")
        ticket = _Ticket()
        try:
            with self._guard:
                self._waiting.append(ticket)  # before it is looked who is next: so no turn that is given back is missed
                self._next()
            return ticket.called.acquire(timeout=seconds) or not self._leave(ticket)
        except BaseException:  # such as KeyboardInterrupt
            if not self._leave(ticket):
                self.give()
            raise

    def give(self) -> None:
        """Hand the turn to the thread that has waited longest."""
        with self._guard:
            self._holder = None
            self._next()

    def _leave(self, ticket: "_Ticket") -> bool:
        """Wait no longer; false if the turn has come meanwhile."""
        with self._guard:
            try:
                self._waiting.remove(ticket)
            except ValueError:
                return self._holder is not ticket
            return True

    def _next(self) -> None:
        while self._holder is None and self._waiting:
            self._holder = self._waiting.popleft()
            self._holder.called.release()


class _Ticket:
    __slots__ = ("called", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.called = threading.Lock()
        self.called.acquire()


class OneWriterPool(QueuePool):
    """A pool of one connection: the write lock, taken in turn."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.queue = WriteQueue()

    def _do_get(self) -> ConnectionPoolEntry:
        if not self.queue.take(self._timeout):
            raise PoolTimeout(f"no turn to write within {self._timeout:.0f} s; {self.queue.length} threads wait")
        try:
            return super()._do_get()  # at once: only the thread whose turn it is asks for the connection
        except BaseException:
            self.queue.give()
            raise

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        try:
            super()._do_return_conn(record)
        finally:
            self.queue.give()
