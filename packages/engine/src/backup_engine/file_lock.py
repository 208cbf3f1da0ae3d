"""A lock that the kernel frees when its process ends."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked_if_free(file: Path) -> Iterator[bool]:
    """Hold the lock of this file and yield True; yield False while another process holds it.

    The file is created if needed and stays: removing it would let two hold it. Raise FileNotFoundError without its
    folder.
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
