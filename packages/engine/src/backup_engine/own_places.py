"""Find the places where a program stores its own data, under every name that leads to them.

A folder can have more names than its path: a symbolic link or a second mount of the same file system leads to it too.
So folders are compared by device and inode. But a backup excludes places by patterns, which consist of names; so this
module determines, when a backup starts, all names under which its sources reach a place.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOUNT_TABLE = Path("/proc/self/mountinfo")
MOST_LEVELS = 4096
STRIPPED_UP_TO = "/./"
"""The engine removes the part of a source path before this mark from archived names."""

Identity = tuple[int, int]


@dataclass(frozen=True)
class Mount:
    """The folder ``root`` of the file system on ``device`` is visible at ``point``."""

    device: str
    root: str
    point: str
    kind: str


def current_mounts(table: Path = MOUNT_TABLE) -> tuple[Mount, ...]:
    """The mounts that this process sees; empty on systems without a mount table."""
    try:
        lines = os.fsdecode(table.read_bytes()).splitlines()
    except OSError:
        return ()
    return tuple(mount for mount in map(_mount, lines) if mount is not None)


def _mount(line: str) -> Mount | None:
    before, _, after = line.partition(" - ")
    fields, kind = before.split(" "), after.split(" ")[0]
    if len(fields) < 5:
        return None
    return Mount(fields[2], _unescaped(fields[3]), _unescaped(fields[4]), kind)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


class OwnPlaces:
    """Folders and files that belong to the program itself.

    ``secrets`` are files, or folders of files, whose further names in the same file system (hard links) are excluded
    too.
    """

    def __init__(
        self, places: Iterable[str], *, secrets: Iterable[str] = (), mounts: Sequence[Mount] | None = None
    ) -> None:
        self.places = tuple(dict.fromkeys(normal(place) for place in places))
        self._secrets = tuple(secrets)
        mounts = current_mounts() if mounts is None else mounts
        self._spots = frozenset(spot for place in self.places for spot in _spots(place, mounts))
        self._identities = frozenset(found for place in self.places if (found := _identity(place)) is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """All paths that currently lead to a place: as given, resolved, and through other mounts."""
        return tuple(sorted({*self.places, *self._spots}))

    def holds(self, path: str) -> bool:
        """Whether a path leads to or into one of the places."""
        names = _physical(path)
        if any(is_at_or_in(name, spot) for name in names for spot in (*self._spots, *self.places)):
            return True
        return not self._identities.isdisjoint(_identities_above(path))

    def names_below(self, source: str) -> tuple[str, ...]:
        """Names under which a backup of this source path would reach a place."""
        name = normal(source)
        if self.holds(source):
            return (name,)
        found = {
            _joined(name, spot[len(physical.rstrip("/")) :])
            for physical in _physical(source)
            for spot in self._spots
            if is_at_or_in(spot, physical)
        }
        return tuple(sorted(found))

    def archived_names(self, sources: Iterable[str]) -> tuple[str, ...]:
        """Names of the places inside archives of these sources, whether or not they were excluded."""
        found = {name.lstrip("/") for name in self.names}
        for source in sources:
            cut = source.find(STRIPPED_UP_TO)
            above = normal(source[:cut]) if cut >= 0 else ""
            for name in self.names_below(source):
                found.add(name.lstrip("/"))
                if above and is_at_or_in(name, above):
                    found.add(name[len(above) :].lstrip("/") or os.path.basename(name))
        return tuple(sorted(found - {""}))

    def exclusions(self, sources: Iterable[str], admitted: Iterable[str] = ()) -> tuple[str, ...]:
        """The engine's patterns that exclude the places from a backup of these sources.

        ``admitted`` are paths at or in a place that the backup should include; exactly these names are admitted.
        """
        sources, admitted = tuple(sources), tuple(map(normal, admitted))
        names = sorted({name for source in sources for name in self.names_below(source)})
        patterns = [pattern for name in names if (pattern := _pattern(name, admitted)) is not None]
        return (*patterns, *(f"pf:{name}" for name in self.other_names(sources)))

    def other_names(self, sources: Iterable[str]) -> tuple[str, ...]:
        """Names of secret files outside the places. The sources are searched only if a secret file has several
        names.
        """
        wanted = frozenset(_several_names(self._secrets))
        if not wanted:
            return ()
        inodes = frozenset(inode for _, inode in wanted)
        return tuple(
            sorted({name for source in sources for name, found in self._files(source, inodes) if found in wanted})
        )

    def _files(self, source: str, inodes: frozenset[int]) -> Iterator[tuple[str, Identity]]:
        """Files below a source with one of these inode numbers, except those in the places themselves."""
        remaining = [normal(source)]
        while remaining:
            folder = remaining.pop()
            try:
                entries = list(os.scandir(folder))
            except NotADirectoryError:
                found = os.stat(folder, follow_symlinks=False)
                yield folder, (found.st_dev, found.st_ino)
                continue
            except OSError:
                continue
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        if entry.path not in self._spots:
                            remaining.append(entry.path)
                    elif entry.inode() in inodes:
                        found = entry.stat(follow_symlinks=False)
                        yield entry.path, (found.st_dev, found.st_ino)


def _spots(place: str, mounts: Sequence[Mount]) -> Iterator[str]:
    """The real path of a place, and every other path at which a mount shows it or part of it."""
    real = os.path.realpath(place)
    yield real
    yield from _bound_above(real, mounts)
    holder = None
    for mount in mounts:
        if is_at_or_in(real, mount.point) and (holder is None or len(mount.point) >= len(holder.point)):
            holder = mount
    if holder is None or _identity(real) is None:
        return
    in_device = _joined(holder.root, real[len(holder.point.rstrip("/")) :])
    for mount in mounts:
        if mount.device != holder.device:
            continue
        if is_at_or_in(in_device, mount.root):
            seen, same = _joined(mount.point, in_device[len(mount.root.rstrip("/")) :]), real
        elif is_at_or_in(mount.root, in_device):
            seen, same = mount.point, _joined(real, mount.root[len(in_device.rstrip("/")) :])
        else:
            continue
        # Another mount may cover this one, so that something else is visible there now.
        if _identity(seen) is not None and _identity(seen) == _identity(same):
            yield seen


def _bound_above(real: str, mounts: Sequence[Mount]) -> Iterator[str]:
    """Other paths at which a mount shows a place because it shows a folder above it, compared by device and inode.

    In a chroot the mount table does not contain the file system of the place, so its names lead nowhere. Only mounts of
    the same devices are examined, since others may be on a server that does not respond. (On btrfs, device numbers of
    files differ from those of their mount.)
    """
    above = {found: folder for folder in _way_up(real) if (found := _identity(folder)) is not None}
    devices = {f"{os.major(device)}:{os.minor(device)}" for device, _ in above}
    for mount in mounts:
        if mount.device not in devices and mount.kind != "btrfs":
            continue
        folder = above.get(_identity(mount.point) or (-1, -1))
        if folder is not None and folder != mount.point:
            yield _joined(mount.point, real[len(folder.rstrip("/")) :])


def _way_up(path: str) -> Iterator[str]:
    """A path and all folders above it."""
    for _ in range(MOST_LEVELS):
        yield path
        if path == "/":
            return
        path = os.path.dirname(path)


def _physical(path: str) -> set[str]:
    """Possible real paths of a source. The engines differ in whether they follow a link at the end of a path."""
    name = normal(path)
    folder, _, last = name.rpartition("/")
    return {name, os.path.realpath(path), normal(_joined(os.path.realpath(folder or "/"), "/" + last))}


def _pattern(name: str, admitted: tuple[str, ...]) -> str | None:
    if any(is_at_or_in(name, one) for one in admitted):
        return None
    inside = [one for one in admitted if is_at_or_in(one, name)]
    if not inside:
        return f"pp:{name}"
    let_through = "|".join(re.escape(one[len(name.rstrip("/")) :]) + "(?:/|$)" for one in inside)
    return f"re:^{re.escape(name.strip('/'))}(?!{let_through})(?:/|$)"


def _several_names(secrets: Iterable[str]) -> Iterator[Identity]:
    for secret in secrets:
        try:
            files = [entry.path for entry in os.scandir(secret)] if os.path.isdir(secret) else [secret]
        except OSError:
            continue
        for file in files:
            with suppress(OSError):
                found = os.stat(file)
                if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                    yield found.st_dev, found.st_ino


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _identities_above(path: str) -> Iterator[Identity]:
    """Identities of a path's target and of every real folder above it, however the path is spelled."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        yield from _identities_above(os.path.dirname(normal(path))) if path.strip("/") else ()
        return
    yield found.st_dev, found.st_ino
    folder = path if stat.S_ISDIR(found.st_mode) else os.path.dirname(os.path.realpath(path))
    try:
        descriptor = os.open(folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    yield from identities_up(descriptor)


def identities_up(descriptor: int) -> Iterator[Identity]:
    """Identities of an opened folder and of each folder above it. Closes the descriptor."""
    before: Identity | None = None
    try:
        for _ in range(MOST_LEVELS):
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) == before:
                return
            before = (found.st_dev, found.st_ino)
            yield before
            above = os.open("..", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = above
    except OSError:
        return
    finally:
        os.close(descriptor)


def normal(path: str) -> str:
    """A path without redundant parts; two slashes at the beginning become one."""
    return re.sub("^//+", "/", os.path.normpath(path))


def is_within(path: str, sources: Iterable[str]) -> bool:
    """Whether a path equals a source or is below one, by name only. A path with `.` or `..` is below none."""
    if path in (sources := tuple(sources)):
        return True
    if any(part in (".", "..") for part in path.split("/")):
        return False
    return any(is_at_or_in(normal(path), normal(source)) for source in sources)


def is_really_within(path: str, sources: Iterable[str]) -> bool:
    """Like `is_within`, but links on the way are followed and must not lead outside the sources."""
    sources = tuple(sources)
    folder, _, last = normal(path).rpartition("/")
    real = _joined(os.path.realpath(folder or "/"), "/" + last)
    return is_within(path, sources) and (
        path in sources or any(is_at_or_in(real, os.path.realpath(source)) for source in sources)
    )


def between(path: str, sources: Iterable[str]) -> list[str]:
    """Folders between the source that contains a path and the path itself, without both ends."""
    name = normal(path)
    held = [normal(source).rstrip("/") for source in sources if is_at_or_in(name, normal(source))]
    if not held:
        return []
    source = max(held, key=len)
    parts = [part for part in name[len(source) :].split("/") if part]
    return [f"{source}/{'/'.join(parts[:count])}" for count in range(1, len(parts))]


def is_at_or_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _joined(folder: str, rest: str) -> str:
    return folder.rstrip("/") + rest if rest.strip("/") else folder
