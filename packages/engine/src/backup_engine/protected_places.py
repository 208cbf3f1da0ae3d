"""Folders and files that a restore must not touch, and the names that lead to them.

They are identified by device and inode, so that another mount or spelling does not hide them, or by name if nothing
exists yet. A restore never follows links below its destination, so neither do these checks.

The text of this file is also run by the Python of other machines: it imports only the standard library.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping

OWN = "own"
"""The protected place itself."""
ABOVE = "above"
"""A folder or link on the path to a protected place."""
IN_OWN_PLACE = "it belongs to a repository or the backup service's own data, which restores never overwrite"
ABOVE_OWN_PLACE = "what exists there leads to a repository or the backup service's own data"
MOST_STEPS = 1000
MOST_LEVELS = 4096
MOST_FOLDERS = 10_000
LOOK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
NONE: Mapping[bytes, str] = {}

Identity = tuple[int, int]


class ProtectedPlaces:
    """Recognises protected places.

    ``places`` are absolute paths. ``known`` are paths with device and inode on another machine; a path counts only if
    both match here, which means that it is the same machine.
    """

    in_place = IN_OWN_PLACE
    above_place = ABOVE_OWN_PLACE

    def __init__(self, places: Iterable[bytes] = (), known: Iterable[tuple[bytes, int, int]] = ()) -> None:
        self._identities: set[Identity] = set()
        self._by_folder: dict[Identity, dict[bytes, str]] = {}
        self._by_path: dict[bytes, dict[bytes, str]] = {}
        for place in places:
            self._add(place)
        for place, device, inode in known:
            if identity_at(place, follow=True) == (device, inode):
                self._add(place)

    @property
    def is_empty(self) -> bool:
        return not self._by_path

    def holds(self, path: bytes) -> bool:
        """Whether a path is one of the places or inside one."""
        if any(self.names_at(folder).get(name) == OWN for folder, name in steps(path)):
            return True
        deepest = path
        while True:
            try:
                descriptor = os.open(deepest or b"/", LOOK)
            except (NotADirectoryError, FileNotFoundError):
                deepest = deepest.rpartition(b"/")[0]
                continue
            except OSError:
                return False
            return self._is_inside(descriptor)

    def is_own(self, folder: int) -> bool:
        """Whether an opened folder is one of the places."""
        return self._identity(folder) in self._identities

    def names_in(self, folder: int, path: bytes) -> Mapping[bytes, str]:
        """Names in an opened folder that a restore must respect, each with OWN or ABOVE. `path` is the folder's
        path.
        """
        return self._names(self._identity(folder), path)

    def names_at(self, path: bytes) -> Mapping[bytes, str]:
        """The same for a folder that may not exist."""
        return self._names(identity_at(path), path)

    def is_own_at(self, path: bytes) -> bool:
        found = identity_at(path)
        return found is not None and found in self._identities

    def _names(self, identity: Identity | None, path: bytes) -> Mapping[bytes, str]:
        by_path = self._by_path.get(path or b"/", NONE)
        by_folder = self._by_folder.get(identity, NONE) if identity is not None else NONE
        if not by_path or not by_folder:
            return by_path or by_folder
        return {
            name: OWN if OWN in (by_path.get(name), by_folder.get(name)) else ABOVE for name in {*by_path, *by_folder}
        }

    def _add(self, place: bytes) -> None:
        found = list(steps(place))
        for number, (folder, name) in enumerate(found, 1):
            kind = OWN if number == len(found) else ABOVE
            _note(self._by_path.setdefault(folder, {}), name, kind)
            identity = identity_at(folder)
            if identity is not None:
                _note(self._by_folder.setdefault(identity, {}), name, kind)
        own = identity_at(place, follow=True)
        if own is not None:
            self._identities.add(own)

    def _is_inside(self, descriptor: int) -> bool:
        """Whether an opened folder is in one of the places. Closes the descriptor."""
        before = None
        try:
            for _ in range(MOST_LEVELS):
                now = self._identity(descriptor)
                if now in self._identities:
                    return True
                if now == before:
                    return False
                before = now
                above = os.open(b"..", LOOK, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = above
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return True

    def _identity(self, descriptor: int) -> Identity:
        found = os.fstat(descriptor)
        return found.st_dev, found.st_ino


class ProtectedTargets:
    """Checks one by one whether targets, given relative to a destination, are in a protected place."""

    def __init__(self, guard: ProtectedPlaces, destination: bytes) -> None:
        self._guard = guard
        self._root = destination.rstrip(b"/")
        self._folders: dict[bytes, Mapping[bytes, str] | None] = {}

    def is_own(self, target: bytes, *, is_directory: bool) -> bool:
        if self._guard.is_empty:
            return False
        folder, _, name = target.rpartition(b"/")
        names = self._names(folder)
        if names is None or names.get(name) == OWN:
            return True
        return is_directory and self._guard.is_own_at(self._root + b"/" + target)

    def _names(self, folder: bytes) -> Mapping[bytes, str] | None:
        """Names to respect in a folder; None for a folder that is inside a place."""
        if folder not in self._folders:
            if len(self._folders) >= MOST_FOLDERS:
                self._folders.clear()
            unknown = [folder]
            while unknown[-1] and (above := unknown[-1].rpartition(b"/")[0]) not in self._folders:
                unknown.append(above)
            for each in reversed(unknown):  # from the top, so that no lookup depends on another, however deep the path
                self._folders[each] = self._looked_up(each)
        return self._folders[folder]

    def _looked_up(self, folder: bytes) -> Mapping[bytes, str] | None:
        if folder and self.is_own(folder, is_directory=True):
            return None
        return self._guard.names_at(self._root + b"/" + folder if folder else self._root)


def steps(path: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield each name that is looked up when a path is followed, through links, with the folder of the lookup."""
    folder, remaining = b"", [part for part in path.split(b"/") if part not in (b"", b".")]
    for _ in range(MOST_STEPS):
        if not remaining:
            return
        name = remaining.pop(0)
        if name == b"..":
            folder = folder.rpartition(b"/")[0]
            continue
        link = _link(folder + b"/" + name)
        yield folder or b"/", name
        if link is None:
            folder += b"/" + name
            continue
        if link.startswith(b"/"):
            folder = b""
        remaining = [part for part in link.split(b"/") if part not in (b"", b".")] + remaining


def identity_at(path: bytes, *, follow: bool = False) -> Identity | None:
    try:
        found = os.stat(path or b"/", follow_symlinks=follow)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _link(path: bytes) -> bytes | None:
    try:
        return os.readlink(path) if stat.S_ISLNK(os.lstat(path).st_mode) else None
    except (OSError, ValueError):
        return None


def _note(names: dict[bytes, str], name: bytes, kind: str) -> None:
    if names.get(name) != OWN:
        names[name] = kind
