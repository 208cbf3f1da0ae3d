"""Walk trees of any depth: an archive can contain more levels of folders than Python allows nested calls, or a process
open files.

Only one descriptor per tree is open at a time. The way back up is checked: it must lead to the folder it came from.
The text of this file is also run by the Python of ssh machines: it imports only the standard library.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OWNERS = 0o700
OVERRIDES = 1 << 1
"""The capability to ignore file permissions (`CAP_DAC_OVERRIDE`)."""

Identity = tuple[int, int]
Unreadable = Callable[[OSError], None]


@dataclass
class Visited:
    """A folder, or folders of the same path in several trees, open until the next one is visited."""

    path: bytes
    folders: tuple[int, ...]
    below: list[bytes] | None = None
    """Names of subfolders to visit next; by default all of the first tree's."""


@dataclass
class _Level:
    name: bytes
    identities: tuple[Identity, ...]
    waiting: list[bytes]


def is_above_rights() -> bool:
    """Whether this process may enter every folder whatever its mode. Root may, unless the capability was dropped."""
    if os.geteuid() != 0:
        return False
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return True  # not Linux
    held = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), OVERRIDES)
    return bool(held & OVERRIDES)


def raised(error: OSError) -> None:
    raise error


def ignored(error: OSError) -> None:
    del error


def walk(*trees: int, path: bytes = b"", unreadable: Unreadable = raised) -> Iterator[Visited]:
    """Visit opened folders and every folder below, never through a symbolic link; several trees are walked side by
    side.

    `unreadable` is called for folders that cannot be opened or listed. Folders that vanish in the meantime are skipped.
    """
    here, name = _opened(trees, b"."), b""
    levels: list[_Level] = []
    try:
        while True:
            visited = Visited(path, here)
            yield visited
            levels.append(_Level(name, _identities(here), _waiting(visited, unreadable)))
            entered = None
            while entered is None:
                while not levels[-1].waiting:
                    left = levels.pop()
                    if not levels:
                        return
                    here = _moved(here, _opened(here, b".."))
                    _require_same(here, levels[-1].identities)
                    path = path[: max(0, len(path) - len(left.name) - 1)]
                name = levels[-1].waiting.pop()
                entered = _entered(here, name, unreadable)
            here = _moved(here, entered)
            path = path + b"/" + name if path else name
    finally:
        _close(here)


def folders_in(folder: int) -> list[bytes]:
    """Names of the subfolders of an opened folder; links to folders do not count."""
    with os.scandir(folder) as entries:
        return [os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]


def remove(folder: int, name: bytes) -> None:
    """Remove one of the restore's own folders with everything in it, as far as possible. Raise the first OSError."""
    refused: list[OSError] = []
    here: tuple[int, ...] = (os.dup(folder),)
    levels = [_Level(b"", _identities(here), [name])]
    try:
        while levels:
            level = levels[-1]
            if level.waiting:
                name = level.waiting.pop()
                entered = _opened_to_empty(here[0], name, refused)
                if entered is not None:
                    here = _moved(here, (entered,))
                    levels.append(_Level(name, _identities(here), _emptied(entered, refused)))
                continue
            levels.pop()
            if levels:
                here = _moved(here, _opened(here, b".."))
                _require_same(here, levels[-1].identities)
                _trying(partial(os.rmdir, level.name, dir_fd=here[0]), refused)
    finally:
        _close(here)
    if refused:
        raise refused[0]


@contextmanager
def reached(tree: int, path: bytes) -> Iterator[int]:
    """Open a folder below another one component by component, at any depth."""
    descriptor = os.dup(tree)
    try:
        for part in path.split(b"/") if path not in (b"", b".") else []:
            below = os.open(part, OPEN, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


# --- helpers ----------------------------------------------------------------------------------------------------------


def _waiting(visited: Visited, unreadable: Unreadable) -> list[bytes]:
    """Names in reverse order, to pop from the end."""
    if visited.below is not None:
        return visited.below[::-1]
    try:
        return sorted(folders_in(visited.folders[0]), reverse=True)
    except OSError as error:
        unreadable(error)
        return []


def _entered(here: tuple[int, ...], name: bytes, unreadable: Unreadable) -> tuple[int, ...] | None:
    try:
        return _opened(here, name)
    except FileNotFoundError:
        return None
    except OSError as error:
        unreadable(error)
        return None


def _emptied(folder: int, refused: list[OSError]) -> list[bytes]:
    """Remove everything except folders; return the folders."""
    try:
        with os.scandir(folder) as entries:
            found = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError as error:
        refused.append(error)
        return []
    for name, is_folder in found:
        if not is_folder:
            _trying(partial(os.unlink, name, dir_fd=folder), refused)
    return [name for name, is_folder in found if is_folder]


def _opened_to_empty(above: int, name: bytes, refused: list[OSError]) -> int | None:
    try:
        if not is_above_rights():  # only root may empty a folder that its owner has no write permission for
            descriptor = os.open(
                name, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above
            )
            os.close(descriptor)  # it is a folder, and not a link to one
            os.chmod(name, OWNERS, dir_fd=above)
        return os.open(name, OPEN, dir_fd=above)
    except OSError as error:
        refused.append(error)
        return None


def _trying(work: Callable[[], None], refused: list[OSError]) -> None:
    try:
        work()
    except FileNotFoundError:
        return
    except OSError as error:
        refused.append(error)


def _opened(folders: tuple[int, ...], name: bytes) -> tuple[int, ...]:
    opened: list[int] = []
    try:
        for folder in folders:
            opened.append(os.open(name, OPEN, dir_fd=folder))  # noqa: PERF401 - what was opened is closed if one fails
    except OSError:
        _close(tuple(opened))
        raise
    return tuple(opened)


def _moved(before: tuple[int, ...], now: tuple[int, ...]) -> tuple[int, ...]:
    _close(before)
    return now


def _close(folders: tuple[int, ...]) -> None:
    for folder in folders:
        os.close(folder)


def _identities(folders: tuple[int, ...]) -> tuple[Identity, ...]:
    found = [os.fstat(folder) for folder in folders]
    return tuple((each.st_dev, each.st_ino) for each in found)


def _require_same(folders: tuple[int, ...], identities: tuple[Identity, ...]) -> None:
    if _identities(folders) != identities:
        raise OSError(errno.ESTALE, "a folder was moved during the restore")
