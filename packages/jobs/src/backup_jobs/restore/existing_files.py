"""Detect files that already exist at the destination.

The text of this file is also run by the Python of other machines (`existing_files_there`): it imports only the standard
library.
"""

from __future__ import annotations

import os
import stat

MOST_REMEMBERED = 10_000

FILE_THERE = "a file already exists there"
LINK_THERE = "a symbolic link already exists there"
FOLDER_THERE = "a folder already exists there"
FILE_WHERE_FOLDER = "something other than a folder exists where a folder is needed"


def free_bytes(path: bytes) -> int | None:
    """Free bytes at a path, or at the nearest existing folder above it; None if that cannot be determined."""
    path = path.rstrip(b"/")
    while True:
        try:
            space = os.statvfs(path or b"/")
        except (FileNotFoundError, NotADirectoryError):
            path = path.rpartition(b"/")[0]
        except OSError:
            return None
        else:
            return space.f_bavail * space.f_frsize


class UnknownFiles:
    """A destination that cannot be inspected from here; reports no conflicts."""

    def conflict(self, target: bytes, *, is_directory: bool) -> str | None:
        del target, is_directory
        return None


class ExistingFiles:
    """Checks paths below a destination one by one, never looking through a symbolic link.

    An answer holds only at that moment: code that writes later must not rely on it, as others may change the folder.
    """

    def __init__(self, root: bytes) -> None:
        self._root = root.rstrip(b"/")
        self._folders: dict[bytes, int] = {}

    def conflict(self, target: bytes, *, is_directory: bool) -> str | None:
        """The reason why an item cannot simply be put there; None if the place is free, or both are folders."""
        for folder in _above(target):
            mode = self._folder(folder)
            if mode == 0:
                return None
            if not stat.S_ISDIR(mode):
                return FILE_WHERE_FOLDER
        mode = self._mode(target)
        if mode == 0 or (is_directory and stat.S_ISDIR(mode)):
            return None
        if is_directory:
            return FILE_WHERE_FOLDER
        if stat.S_ISDIR(mode):
            return FOLDER_THERE
        return LINK_THERE if stat.S_ISLNK(mode) else FILE_THERE

    def is_folder(self, target: bytes) -> bool:
        above = all(stat.S_ISDIR(self._folder(folder)) for folder in _above(target))
        return above and stat.S_ISDIR(self._mode(target))

    def _folder(self, folder: bytes) -> int:
        mode = self._folders.get(folder)
        if mode is None:
            if len(self._folders) >= MOST_REMEMBERED:
                self._folders.clear()
            mode = self._folders[folder] = self._mode(folder)
        return mode

    def _mode(self, target: bytes) -> int:
        """The mode of an existing entry; 0 if there is none."""
        try:
            return os.lstat(self._root + b"/" + target).st_mode
        except OSError:
            return 0


def _above(target: bytes) -> list[bytes]:
    """The folders above a path, outermost first."""
    parts = target.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]
