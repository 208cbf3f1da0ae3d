"""A backup source that keeps the real engine at work for exactly as long as a test wants.

It is a named pipe: told to read special files, the engine opens it and waits there until somebody writes. So a test can
know that the engine is in the middle of a backup, look around, and let it go on.
"""

import errno
import os
from pathlib import Path

from tests.support.service import wait_until

FLAG = "--read-special"


class Gate:
    """Closed at first. `wait_until_reached` returns when an engine stands before it, `open` lets that one pass."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        os.mkfifo(path)

    def wait_until_reached(self) -> None:
        if self._descriptor is None:
            self._descriptor = wait_until(self._try, pause=0.02, what=f"the engine reaches {self.path}")

    def open(self, content: bytes = b"passed") -> None:
        """Let the engine that stands here pass: it reads the content, and then the end."""
        self.wait_until_reached()
        assert self._descriptor is not None
        os.write(self._descriptor, content)
        self.forget()

    def forget(self) -> None:
        """Close our end, whether or not anybody still reads."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _try(self) -> int | None:
        """Opening the end for writing succeeds only while somebody has the other one open, or is opening it."""
        try:
            # Never zero: 0 to 2 are taken in every process that runs tests.
            return os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return None
