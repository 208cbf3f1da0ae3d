"""The folder into which a restore extracts before anything is moved into place.

It is on the destination's file system, so that moving means renaming. Every folder is opened separately, relative to
the one above it and never through a symbolic link: entries created by other users must not lead the restore elsewhere.

The text of this file is also run by the Python of ssh machines, together with the modules that it imports.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from backup_engine.protected_places import OWN, ProtectedPlaces
from backup_jobs.restore.existing_files import FILE_THERE, FOLDER_THERE
from backup_jobs.restore.tree_mover import Folders, MoveResult, TreeMover, count_files
from backup_jobs.restore.walking import OPEN, reached, remove, walk

PREFIX = ".holdfast-restore-"
PRIVATE_NAME = re.compile(re.escape(PREFIX) + r"(?P<uuid>[0-9a-f]{32})")
TREE = "tree"
MODE = 0o700
"""Mode of folders that a restore creates itself: a folder above may have protected the restored files."""
PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class DestinationUnusable(Exception):
    """The destination is not a folder that a restore may write to. The message explains why."""

    key = "restore.destination_unusable"

    @staticmethod
    def because(reason: str) -> DestinationUnusable:
        return DestinationUnusable(f"The destination cannot be used: {reason}.")


class DestinationIsLink(DestinationUnusable):
    key = "restore.destination_is_link"


class DestinationForbidden(DestinationUnusable):
    """The destination is inside a protected place."""

    key = "restore.destination_forbidden"


FORBIDDEN = "The destination is inside a repository or the backup program's own data."


def inspect(path: bytes) -> None:
    """Raise DestinationUnusable if the path cannot become the destination, as far as can be seen without writing."""
    place = b""
    for part in _parts(path):
        place += b"/" + part
        try:
            mode = os.lstat(place).st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise DestinationUnusable.because(error.strerror or "it cannot be read") from error
        _require_folder(place, mode)


@contextmanager
def opened(path: bytes, *, make: bool = False) -> Iterator[int]:
    """Open a folder component by component and yield its descriptor. Raise DestinationUnusable if one is not a
    folder.
    """
    parts = _parts(path)
    descriptor = os.open("/", PASS_THROUGH if parts else OPEN)
    place = b""
    try:
        for number, part in enumerate(parts, 1):
            place += b"/" + part
            inner = _enter(descriptor, part, place, OPEN if number == len(parts) else PASS_THROUGH, make=make)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _enter(above: int, part: bytes, place: bytes, flags: int, *, make: bool) -> int:
    if make:
        with suppress(OSError):
            os.mkdir(part, MODE, dir_fd=above)
    try:
        return os.open(part, flags, dir_fd=above)
    except OSError as error:
        with suppress(FileNotFoundError):
            _require_folder(place, os.stat(part, dir_fd=above, follow_symlinks=False).st_mode)
        raise DestinationUnusable.because(f"{_readable(place)}: {error.strerror}") from error


def _require_folder(place: bytes, mode: int) -> None:
    if stat.S_ISLNK(mode):
        sentence = "is a symbolic link, and restores do not write through links. Use the folder that it points to."
        raise DestinationIsLink(f"The place {_readable(place)} {sentence}")
    if not stat.S_ISDIR(mode):
        raise DestinationUnusable.because(f"{_readable(place)} is not a folder")


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part]


def _readable(path: bytes) -> str:
    return path.decode("utf-8", "replace")


def deepest_folder(path: bytes, names: list[bytes]) -> bytes:
    """Follow names below a folder; return the deepest path that is a real folder now."""
    for name in names:
        following = path.rstrip(b"/") + b"/" + name
        try:
            if not stat.S_ISDIR(os.lstat(following).st_mode):
                return path
        except OSError:
            return path
        path = following
    return path


@dataclass(frozen=True)
class Source:
    """A folder of the tree, its archived path, and the names in it to move; None means all of them."""

    folder: int
    path: bytes
    names: tuple[bytes, ...] | None = None


class PrivateTree:
    """`base` is the folder that contains the private folder. Files are moved to the destination, by default `base`."""

    def __init__(
        self, base: bytes, key: str, guard: ProtectedPlaces | None = None, destination: bytes | None = None
    ) -> None:
        self.base = base
        self.name = PREFIX + key
        self._guard = guard or ProtectedPlaces()
        self._destination = base if destination is None else destination

    @property
    def path(self) -> bytes:
        return b"/".join((self.base.rstrip(b"/"), os.fsencode(self.name), TREE.encode()))

    def make(self) -> None:
        """Create an empty private folder, replacing an earlier one. Raise DestinationUnusable."""
        if self._guard.holds(self._destination):
            raise DestinationForbidden(FORBIDDEN)
        self.remove()
        with opened(self.base, make=True) as base:
            try:
                os.mkdir(self.name, MODE, dir_fd=base)
                folder = os.open(self.name, OPEN, dir_fd=base)
                try:
                    os.mkdir(TREE, MODE, dir_fd=folder)
                finally:
                    os.close(folder)
            except OSError as error:
                raise DestinationUnusable.because(error.strerror or "it cannot be written to") from error

    @contextmanager
    def tree(self) -> Iterator[int]:
        """Open the extracted tree. Raise DestinationUnusable if it is gone or was replaced."""
        with opened(self.path) as descriptor:
            if os.fstat(descriptor).st_uid != os.geteuid():
                raise DestinationUnusable.because("the private folder was replaced by another one")
            yield descriptor

    def remove(self) -> None:
        with suppress(DestinationUnusable), opened(self.base) as base:
            remove_folder(base, self.name)

    def count(self) -> tuple[int, int]:
        """The number of extracted files, and their total size."""
        with self.tree() as tree:
            return count_files(tree)

    def sources(self, roots: tuple[bytes, ...]) -> Iterator[Source]:
        """The sources of the move: the whole tree, or for each root its contents, or the root itself if it is a
        file.
        """
        with self.tree() as tree:
            yield from _sources(tree, roots)

    def conflicts(self, roots: tuple[bytes, ...]) -> list[tuple[bytes, str]]:
        """Files to move that already exist at the destination."""
        found: list[tuple[bytes, str]] = []
        with opened(self._destination) as target:
            for source in self.sources(roots):
                _find_conflicts(source, target, self._destination, self._guard, found)
        return sorted(found)

    def place(
        self,
        roots: tuple[bytes, ...],
        overwrite: str,
        is_cancelled: Callable[[], bool],
        folders: Folders | None = None,
        report: Callable[[int], None] | None = None,
    ) -> MoveResult:
        """Move everything into place. `folders` are existing folders that receive their archived times and modes."""
        mover = TreeMover(overwrite, folders or {}, is_cancelled, report or _report_nothing, self._guard)
        with opened(self._destination) as target:
            for source in self.sources(roots):
                if source.names is None:
                    mover.contents(source.folder, target, source.path, self._destination)
                for name in source.names or ():
                    mover.single(source.folder, target, source.path, name, self._destination)
        return mover.result


def _report_nothing(moved: int) -> None:
    del moved


def _sources(tree: int, roots: tuple[bytes, ...]) -> Iterator[Source]:
    if not roots:
        yield Source(tree, b"")
    for root in roots:
        folder, _, name = root.rpartition(b"/")
        with suppress(FileNotFoundError):  # not extracted, or moved before the restore was interrupted
            with reached(tree, folder) as source:
                if not stat.S_ISDIR(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode):
                    yield Source(source, folder, (name,))
                    continue
            with reached(tree, root) as source:
                yield Source(source, root)


def _find_conflicts(
    source: Source, target: int, place: bytes, guard: ProtectedPlaces, found: list[tuple[bytes, str]]
) -> None:
    for visited in walk(source.folder, target, path=source.path):
        mine, theirs = visited.folders
        is_first = visited.path == source.path
        if not is_first and guard.is_own(theirs):
            visited.below = []
            continue
        inner = place.rstrip(b"/") + b"/" + visited.path[len(source.path) :].lstrip(b"/")
        minded: Mapping[bytes, str] = guard.names_in(theirs, place if is_first else inner)
        names = source.names if is_first and source.names is not None else _names(mine)
        visited.below = []
        for name in names:
            there = 0 if minded.get(name) == OWN else _mode_at(theirs, name)
            if there == 0:
                continue
            if stat.S_ISDIR(there) and stat.S_ISDIR(os.stat(name, dir_fd=mine, follow_symlinks=False).st_mode):
                visited.below.append(name)
            else:
                found.append((_join(visited.path, name), FOLDER_THERE if stat.S_ISDIR(there) else FILE_THERE))


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def _names(folder: int) -> list[bytes]:
    return sorted(os.fsencode(name) for name in os.listdir(folder))


def _mode_at(folder: int, name: bytes) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def leftovers(base: int) -> dict[str, str]:
    """The private folders in a folder, by key."""
    return {found["uuid"]: name for name in os.listdir(base) if (found := PRIVATE_NAME.fullmatch(name))}


def remove_folder(base: int, name: str) -> None:
    """Remove one of the restore's own folders with everything in it, as far as possible."""
    with suppress(OSError):
        remove(base, os.fsencode(name))
