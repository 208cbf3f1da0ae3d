"""A backup source that keeps the real engine busy for exactly as long as a test wants.

It is a named pipe: when told to read special files, the engine opens it and waits there until the test writes to it. So
the test knows that the engine is in the middle of a backup, and can let it continue.
"""

import errno
import os
from pathlib import Path

from tests.support.service import wait_until

FLAG = "--read-special"


class Gate:
    """Initially closed. `wait_until_reached` returns when an engine is waiting at it; `open` lets that engine pass."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        os.mkfifo(path)

    def wait_until_reached(self) -> None:
        if self._descriptor is None:
            self._descriptor = wait_until(self._try, pause=0.02, what=f"the engine reaches {self.path}")

    def open(self, content: bytes = b"passed") -> None:
        """Let the waiting engine pass: it reads the content, and then the end of the file."""
        self.wait_until_reached()
        assert self._descriptor is not None
        os.write(self._descriptor, content)
        self.forget()

    def forget(self) -> None:
        """Close the writing end, whether or not there is still a reader."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _try(self) -> int | None:
        """Try to open the pipe for writing, which succeeds only while an engine has the other end open or is opening
        it.
        """
        try:
            # Never 0: in every process that runs tests, 0 to 2 are taken.
            return os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return None
