"""Determine without an engine whether a repository on this machine is unchanged, from facts about its files but not
their content.

Equal states prove that the engine would answer a question about archives as before. They consist of what every change
of a repository must touch (measured with the engines themselves, see docs/decisions/0066-answers-with-a-proof.md):

- Major 1 writes each change into new segments (``data/N/``), and a new ``index``, ``hints`` and ``integrity`` file.
- Major 2 writes files under new names, or replaces files, in the folders of its store.
- The engine's own record of the repository decides whether the engine opens the repository at all.

If this cannot be proven, there is no state: while the repository is locked, on file systems that may not record every
change, with links or special files among its files, or with too many files. A state is *settled* if its newest change
is so old that a later one must have a different time, however coarse the file system's clock is.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from heapq import nlargest
from pathlib import Path

from backup_engine.command import Command
from backup_engine.frozen import frozen
from backup_engine.repository_guard import RECORD, record_folder

SETTLED_SECONDS = 2
MOST_FACTS = 2000
MOST_NAMES = 20_000
NEWEST_SEGMENTS = 4
LINUX_FILE_SYSTEMS = {
    "bcachefs": 0xCA451A4E,
    "btrfs": 0x9123683E,
    "ext": 0xEF53,
    "f2fs": 0xF2F52010,
    "jfs": 0x3153464A,
    "overlay": 0x794C7630,
    "tmpfs": 0x01021994,
    "xfs": 0x58465342,
    "zfs": 0x2FC12FC1,
}
"""File systems known to record every change of a file at once, by this machine's clock: no network file systems, no
FUSE.
"""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC
_LOCK_1, _ENTRIES_OF_LOCK_1 = "lock.exclusive", "lock."
_LOCKS_2 = "locks"
_READ_WHOLE_2 = ("config", "index", "keys", "packs")


@frozen
class RepositoryPlace:
    """A repository's folder on this machine, and the files in which the local engine keeps its records of it."""

    major: int
    folder: str
    records: tuple[str, ...]


@frozen
class RepositoryState:
    digest: bytes
    is_settled: bool = field(compare=False)


class _NotProvable(Exception):
    pass


def place_of(command: Command) -> RepositoryPlace | None:
    """The place of the repository that a command reads; None if it is not on this machine, or not known yet."""
    guard = command.guard
    if command.machine is not None or guard is None or guard.path is None or guard.engine_id is None:
        return None
    return RepositoryPlace(guard.major, guard.path, tuple(_records(guard.major, guard.engine_id, command.environment)))


def _records(major: int, engine_id: str, environment: Mapping[str, str]) -> Iterator[str]:
    folder = Path(record_folder(major, dict(environment), engine_id))
    yield from (str(folder / name) for name in RECORD)
    if major == 1:
        yield str(Path(environment["BORG_BASE_DIR"], ".cache", "borg", engine_id, "config"))


def state_of(place: RepositoryPlace) -> RepositoryState | None:
    """The current state of a repository; None if nothing can be proven."""
    look, now = _Look(), time.time_ns()
    try:
        with _opened(place.folder) as folder:
            look.at_top(folder)
            _OF_MAJOR[place.major](look, folder)
        for record in place.records:
            look.at_record(record)
    except (OSError, _NotProvable):
        return None
    digest = hashlib.blake2b(repr(look.facts).encode("utf-8", "surrogateescape"), digest_size=32).digest()
    return RepositoryState(digest, look.newest < now - SETTLED_SECONDS * 1_000_000_000)


