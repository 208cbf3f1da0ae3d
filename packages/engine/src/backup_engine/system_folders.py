"""Folders that make up a system: write access to them can give administrator rights."""

import os
from contextlib import suppress
from pathlib import Path

SYSTEM = (
    *("/etc", "/usr", "/boot", "/root", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/proc", "/sys", "/dev", "/run", "/var/run", "/var/spool/cron", "/System", "/Library"),
)


def overlaps_system(target: bytes, *, here: bool) -> bool:
    """Whether something restored to or below a path could end up in a folder of the system.

    Compares names; for a path on this machine also device and inode, so that other names of these folders are found.
    """
    names = {os.fsencode(name) for name in SYSTEM}
    if here:
        names |= {os.path.realpath(name) for name in names}
        if ({_inode(name) for name in names} - {None}) & _inodes_on_the_way(target):
            return True
    return any(is_within(target, name) or is_within(name, target) for name in names)


def is_within(path: bytes, folder: bytes) -> bool:
    """Whether a normalised absolute path equals another one or is below it."""
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")


def _inodes_on_the_way(path: bytes) -> set[tuple[int, int] | None]:
    """Inodes of the path and of each folder above it, as far as they exist."""
    parts = [part for part in path.split(b"/") if part]
    return {_inode(b"/" + b"/".join(parts[:count])) for count in range(1, len(parts) + 1)}


def _inode(path: bytes) -> tuple[int, int] | None:
    with suppress(OSError):
        found = Path(os.fsdecode(path)).stat()
        return found.st_dev, found.st_ino
    return None
