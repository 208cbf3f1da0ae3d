"""One agent works with a state folder at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from backup_agent import private_files
from backup_agent.places import Places
from backup_agent.problems import AlreadyRunning, Problem

try:
    import fcntl
except ImportError:  # Windows: the engine does not run there either
    fcntl = None  # type: ignore[assignment]


@contextmanager
def only_agent(places: Places) -> Iterator[None]:
    """Hold the state folder. Raise AlreadyRunning if another process does."""
    if fcntl is None:
        raise Problem("Jobs cannot be run on this system yet.")
    private_files.make_folder(places.state)
    descriptor = os.open(places.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private_files.FILE_MODE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(f"Another agent already works with {places.state}.") from error
        yield
    finally:
        os.close(descriptor)


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