class _Look:
    """Collects a limited number of facts about files."""

    def __init__(self) -> None:
        self.facts: list[object] = []
        self.newest = 0
        self._names = 0
        self._device = 0

    def at_top(self, folder: int) -> None:
        """Record facts about the repository's folder, but not its times: they change with every lock."""
        if _file_system(folder) not in LINUX_FILE_SYSTEMS.values():
            raise _NotProvable
        found = os.fstat(folder)
        self._device = found.st_dev
        self.facts.append((found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_gid))
        self.facts.append(os.fstatvfs(folder).f_flag)

    def names(self, folder: int) -> Iterator[os.DirEntry[str]]:
        if os.fstat(folder).st_dev != self._device:
            raise _NotProvable
        with os.scandir(folder) as entries:
            for entry in entries:
                self._names += 1
                if self._names > MOST_NAMES:
                    raise _NotProvable
                yield entry

    def at(self, entry: os.DirEntry[str]) -> None:
        found = entry.stat(follow_symlinks=False)
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise _NotProvable
        self._note(entry.name, found)

    def at_record(self, path: str) -> None:
        try:
            self._note(path, os.lstat(path))
        except FileNotFoundError:
            self.facts.append((path, None))

    def _note(self, name: str, found: os.stat_result) -> None:
        if len(self.facts) >= MOST_FACTS:
            raise _NotProvable
        self.newest = max(self.newest, found.st_ctime_ns)
        which = (name, found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_gid)
        self.facts.append((*which, found.st_size, found.st_mtime_ns, found.st_ctime_ns))


def _look_at_1(look: _Look, folder: int) -> None:
    """Record facts about a repository of major 1.

    A commit without an index yet shows by its segment, the removal of an old segment by the folder that contained it.
    """
    for entry in _sorted(look.names(folder)):
        if entry.name == _LOCK_1:
            raise _NotProvable
        if not entry.name.startswith(_ENTRIES_OF_LOCK_1):
            look.at(entry)
    with _opened("data", folder) as data:
        folders = _sorted(look.names(data))
        for entry in folders:
            look.at(entry)
        for newest in _newest(folders, 1):
            with _opened(newest.name, data) as segments:
                for segment in _newest(list(look.names(segments)), NEWEST_SEGMENTS):
                    look.at(segment)


def _look_at_2(look: _Look, folder: int) -> None:
    """Record facts about a repository of major 2.

    The folder with the archives' names need not be read: each change in it adds, removes or renames a file, which
    changes the folder itself.
    """
    for entry in _sorted(look.names(folder)):
        if entry.name != _LOCKS_2:
            look.at(entry)
        if entry.name in _READ_WHOLE_2:
            with _opened(entry.name, folder) as below:
                for file in _sorted(look.names(below)):
                    look.at(file)
        elif entry.name == _LOCKS_2:
            with _opened(entry.name, folder) as locks:
                if any(True for _ in look.names(locks)):
                    raise _NotProvable


_OF_MAJOR: Mapping[int, Callable[[_Look, int], None]] = {1: _look_at_1, 2: _look_at_2}


def _sorted(entries: Iterator[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    return sorted(entries, key=lambda entry: entry.name)


def _newest(entries: list[os.DirEntry[str]], count: int) -> list[os.DirEntry[str]]:
    numbered = [entry for entry in entries if entry.name.isascii() and entry.name.isdigit()]
    return nlargest(count, numbered, key=lambda entry: int(entry.name))


@contextmanager
def _opened(name: str, above: int | None = None) -> Iterator[int]:
    """Open a folder; below the repository's own folder, links are not followed. Nothing else is ever opened."""
    descriptor = os.open(name, _FOLDER | (0 if above is None else os.O_NOFOLLOW), dir_fd=above)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _file_system(folder: int) -> int | None:
    """The kernel's number for the type of the file system; None if it does not report one."""
    call = _fstatfs()
    found = (ctypes.c_ulong * 32)()  # larger than a `struct statfs`; the type comes first
    if call is None or call(folder, found) != 0:
        return None
    return int(found[0]) & 0xFFFFFFFF


@functools.cache
def _fstatfs() -> Callable[..., int] | None:
    found: Callable[..., int] | None = getattr(ctypes.CDLL(None), "fstatfs", None)
    return found
