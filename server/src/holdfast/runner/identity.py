"""Who a runner is, and how others prove that it is dead."""

import fcntl
import os
import socket
import uuid
from functools import cache
from pathlib import Path


@cache
def host_id() -> str:
    """An identity of this machine that survives restarts."""
    for source in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            value = Path(source).read_text().strip()
        except OSError:
            continue
        if value:
            return value
    return f"{socket.gethostname()}-{uuid.getnode():x}"


class Identity:
    """A runner's id, and the lock that it holds for as long as its process lives."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.id = uuid.uuid4().hex
        self.lock_file = folder / f"{self.id}.lock"
        self._descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        os.close(self._descriptor)
        self.lock_file.unlink(missing_ok=True)


def is_provably_dead(lock_file: Path) -> bool:
    """True when the runner that held this lock is gone. A file that cannot be seen proves nothing."""
    try:
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return lock_file.parent.is_dir()
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
