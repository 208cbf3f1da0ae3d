"""Limits how many engines the requests of one user run at the same time on this machine.

Even nice engines delay the service while the kernel works for them, most of all when they start and end. So one
processor is kept free of them: the requests of one user take turns in using the others. Engines on other machines do
not count.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from backup_engine.command import Command
from holdfast.errors import service_stops

LOOK_SECONDS = 0.2

TURNS: ContextVar[threading.Semaphore | None] = ContextVar("engine turns", default=None)
"""The turns of the user who made the current request."""


def turns_of_a_user() -> threading.Semaphore:
    return threading.Semaphore(max(1, len(os.sched_getaffinity(0)) - 1))


@contextmanager
def in_turn(command: Command, stopping: threading.Event) -> Iterator[None]:
    """Wait for the user's turn to run this command, and keep it until the end of the block."""
    turns = TURNS.get()
    if turns is None or command.machine is not None:
        yield
        return
    while not turns.acquire(timeout=LOOK_SECONDS):
        if stopping.is_set():
            raise service_stops()
    try:
        yield
    finally:
        turns.release()
