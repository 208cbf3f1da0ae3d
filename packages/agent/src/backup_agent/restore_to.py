"""Decide where the service may restore files on this machine. The agent decides, as the service may be compromised.

`restore_to` in `config.toml` lists folders; without it, everything outside the system's folders is allowed. The agent's
own places are never a destination, and a restore to a folder above them skips them (`protected_places`). Places are
compared by name and by device and inode, after links are resolved.
"""

import os
import stat
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from backup_agent.places import Places
from backup_engine.system_folders import SYSTEM, is_within
from backup_jobs.restore.place import Refused
from backup_jobs.restore.private_tree import PrivateTree, opened
from backup_jobs.restore.unrestorable import Inside, accessible
from backup_jobs.restore.walking import folders_in, walk

NOT_ALLOWED = "restore.not_allowed_there"
Inode = tuple[int, int]


class NotAllowedThere(Refused):
    """This machine does not allow restores to a place. The message names the place and explains what to do."""

    key = NOT_ALLOWED


@dataclass(frozen=True)
class Place:
    """A folder or file, with all paths that lead to it."""

    names: frozenset[bytes]
    inode: Inode | None

    @staticmethod
    def of(path: str | Path) -> "Place":
        given, found = Path(path).absolute(), None
        with suppress(OSError):
            found = _inode(given.stat())
        return Place(frozenset({bytes(given), bytes(given.resolve())}), found)

    def holds(self, path: bytes, above: frozenset[Inode]) -> bool:
        """Whether a path is this place or below it. `above` contains the inodes of the path and of all folders above
        it.
        """
        return any(is_within(path, name) for name in self.names) or self.inode in above


class RestoreTo:
    """This machine's rule."""

    def __init__(self, restore_to: Sequence[str] | None = None, own: Iterable[str | Path] = ()) -> None:
        self._allowed = None if restore_to is None else [Place.of(folder) for folder in restore_to]
        self._system = [Place.of(folder) for folder in SYSTEM] if restore_to is None else []
        self.own = tuple(map(str, own))
        """Further places that a restore skips, in addition to the agent's folders."""
        self._own = [Place.of(place) for place in self.own]

    def require(self, destination: bytes) -> None:
        """Raise NotAllowedThere unless files may be restored to this folder. Called before anything is written."""
        above = _inodes_on_the_way(destination)
        if self._allowed is not None and not any(place.holds(destination, above) for place in self._allowed):
            raise NotAllowedThere(_sentence(destination))
        if any(place.holds(destination, above) for place in (*self._system, *self._own)):
            raise NotAllowedThere(_sentence(destination))

    def require_targets(self, destination: bytes, targets: Iterable[bytes]) -> None:
        """Apply the same rule to names below an allowed destination. Raise NotAllowedThere for the first that violates
        it.
        """
        inner = [name for place in self._system for name in place.names if is_within(name, destination)]
        if not inner:
            return
        for target in targets:
            path = _join(destination, target)
            if any(is_within(path, name) for name in inner):
                raise NotAllowedThere(_sentence(path))

    def require_tree(self, private: PrivateTree, destination: bytes, roots: tuple[bytes, ...]) -> None:
        """Raise NotAllowedThere if any part of an extracted tree would end up in a place that is not allowed.

        This is the last check before anything is moved: by name, and by device and inode for folders that exist on both
        sides.
        """
        names = (name for place in self._system for name in place.names if is_within(name, destination))
        inner = sorted({_below(name, destination) for name in names})
        shut = {place.inode for place in self._system} - {None}
        with opened(destination) as target, private.tree() as tree, accessible(tree):
            for source in private.sources(roots):
                with closing(Inside(source.folder)) as inside:
                    named = [name for name in inner if source.names is None or name in source.names]
                    met = next((name for name in named if inside.find(name) is not None), None)
                if met is None and source.names is None:
                    met = _meeting(source.folder, target, source.path, shut)
                if met is not None:
                    raise NotAllowedThere(_sentence(_join(destination, met)))


def own_places(places: Places, engines: Iterable[str] = ()) -> list[str | Path]:
    """The agent's own parts: its configuration, state and program, and the engines listed in its configuration."""
    environment = [sys.prefix] if sys.prefix != sys.base_prefix else []
    return [places.config, places.state, Path(__file__).parent, *environment, *engines]


def shown(restore_to: Sequence[str] | None) -> str:
    """The rule as one line of text."""
    if restore_to is None:
        return f"everywhere except {', '.join(SYSTEM[:4])} and other folders of the system"
    return ", ".join(restore_to) or "nowhere"


def _below(path: bytes, folder: bytes) -> bytes:
    return path[len(folder.rstrip(b"/")) + 1 :]


def _join(folder: bytes, path: bytes) -> bytes:
    return folder.rstrip(b"/") + b"/" + path


def _inodes_on_the_way(path: bytes) -> frozenset[Inode]:
    """Inodes of the path and of each folder above it, as far as they exist."""
    found, place = set(), b""
    for part in [b"", *filter(None, path.split(b"/"))]:
        place = place.rstrip(b"/") + b"/" + part
        with suppress(OSError):
            found.add(_inode(os.lstat(place)))
    return frozenset(found)


def _meeting(source: int, target: int, path: bytes, shut: set[Inode | None]) -> bytes | None:
    """The first folder that exists on both sides and is not an allowed destination."""
    for visited in walk(source, target, path=path, unreadable=_expect_shut):
        mine, theirs = visited.folders
        visited.below = [name for name in folders_in(mine) if _is_folder(theirs, name)]
        for name in visited.below:
            if _inode(os.stat(name, dir_fd=theirs, follow_symlinks=False)) in shut:
                return visited.path + b"/" + name if visited.path else name
    return None


def _expect_shut(error: OSError) -> None:
    """Ignore folders of the machine that this user may not enter: nothing can be placed below them.

    The tree's own folders have been made accessible by now.
    """
    if not isinstance(error, PermissionError):
        raise error


def _is_folder(folder: int, name: bytes) -> bool:
    with suppress(OSError):
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def _sentence(path: bytes) -> str:
    shown_path = path.decode("utf-8", "replace")
    return (
        f"This machine does not allow restores to {shown_path}. Nothing was written."
        " Choose another destination, or allow it with restore_to in the agent's config.toml."
    )
