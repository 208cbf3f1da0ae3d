"""A lock that the kernel releases when its process ends."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked_if_free(file: Path) -> Iterator[bool]:
    """Lock this file and yield True; yield False if another process has locked it.

    The file is created if needed and never removed: removal would let two processes lock it. Raise FileNotFoundError if
    its folder is missing.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)
