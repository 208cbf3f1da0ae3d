"""Files of one user: written so that others cannot read them, used only if others cannot change them."""

import os
import stat
from pathlib import Path

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class UntrustedFile(Exception):
    """The file does not belong to this user alone. The message explains why."""


def read(path: Path) -> bytes:
    """Read a file. Raise UntrustedFile if another user, except root, owns it or can write to it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UntrustedFile(f"{path} is not a plain file.")
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & OTHERS_WRITE:
            raise UntrustedFile(
                f"{path} must be owned by root or the user of this program and not be writable by others."
            )
        return file.read()


def created(path: Path) -> int:
    """Create a file that only this user can read. An existing entry is removed, never followed."""
    path.unlink(missing_ok=True)
    return os.open(path, _NEW, 0o600)
