"""Ensures that only one agent uses a state folder at a time."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from backup_agent import private_files
from backup_agent.places import Places
from backup_agent.problems import AlreadyRunning, Problem

try:
    import fcntl
except ImportError:  # Windows: the engine does not run there either
    fcntl = None  # type: ignore[assignment]


HANDED_ON = "BACKUP_AGENT_LOCK"
"""Variable with the lock's descriptor, for an agent that restarts within its process without releasing the lock."""
PATIENCE_SECONDS, LOOK_SECONDS = 1.0, 0.05
"""Commands that check whether an agent is running also take the lock for an instant."""


@contextmanager
def only_agent(places: Places) -> Iterator[int]:
    """Lock the state folder and yield the lock's descriptor. Raise AlreadyRunning if another process has locked it."""
    if fcntl is None:
        raise Problem("Jobs cannot be run on this system yet.")
    private_files.make_folder(places.state)
    descriptor = _handed_on(places)
    if descriptor is None:
        descriptor = os.open(places.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private_files.FILE_MODE)
    try:
        if not _locked(descriptor):
            raise AlreadyRunning(f"Another agent is already using {places.state}.")
        yield descriptor
    finally:
        os.close(descriptor)


def hand_on(descriptor: int) -> dict[str, str]:
    """Return the environment for a program that replaces this one and inherits the lock."""
    os.set_inheritable(descriptor, True)
    return {**os.environ, HANDED_ON: str(descriptor)}


def _handed_on(places: Places) -> int | None:
    """Return the descriptor inherited from the previous agent in this process, if it belongs to the lock file."""
    given = os.environ.pop(HANDED_ON, "")
    with suppress(OSError, ValueError):
        if os.path.samestat(os.fstat(int(given)), os.stat(places.lock_file)):  # noqa: PTH116
            os.set_inheritable(int(given), False)
            return int(given)
    return None


def _locked(descriptor: int) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOOK_SECONDS)
        else:
            return True


def is_running(places: Places) -> bool:
    if fcntl is None or not places.lock_file.exists():
        return False
    descriptor = os.open(places.lock_file, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
