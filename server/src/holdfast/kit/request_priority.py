"""Make background work give way to requests that read.

Python threads share one lock: beside one computing thread a request takes twice as long, beside two three times. A
thread with much to do therefore lets requests go first. Its waiting time is bounded in proportion to its own work, so
it makes progress however many requests arrive. Only requests that never wait for background work themselves are
counted.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_PAUSE_SECONDS = 0.01
BUSY_SECONDS = 0.25
"""How long after a request more requests are expected."""


class _Requests:
    """Requests that are being answered now. Counted only by the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self.free = threading.Event()
        self.free.set()
        self.last_ended = float("-inf")


class _Own(threading.local):
    seconds = 0.0
    """How long this thread may still give way."""


_requests, _own = _Requests(), _Own()


@contextmanager
def answering() -> Iterator[None]:
    """Count a request while it is being answered. For the event loop."""
    _requests.number += 1
    _requests.free.clear()
    try:
        yield
    finally:
        _requests.number -= 1
        if not _requests.number:
            _requests.last_ended = time.monotonic()
            _requests.free.set()


def has_requests() -> bool:
    """Whether requests are being answered or were a moment ago."""
    return bool(_requests.number) or time.monotonic() - _requests.last_ended < BUSY_SECONDS


@contextmanager
def giving_way_at_most(seconds: float) -> Iterator[None]:
    """Let this thread's calls of `give_way` in the block wait for at most this long in total."""
    _own.seconds = seconds
    try:
        yield
    finally:
        _own.seconds = 0.0


def give_way() -> None:
    """Let requests go first. Does nothing outside `giving_way_at_most`, or if no request is being answered."""
    if _requests.number and _own.seconds > 0:
        began = time.monotonic()
        _requests.free.wait(min(_own.seconds, LONGEST_PAUSE_SECONDS))
        _own.seconds -= time.monotonic() - began


def give_way_for(seconds: float) -> None:
    """Wait between two pieces of work while requests are being answered, for at most this long."""
    with giving_way_at_most(seconds):
        while _requests.number and _own.seconds > 0:
            give_way()
