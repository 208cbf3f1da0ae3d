"""The folder into which a restore extracts, before anything is moved into place; and moving it there.

It lies in the destination, so that moving is renaming. Every folder is opened by itself, relative to the one above it and
never through a symbolic link: what somebody else has put there must not lead the restore elsewhere. What is moved
disappears from the tree, so that the work may be broken off at any instant and be done again.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

PREFIX = ".holdfast-restore-"
TREE = "tree"
MODE = 0o700
PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_NAMED = 1000
NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
"""What a file system says that knows no hard links, or not one more to this file."""

KEPT = "kept what is there"
FOLDER_THERE = "a folder is there"
FILE_WHERE_FOLDER = "something that is no folder is there"
OTHER_FILE_SYSTEM = "it belongs on another file system than the destination"


class DestinationUnusable(Exception):
    """The destination is not a folder that a restore may write to. The message says why."""


@contextmanager
def opened(path: bytes, *, make: bool = False) -> Iterator[int]:
    """A descriptor of a folder, reached component by component. Raise DestinationUnusable if something is in the way."""
    parts = [part for part in path.split(b"/") if part]
    descriptor = os.open("/", PASS_THROUGH if parts else OPEN)
    try:
        for number, part in enumerate(parts, 1):
            below = _enter(descriptor, part, OPEN if number == len(parts) else PASS_THROUGH, make=make)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _enter(above: int, part: bytes, flags: int, *, make: bool) -> int:
    if make:
        with suppress(OSError):
            os.mkdir(part, MODE, dir_fd=above)
    try:
        return os.open(part, flags, dir_fd=above)
    except OSError as error:
        told = os.fsdecode(part).encode("utf-8", "replace").decode()
        raise DestinationUnusable(f"The destination cannot be used: {told}: {_reason(error)}.") from error


@dataclass(slots=True)
class Tally:
    files: int = 0
    size: int = 0
    named: list[tuple[bytes, str]] = field(default_factory=list)

    def add(self, path: bytes, reason: str, size: int, files: int = 1) -> None:
        self.files += files
        self.size += size
        if len(self.named) < MOST_NAMED:
            self.named.append((path, reason))


@dataclass(slots=True)
class Placed:
    """What was left where it was; all else was moved."""

    skipped: Tally = field(default_factory=Tally)
    failed: Tally = field(default_factory=Tally)
    cancelled: bool = False


class PrivateTree:
    def __init__(self, destination: bytes, key: str) -> None:
        self._destination = destination
        self._name = PREFIX + key

    @property
    def path(self) -> bytes:
        return b"/".join((self._destination.rstrip(b"/"), os.fsencode(self._name), TREE.encode()))

    def make(self) -> None:
        """Make it anew, empty. Raise DestinationUnusable."""
        self.remove()
        with opened(self._destination, make=True) as base:
            try:
                os.mkdir(self._name, MODE, dir_fd=base)
                folder = os.open(self._name, OPEN, dir_fd=base)
                try:
                    os.mkdir(TREE, MODE, dir_fd=folder)
                finally:
                    os.close(folder)
            except OSError as error:
                raise DestinationUnusable(f"The destination cannot be written to: {_reason(error)}.") from error

    def remove(self) -> None:
        with suppress(DestinationUnusable), opened(self._destination) as base:
            _make_writable(base, self._name)
            shutil.rmtree(self._name, ignore_errors=True, dir_fd=base)

    def count(self) -> tuple[int, int]:
        """The files that were extracted, and their bytes."""
        with opened(self.path) as tree:
            return _count(tree, b".")

    def conflicts(self, roots: tuple[bytes, ...]) -> list[tuple[bytes, str]]:
        """What is at the destination already of the files to be moved."""
        found: list[tuple[bytes, str]] = []
        with opened(self.path) as tree, opened(self._destination) as target:
            for source, prefix in self._sources(tree, roots):
                _find_conflicts(source, target, prefix, found)
        return found

    def place(self, roots: tuple[bytes, ...], overwrite: str, is_cancelled: Callable[[], bool]) -> Placed:
        """Move everything into place: the whole tree, or, with roots, the contents of each directly."""
        placed = Placed()
        with opened(self.path) as tree, opened(self._destination) as target:
            for source, prefix in self._sources(tree, roots):
                _place_contents(source, target, prefix, overwrite, is_cancelled, placed)
        return placed

    def _sources(self, tree: int, roots: tuple[bytes, ...]) -> Iterator[tuple[int, bytes]]:
        """The folders of which the contents are moved. A root that is a file is moved out of a folder of its own."""
        if not roots:
            yield tree, b""
            return
        for number, root in enumerate(roots):
            with suppress(FileNotFoundError), _below(tree, root, number) as source:
                yield source, root


@contextmanager
def _below(tree: int, root: bytes, number: int) -> Iterator[int]:
    """The folder `root` of the tree. A file is first moved alone into a folder, of which the contents are itself."""
    folder, _, name = root.rpartition(b"/")
    alone = b".alone-%d" % number
    above = _descend(tree, folder)
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
                with suppress(FileExistsError):
                    os.mkdir(alone, MODE, dir_fd=above)
                holder = os.open(alone, OPEN, dir_fd=above)
                os.rename(name, name, src_dir_fd=above, dst_dir_fd=holder)
                os.close(holder)
        try:
            source = os.open(name, OPEN, dir_fd=above)
        except FileNotFoundError:
            source = os.open(alone, OPEN, dir_fd=above)
    finally:
        os.close(above)
    try:
        yield source
    finally:
        os.close(source)


def _descend(tree: int, path: bytes) -> int:
    descriptor = os.dup(tree)
    for part in filter(None, path.split(b"/")):
        below = os.open(part, OPEN, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    return descriptor


def _place_contents(
    source: int, target: int, path: bytes, overwrite: str, is_cancelled: Callable[[], bool], placed: Placed
) -> None:
    for name in _names(source):
        if placed.cancelled or is_cancelled():
            placed.cancelled = True
            return
        where = path + b"/" + name if path else name
        found = os.stat(name, dir_fd=source, follow_symlinks=False)
        try:
            if stat.S_ISDIR(found.st_mode):
                _place_folder(source, target, name, where, overwrite, is_cancelled, placed)
                continue
            reason = _put(name, source, target, found, overwrite)
        except OSError as error:
            placed.failed.add(where, _reason(error), *_size_and_files(source, name, found))
            continue
        if reason is not None:
            tally = placed.skipped if overwrite == "skip" else placed.failed
            tally.add(where, reason, found.st_size if stat.S_ISREG(found.st_mode) else 0)


def _place_folder(
    source: int,
    target: int,
    name: bytes,
    path: bytes,
    overwrite: str,
    is_cancelled: Callable[[], bool],
    placed: Placed,
) -> None:
    """Move a folder as a whole where there is none, else what it holds."""
    there = _mode_at(target, name)
    if there == 0:
        _rename_folder(name, source, target)
        return
    if not stat.S_ISDIR(there):
        files, size = _count(source, name)
        (placed.skipped if overwrite == "skip" else placed.failed).add(path, FILE_WHERE_FOLDER, size, files)
        return
    from_folder = os.open(name, OPEN, dir_fd=source)
    try:
        into_folder = os.open(name, OPEN, dir_fd=target)
        try:
            _place_contents(from_folder, into_folder, path, overwrite, is_cancelled, placed)
        finally:
            os.close(into_folder)
    finally:
        os.close(from_folder)


def _put(name: bytes, source: int, target: int, found: os.stat_result, overwrite: str) -> str | None:
    """Move one file. Return why not, if something that is to stay is there."""
    there = _mode_at(target, name)
    if stat.S_ISDIR(there):
        return FOLDER_THERE
    if overwrite == "replace":
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=source)  # a rename between two names of one file leaves both
        return None
    try:
        os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    except FileExistsError:
        other = os.stat(name, dir_fd=target, follow_symlinks=False)
        if (other.st_dev, other.st_ino) != (found.st_dev, found.st_ino):
            return KEPT
        # Linked by this restore before it was broken off.
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if there:
            return KEPT
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
        return None
    os.unlink(name, dir_fd=source)
    return None


def _find_conflicts(source: int, target: int, path: bytes, found: list[tuple[bytes, str]]) -> None:
    for name in _names(source):
        where = path + b"/" + name if path else name
        there = _mode_at(target, name)
        if there == 0:
            continue
        mine = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mine) or not stat.S_ISDIR(there):
            found.append((where, FOLDER_THERE if stat.S_ISDIR(there) else "a file is there"))
            continue
        from_folder, into_folder = os.open(name, OPEN, dir_fd=source), os.open(name, OPEN, dir_fd=target)
        try:
            _find_conflicts(from_folder, into_folder, where, found)
        finally:
            os.close(from_folder)
            os.close(into_folder)


def _rename_folder(name: bytes, source: int, target: int) -> None:
    if os.geteuid() == 0:
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
        return
    # Whoever is not root may only move a folder to another one if they may write to it.
    mode = stat.S_IMODE(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode)
    os.chmod(name, mode | stat.S_IRWXU, dir_fd=source)
    os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    os.chmod(name, mode, dir_fd=target)


def _size_and_files(folder: int, name: bytes, found: os.stat_result) -> tuple[int, int]:
    if stat.S_ISDIR(found.st_mode):
        files, size = _count(folder, name)
        return size, files
    return (found.st_size if stat.S_ISREG(found.st_mode) else 0), 1


def _count(folder: int, name: bytes) -> tuple[int, int]:
    files = size = 0
    for _, folders, names, descriptor in os.fwalk(os.fsdecode(name), dir_fd=folder, follow_symlinks=False):
        for each in (*folders, *names):
            found = os.stat(each, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                continue  # a link to a folder is among the folders, but is a name of its own
            files += 1
            size += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return files, size


def _make_writable(base: int, name: str) -> None:
    """Only root may empty a folder that its owner may not write to."""
    if os.geteuid() == 0:
        return
    with suppress(OSError):
        for _, folders, _, descriptor in os.fwalk(name, dir_fd=base, follow_symlinks=False):
            for folder in folders:
                if stat.S_ISDIR(os.stat(folder, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    os.chmod(folder, MODE, dir_fd=descriptor)


def _mode_at(folder: int, name: bytes) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _names(folder: int) -> list[bytes]:
    return sorted(os.fsencode(name) for name in os.listdir(folder))


def _reason(error: OSError) -> str:
    if error.errno == errno.EXDEV:
        return OTHER_FILE_SYSTEM
    if error.errno == errno.ELOOP:
        return "a symbolic link is in the way"
    return (error.strerror or "it cannot be used").lower()
