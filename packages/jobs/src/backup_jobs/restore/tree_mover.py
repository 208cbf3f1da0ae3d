"""Move an extracted tree into place, never following a symbolic link that already exists there.

Every component is opened separately, relative to the one above it and never through a link. Moved files disappear from
the tree and all others stay. So the work may be interrupted at any time and simply repeated; the restored files are
those of the plan minus those left in the tree.

The text of this file is also run by the Python of ssh machines, together with the modules that it imports.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from backup_engine.protected_places import ABOVE, ABOVE_OWN_PLACE, IN_OWN_PLACE, OWN, ProtectedPlaces
from backup_jobs.restore.existing_files import FILE_THERE, FILE_WHERE_FOLDER, FOLDER_THERE
from backup_jobs.restore.walking import OPEN, ignored, is_above_rights, reached, walk

DEEPEST = 200
"""Maximum depth of folders that exist on both sides: each level keeps two descriptors open."""
MOST_NAMED = 1000
REPORT_EVERY = 1000

OTHER_FILE_SYSTEM = (
    "it belongs on a different file system than the destination; restore it with that folder as the destination"
)
FIRST_MODE = 0o700
TOO_DEEP = "the folders are nested too deeply"
KEPT = "kept the existing file"

NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
"""Errors of a file system that supports no hard links, or no further link to this file."""

Folders = Mapping[bytes, tuple[int, int]]


@dataclass
class Tally:
    files: int = 0
    size: int = 0
    named: list[tuple[bytes, str]] = field(default_factory=list)

    def add(self, path: bytes, reason: str, size: int, files: int = 1) -> None:
        self.files += files
        self.size += size
        if len(self.named) < MOST_NAMED:
            self.named.append((path, reason))


@dataclass
class MoveResult:
    """Files that stayed in the tree. All others were moved."""

    skipped: Tally = field(default_factory=Tally)
    failed: Tally = field(default_factory=Tally)
    passed_over: Tally = field(default_factory=Tally)
    """Files that would have landed in the service's own data or in a repository."""
    attributes: list[tuple[bytes, str]] = field(default_factory=list)
    """Existing folders whose archived attributes could not be set."""
    cancelled: bool = False


@dataclass
class _Level:
    source: int
    target: int
    path: bytes
    place: bytes
    """Path of the target; `path` is the archived path of the source."""
    names: list[bytes]
    minded: Mapping[bytes, str] = field(default_factory=dict)
    """Names in the target that lead to protected places."""
    name: bytes | None = None
    """Name in the level above; None for the top level."""
    made: tuple[int, int] | None = None
    """Time and mode to set if this restore created the target."""


