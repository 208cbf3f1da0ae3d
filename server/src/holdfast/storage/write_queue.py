"""Lets threads write to SQLite, which has one writer at a time, in the order in which they arrive.

When a lock of the standard library is released, any thread may take it: a thread that writes repeatedly takes it back
before a waiting thread has woken up. Here, the turn is passed to the thread that has waited longest.
"""

import threading
from collections import deque
from typing import Any

from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool


class WriteQueue:
    """A first-come, first-served lock."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may return a connection that was never closed at any moment.
        self._guard = threading.RLock()
        self._waiting: deque[_Ticket] = deque()
        self._holder: _Ticket | None = None

    @property
    def length(self) -> int:
        """The number of waiting threads."""
        return len(self._waiting)

    def take(self, seconds: float) -> bool:
        """Wait for the turn; return False if it does not come in this time.

        Raise RuntimeError if this thread already has it.
        """
        if self._holder is not None and self._holder.thread == threading.get_ident():
            raise RuntimeError("a transaction of this thread is writing already")
        ticket = _Ticket()
        try:
            with self._guard:
                self._waiting.append(ticket)  # before the next thread is determined, so that no returned turn is missed
                self._next()
            return ticket.called.acquire(timeout=seconds) or not self._leave(ticket)
        except BaseException:  # such as KeyboardInterrupt
            if not self._leave(ticket):
                self.give()
            raise

    def give(self) -> None:
        """Pass the turn to the thread that has waited longest."""
        with self._guard:
            self._holder = None
            self._next()

    def _leave(self, ticket: "_Ticket") -> bool:
        """Stop waiting; return False if the turn has come in the meantime."""
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
    """A pool of one connection, which serves as the write lock and is taken in turn."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.queue = WriteQueue()

    def _do_get(self) -> ConnectionPoolEntry:
        if not self.queue.take(self._timeout):
            raise PoolTimeout(f"no turn to write within {self._timeout:.0f} s; {self.queue.length} threads wait")
        try:
            return super()._do_get()  # immediate: only the thread whose turn it is requests the connection
        except BaseException:
            self.queue.give()
            raise

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        try:
            super()._do_return_conn(record)
        finally:
            self.queue.give()
