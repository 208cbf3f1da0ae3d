"""The places where a program keeps its own data, found under every name that leads to them.

A folder has more names than its path: a symbolic link on the way, or a second mount of the same file system, leads to
it too. Folders are therefore compared by device and inode. A backup leaves the places out by patterns, which know names
alone; so all names that its sources lead through are worked out here, when the backup starts.
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
    """``root`` of the file system on ``device`` is visible at ``point``."""

    device: str
    root: str
    point: str
    kind: str


def current_mounts(table: Path = MOUNT_TABLE) -> tuple[Mount, ...]:
    """The mounts that this process sees; none on a system that has no such table."""
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

    ``secrets`` are files, or folders of files, of which other names in the same file system (hard links) are left out
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
        """Every path under which a place is known now: as it was given, resolved, and through other mounts."""
        return tuple(sorted({*self.places, *self._spots}))

    def holds(self, path: str) -> bool:
        """Whether a path leads to one of the places, or into one."""
        names = _physical(path)
        if any(is_at_or_in(name, spot) for name in names for spot in (*self._spots, *self.places)):
            return True
        return not self._identities.isdisjoint(_identities_above(path))

    def names_below(self, source: str) -> tuple[str, ...]:
        """Given a source path, return the names under which a backup of it would reach a place."""
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
        """The names of places inside archives of these sources, whether or not they were left out."""
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
        """Given the sources of a backup, return the engine's patterns that leave the places out.

        ``admitted`` are paths at or in a place that the backup is meant to include; only exactly these names are let
        through.
        """
        sources, admitted = tuple(sources), tuple(map(normal, admitted))
        names = sorted({name for source in sources for name in self.names_below(source)})
        patterns = [pattern for name in names if (pattern := _pattern(name, admitted)) is not None]
        return (*patterns, *(f"pf:{name}" for name in self.other_names(sources)))

    def other_names(self, sources: Iterable[str]) -> tuple[str, ...]:
        """Names of the secret files outside the places. The sources are searched only if a secret has several names."""
        wanted = frozenset(_several_names(self._secrets))
        if not wanted:
            return ()
        inodes = frozenset(inode for _, inode in wanted)
        return tuple(
            sorted({name for source in sources for name, found in self._files(source, inodes) if found in wanted})
        )

    def _files(self, source: str, inodes: frozenset[int]) -> Iterator[tuple[str, Identity]]:
        """The files below a source with one of these inode numbers, but not those in the places themselves."""
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
    """The real path of a place, and each other path at which a mount shows it or a part of it."""
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
        # Another mount may hide this one: something else is visible there now.
        if _identity(seen) is not None and _identity(seen) == _identity(same):
            yield seen


def _bound_above(real: str, mounts: Sequence[Mount]) -> Iterator[str]:
    """Each path at which a mount shows a place because it shows a folder above it, compared by device and inode.

    In a chroot the mount table does not name the file system that the place is in, so names in it lead nowhere. Only
    mounts of the same devices are looked at: another one may be of a server that does not answer. (On btrfs, files have
    other device numbers than their mount.)
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
    """A path and the folders above it, up to the root."""
    for _ in range(MOST_LEVELS):
        yield path
        if path == "/":
            return
        path = os.path.dirname(path)


def _physical(path: str) -> set[str]:
    """Where a source may really be. The engines differ in whether they follow a link that a path ends with."""
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
    """For the target of a path and every folder above it: the real ones, however the path is spelled."""
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
    """For an opened folder and each folder above it. The descriptor is closed."""
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
    """A path without redundant parts; two slashes at its beginning become one."""
    return re.sub("^//+", "/", os.path.normpath(path))


def is_within(path: str, sources: Iterable[str]) -> bool:
    """Whether a path is one of the sources or below one, by its name alone. One with steps back or aside never is."""
    if path in (sources := tuple(sources)):
        return True
    if any(part in (".", "..") for part in path.split("/")):
        return False
    return any(is_at_or_in(normal(path), normal(source)) for source in sources)


def is_really_within(path: str, sources: Iterable[str]) -> bool:
    """The same, where links on the way are followed: none of them may lead out of the sources."""
    sources = tuple(sources)
    folder, _, last = normal(path).rpartition("/")
    real = _joined(os.path.realpath(folder or "/"), "/" + last)
    return is_within(path, sources) and (
        path in sources or any(is_at_or_in(real, os.path.realpath(source)) for source in sources)
    )


def between(path: str, sources: Iterable[str]) -> list[str]:
    """The folders on the way from the source that a path is below to the path; without both ends."""
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