class TreeMover:
    def __init__(
        self,
        overwrite: str,
        folders: Folders,
        is_cancelled: Callable[[], bool],
        report: Callable[[int], None],
        guard: ProtectedPlaces | None = None,
    ) -> None:
        self._guard = guard or ProtectedPlaces()
        self.result = MoveResult()
        self._overwrite = overwrite
        self._folders = folders
        self._is_cancelled = is_cancelled
        self._report = report
        self._moves = 0

    def contents(self, source: int, target: int, path: bytes, place: bytes = b"/") -> None:
        """Move everything in one folder into another.

        `path` is the source's archived path, `place` the target's path.
        """
        stack = [self._level(os.dup(source), os.dup(target), path, place)]
        try:
            while stack and not self._stopped():
                level = stack[-1]
                if level.names:
                    below = self._one(level, level.names.pop(), len(stack))
                    if below is not None:
                        stack.append(below)
                else:
                    stack.pop()
                    self._leave(level, stack[-1] if stack else None)
        finally:
            for level in stack:
                _close(level)

    def _level(
        self,
        source: int,
        target: int,
        path: bytes,
        place: bytes,
        name: bytes | None = None,
        made: tuple[int, int] | None = None,
    ) -> _Level:
        minded = self._guard.names_in(target, place)
        return _Level(source, target, path, place, _names(source), minded, name, made)

    def single(self, source: int, target: int, folder: bytes, name: bytes, place: bytes = b"/") -> None:
        """Move a single item that is not a folder from one folder into another."""
        if self._stopped():
            return
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=source, follow_symlinks=False)
            self._one_file(_Level(source, target, folder, place, [], self._guard.names_in(target, place)), name, found)

    def _stopped(self) -> bool:
        if not self.result.cancelled:
            self.result.cancelled = self._is_cancelled()
        return self.result.cancelled

    # --- one name ---------------------------------------------------------------------------------------------------

    def _one(self, level: _Level, name: bytes, depth: int) -> _Level | None:
        try:
            found = os.stat(name, dir_fd=level.source, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISDIR(found.st_mode):
            self._one_file(level, name, found)
            return None
        if level.minded.get(name) == OWN:
            self._pass_over(level, name)
            return None
        return self._directory(level, name, depth, found)

    def _one_file(self, level: _Level, name: bytes, found: os.stat_result) -> None:
        minded = level.minded.get(name)
        size = found.st_size if stat.S_ISREG(found.st_mode) else 0
        if minded == OWN:
            self.result.passed_over.add(_join(level.path, name), IN_OWN_PLACE, size)
        elif minded == ABOVE:
            self.result.failed.add(_join(level.path, name), ABOVE_OWN_PLACE, size)
        else:
            self._file(level, name, found)

    def _directory(self, level: _Level, name: bytes, depth: int, found: os.stat_result) -> _Level | None:
        """Move a folder as a whole if the target has none of that name; otherwise return the level below."""
        made: tuple[int, int] | None = None
        try:
            there = _mode_at(level.target, name)
            if there == 0 and level.minded.get(name) == ABOVE:
                os.mkdir(name, FIRST_MODE, dir_fd=level.target)
                made = (found.st_mtime_ns, stat.S_IMODE(found.st_mode))
            elif there == 0 and self._moved_as_a_whole(level, name):
                return None
            if stat.S_ISDIR(there or _mode_at(level.target, name)):
                if depth >= DEEPEST:
                    self._fail_all(level, name, TOO_DEEP)
                    return None
                return self._level_below(level, name, made)
        except OSError as error:
            self._fail_all(level, name, _reason(error))
            return None
        self._fail_all(level, name, FILE_WHERE_FOLDER)
        return None

    def _moved_as_a_whole(self, level: _Level, name: bytes) -> bool:
        """Rename the folder into place. This can replace only an empty folder created at that instant."""
        try:
            _rename_folder(name, level.source, level.target)
        except (FileExistsError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                return False
            raise
        self._note_move()
        return True

    def _level_below(self, level: _Level, name: bytes, made: tuple[int, int] | None) -> _Level | None:
        target = os.open(name, OPEN, dir_fd=level.target)
        if self._guard.is_own(target):
            os.close(target)
            self._pass_over(level, name)
            return None
        try:
            source = _open_source(level.source, name)
        except OSError:
            os.close(target)
            raise
        place = level.place.rstrip(b"/") + b"/" + name
        return self._level(source, target, _join(level.path, name), place, name, made)

    def _file(self, level: _Level, name: bytes, found: os.stat_result) -> None:
        path = _join(level.path, name)
        size = found.st_size if stat.S_ISREG(found.st_mode) else 0
        try:
            if self._overwrite == "replace":
                reason = _replace(name, level.source, level.target)
            else:
                reason = _put(name, level.source, level.target, found)
        except OSError as error:
            self.result.failed.add(path, _reason(error), size)
            return
        if reason is None:
            self._note_move()
        elif self._overwrite == "skip":
            self.result.skipped.add(path, reason if reason != FILE_THERE else KEPT, size)
        else:
            self.result.failed.add(path, reason, size)

    def _fail_all(self, level: _Level, name: bytes, reason: str) -> None:
        """Leave a folder with all its contents behind. With `skip`, this counts as keeping the existing files."""
        files, size = count_files(level.source, name)
        kept = self._overwrite == "skip" and reason == FILE_WHERE_FOLDER
        tally = self.result.skipped if kept else self.result.failed
        tally.add(_join(level.path, name), reason, size, files)

    def _pass_over(self, level: _Level, name: bytes) -> None:
        """Leave a folder with all its contents behind because the existing one is protected."""
        files, size = count_files(level.source, name)
        self.result.passed_over.add(_join(level.path, name), IN_OWN_PLACE, size, files)

    def _note_move(self) -> None:
        self._moves += 1
        if self._moves % REPORT_EVERY == 0:
            self._report(self._moves)

    # --- leaving a folder -------------------------------------------------------------------------------------------

    def _leave(self, level: _Level, above: _Level | None) -> None:
        known = self._folders.get(level.path) if self._overwrite != "skip" else None
        archived = level.made or known
        if level.name is not None and archived is not None:
            try:
                _give_attributes(level.source, level.target, *archived)
            except OSError as error:
                self.result.attributes.append((level.path, _reason(error)))
        _close(level)
        if above is not None and level.name is not None:
            with suppress(OSError):
                os.rmdir(level.name, dir_fd=above.source)


def count_files(folder: int, name: bytes | str = ".") -> tuple[int, int]:
    """The number of entries below a folder that are not folders, and the total size of the regular files among them."""
    files = size = 0
    with suppress(FileNotFoundError), reached(folder, os.fsencode(name)) as top:
        for visited in walk(top, unreadable=ignored):
            with suppress(PermissionError), os.scandir(visited.folders[0]) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(found.st_mode):
                        files += 1
                        size += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return files, size


def _put(name: bytes, source: int, target: int, found: os.stat_result) -> str | None:
    """Move a file to a free place. Return the reason if it is not free."""
    try:
        os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    except FileExistsError:
        there = os.stat(name, dir_fd=target, follow_symlinks=False)
        if (there.st_dev, there.st_ino) != (found.st_dev, found.st_ino):
            return FOLDER_THERE if stat.S_ISDIR(there.st_mode) else FILE_THERE
        # Linked by this restore before it was interrupted.
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if _mode_at(target, name):
            return FILE_THERE
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
        return None
    os.unlink(name, dir_fd=source)
    return None


def _replace(name: bytes, source: int, target: int) -> str | None:
    """Move a file over an existing entry unless that is a folder. An existing link is replaced, not followed."""
    try:
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    except IsADirectoryError:
        return FOLDER_THERE
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=source)  # renaming between two names of the same file leaves both
    return None


def _rename_folder(name: bytes, source: int, target: int) -> None:
    if is_above_rights():
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
        return
    # Only root may move a folder that it has no write permission for.
    mode = stat.S_IMODE(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode)
    os.chmod(name, mode | stat.S_IRWXU, dir_fd=source)
    os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    os.chmod(name, mode, dir_fd=target)


def _open_source(folder: int, name: bytes) -> int:
    if not is_above_rights():
        mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        os.chmod(name, mode | stat.S_IRWXU, dir_fd=folder)
    return os.open(name, OPEN, dir_fd=folder)


def _give_attributes(source: int, target: int, changed: int, mode: int) -> None:
    """Set owner, mode, extended attributes and time of a folder; the time last, because everything else changes it."""
    found = os.fstat(source)
    if os.geteuid() == 0:
        os.fchown(target, found.st_uid, found.st_gid)
    os.fchmod(target, mode)
    refused: OSError | None = None
    for attribute in os.listxattr(source):
        try:
            os.setxattr(target, attribute, os.getxattr(source, attribute))
        except OSError as error:
            refused = error
    os.utime(target, ns=(found.st_atime_ns, changed))
    if refused is not None:
        raise refused


def _mode_at(folder: int, name: bytes) -> int:
    """The mode of the folder's entry with this name; 0 if there is none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _names(folder: int) -> list[bytes]:
    """Names in reverse order, to pop from the end."""
    return sorted((os.fsencode(name) for name in os.listdir(folder)), reverse=True)


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def _close(level: _Level) -> None:
    os.close(level.source)
    os.close(level.target)


def _reason(error: OSError) -> str:
    if error.errno == errno.EXDEV:
        return OTHER_FILE_SYSTEM
    return (error.strerror or "it could not be moved").lower()
