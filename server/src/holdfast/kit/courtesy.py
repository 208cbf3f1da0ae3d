"""Background work gives way to requests that read.

Threads of Python share one lock: while a thread computes, a request takes twice as long, beside two threads three
times. A thread that has much to do therefore lets requests go first. How long it waits for them is bounded by its own
work, so it goes on however many requests come. Only those count that never wait for background work themselves.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_PAUSE_SECONDS = 0.01
BUSY_SECONDS = 0.25
"""How long after a request more of them are to be expected."""


class _Requests:
    """Those that are being answered now. Counted by the event loop alone."""

    def __init__(self) -> None:
        self.number = 0
        self.free = threading.Event()
        self.free.set()
        self.last_ended = float("-inf")


class _Own(threading.local):
    seconds = 0.0
    """For how long this thread still gives way."""


_requests, _own = _Requests(), _Own()


@contextmanager
def answering() -> Iterator[None]:
    """A request is being answered. For the event loop."""
    _requests.number += 1
    _requests.free.clear()
    try:
        yield
    finally:
        _requests.number -= 1
        if not _requests.number:
            _requests.last_ended = time.monotonic()
            _requests.free.set()


def is_asked() -> bool:
    """Whether requests are being answered, or were a moment ago."""
    return bool(_requests.number) or time.monotonic() - _requests.last_ended < BUSY_SECONDS


@contextmanager
def shown(seconds: float) -> Iterator[None]:
    """What this thread does meanwhile gives way where it calls `give_way`, in all for at most this long."""
    _own.seconds = seconds
    try:
        yield
    finally:
        _own.seconds = 0.0


def give_way() -> None:
    """Let requests go first. Does nothing where no courtesy is shown, and costs nothing where none is asked for."""
    if _requests.number and _own.seconds > 0:
        began = time.monotonic()
        _requests.free.wait(min(_own.seconds, LONGEST_PAUSE_SECONDS))
        _own.seconds -= time.monotonic() - began


def give_way_for(seconds: float) -> None:
    """Let requests go first that are being answered, for at most this long. For between two pieces of work."""
    with shown(seconds):
        while _requests.number and _own.seconds > 0:
            give_way()
