"""The identity of a runner, and how others prove that the runner is dead."""

import fcntl
import hashlib
import os
import socket
import uuid
from functools import cache
from pathlib import Path

from backup_engine.created_once import create_once

FOLDER_ID = "folder-id"


def host_id(folder: Path) -> str:
    """Return the identity of this folder on this machine: only processes sharing both see a runner's lock and spools.

    The machine's own identity is not enough: machines made from one image often share it. The lock file of a runner on
    the other machine would then be missing here, and the runner would seem dead.
    """
    return hashlib.sha256(f"{machine_id()} {folder_id(folder)}".encode()).hexdigest()


def folder_id(folder: Path) -> str:
    """Return the identity of a folder, created once by the first process that uses it."""
    return create_once(folder / FOLDER_ID, uuid.uuid4().hex)


@cache
def machine_id() -> str:
    """Return an identity of this machine that survives restarts."""
    for source in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            value = Path(source).read_text().strip()
        except OSError:
            continue
        if value:
            return value
    return f"{socket.gethostname()}-{uuid.getnode():x}"


class Identity:
    """A runner's id, and the lock that it holds as long as its process lives."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.id = uuid.uuid4().hex
        self.host_id = host_id(folder)
        self.lock_file = folder / f"{self.id}.lock"
        self._descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        os.close(self._descriptor)
        self.lock_file.unlink(missing_ok=True)


def is_provably_dead(lock_file: Path) -> bool:
    """Whether the runner that held this lock is certainly gone. A file that cannot be opened proves nothing."""
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
