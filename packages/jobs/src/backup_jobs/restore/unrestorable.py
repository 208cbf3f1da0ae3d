"""Find entries of an extracted tree that a restore never moves into place: FIFOs, devices, and hard links to files
outside the tree.

An archive can claim that a file is another name of a file elsewhere, and some engines then link that file into the
tree. After the restore, the name would share its content with the other file. Such a file is recognised because it has
more names than the tree contains.

The text of this file is also run by the Python of ssh machines, together with `walking`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from backup_jobs.restore.walking import folders_in, is_above_rights, reached, remove, walk

OUTSIDE_HARD_LINK = "it is a hard link to a file outside the restored folder"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Inode = tuple[int, int]


@dataclass
class Unrestorable:
    outside_links: list[tuple[bytes, int]] = field(default_factory=list)
    """Paths, each with the size of the file it referred to."""
    special: list[bytes] = field(default_factory=list)


def remove_unrestorable(tree: int) -> Unrestorable:
    """Remove such entries from an opened tree and return them."""
    with accessible(tree):
        shared = _shared_with_outside(tree)
        found = Unrestorable()
        for visited in walk(tree):
            for name, status in _names(visited.folders[0]):
                if _inode(status) in shared:
                    found.outside_links.append((_join(visited.path, name), status.st_size))
                elif _is_special(status):
                    found.special.append(_join(visited.path, name))
                else:
                    continue
                remove_name(visited.folders[0], name)
    return found


def _shared_with_outside(tree: int) -> set[Inode]:
    """Files that have more names than the tree contains."""
    missing: dict[Inode, int] = {}
    for visited in walk(tree):
        for _, status in _names(visited.folders[0]):
            if status.st_nlink > 1:
                left = missing.pop(_inode(status), status.st_nlink) - 1
                if left:
                    missing[_inode(status)] = left
    return set(missing)


def _names(folder: int) -> list[tuple[bytes, os.stat_result]]:
    """Everything in a folder except folders."""
    with os.scandir(folder) as entries:
        found = [(os.fsencode(entry.name), entry.stat(follow_symlinks=False)) for entry in entries]
    return [(name, status) for name, status in found if not stat.S_ISDIR(status.st_mode)]


@contextmanager
def accessible(tree: int) -> Iterator[dict[bytes, int]]:
    """Temporarily make every folder readable and writable for its owner; root does not need that.

    Yields the folders that had to be changed, with the modes that are restored later.
    """
    closed: list[tuple[bytes, int]] = []
    if not is_above_rights():
        _open_up(tree, b".", b".", closed)
        for visited in walk(tree):
            for name in folders_in(visited.folders[0]):
                _open_up(visited.folders[0], name, _join(visited.path, name), closed)
    try:
        yield dict(closed)
    finally:
        for path, mode in reversed(closed):
            folder, _, name = path.rpartition(b"/")
            with reached(tree, folder) as descriptor:
                os.chmod(name, mode, dir_fd=descriptor)


def _open_up(folder: int, name: bytes, path: bytes, closed: list[tuple[bytes, int]]) -> None:
    mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        closed.append((path, mode))
        os.chmod(name, mode | stat.S_IRWXU, dir_fd=folder)


class Inside:
    """Looks up names in a tree, opening each folder on the way separately and never through a symbolic link.

    The folder of the last name stays open, as consecutive names of a listing are mostly in the same folder.
    """

    def __init__(self, tree: int) -> None:
        self._tree = tree
        self._path: bytes | None = None
        self._folder = -1

    def find(self, path: bytes) -> os.stat_result | None:
        """The entry with this name; None if there is none, or if the name leads outside the tree."""
        folder, _, name = path.rpartition(b"/")
        if any(part in (b"", b".", b"..") for part in path.split(b"/")):
            return None
        try:
            return os.stat(name, dir_fd=self._descriptor(folder), follow_symlinks=False)
        except (OSError, ValueError):
            return None

    def remove(self, path: bytes) -> None:
        """Remove the entry with this name."""
        folder, _, name = path.rpartition(b"/")
        remove_name(self._descriptor(folder), name)

    def _descriptor(self, folder: bytes) -> int:
        if folder != self._path:
            self.close()
            descriptor = os.dup(self._tree)
            for part in filter(None, folder.split(b"/")):
                try:
                    below = os.open(part, FOLDER, dir_fd=descriptor)
                finally:
                    os.close(descriptor)
                descriptor = below
            self._path, self._folder = folder, descriptor
        return self._folder

    def close(self) -> None:
        if self._path is not None:
            os.close(self._folder)
            self._path = None


def remove_name(folder: int, name: bytes) -> None:
    """Remove an entry with everything below it, keeping the times of its folder."""
    before = os.fstat(folder)
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        remove(folder, name)
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def _is_special(status: os.stat_result) -> bool:
    return not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode))
