"""Predict the effect of a restore from the archive's listing before anything is written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backup_engine.listing import LINK, ListedFile
from backup_engine.protected_places import ProtectedTargets
from backup_jobs.paths import ancestors, from_json, readable, shown, to_json
from backup_jobs.restore.existing_files import ExistingFiles, UnknownFiles
from backup_jobs.restore.layout import Placement

MOST_SHOWN = 1000
MOST_LINKS_IN_THE_WAY = 1000


@dataclass(slots=True)
class Survey:
    files: int = 0
    size: int = 0
    directories: int = 0
    special: int = 0
    missing: list[bytes] = field(default_factory=list)
    unsafe: list[bytes] = field(default_factory=list)
    links_in_the_way: list[bytes] = field(default_factory=list)
    """Symbolic links of an archive that also contains files below their names: the engine would write through them."""
    above_all: bytes | None = None
    """The deepest folder that contains everything; None for an empty archive."""
    collisions: list[bytes] = field(default_factory=list)
    own: list[bytes] = field(default_factory=list)
    """Files that would end up in the service's own data or in a repository: they are skipped."""
    own_files: int = 0
    own_roots: list[bytes] = field(default_factory=list)
    """Those of them that were requested by name."""
    conflicts: list[tuple[bytes, str]] = field(default_factory=list)
    conflict_count: int = 0
    occupied_files: int = 0
    """Number of conflicts that are not about folders."""

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in COUNTS},
            "above_all": None if self.above_all is None else to_json(self.above_all),
            "conflicts": [[to_json(path), reason] for path, reason in self.conflicts],
            **{name: [to_json(path) for path in getattr(self, name)] for name in PATH_LISTS},
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Survey":
        counts: dict[str, Any] = {name: value.get(name, 0) for name in COUNTS}
        path_lists: dict[str, Any] = {name: [from_json(path) for path in value.get(name, ())] for name in PATH_LISTS}
        return Survey(
            **counts,
            above_all=None if value["above_all"] is None else from_json(value["above_all"]),
            conflicts=[(from_json(path), reason) for path, reason in value["conflicts"]],
            **path_lists,
        )

    def shown_conflicts(self) -> list[dict[str, str]]:
        return [{**shown(path), "reason": reason} for path, reason in self.conflicts]


COUNTS = ("files", "size", "directories", "special", "own_files", "conflict_count", "occupied_files")
PATH_LISTS = ("missing", "unsafe", "links_in_the_way", "collisions", "own", "own_roots")


def survey(
    items: Iterable[ListedFile],
    placement: Placement,
    existing: ExistingFiles | UnknownFiles,
    protected: ProtectedTargets | None = None,
) -> Survey:
    """Given all wanted items of an archive, return the effect of restoring them."""
    surveyor = Surveyor(placement, existing, protected)
    for item in items:
        surveyor.add(item)
    return surveyor.finished()


class Surveyor:
    """Processes items one by one. Remembers links, and targets only if they may collide."""

    def __init__(
        self,
        placement: Placement,
        existing: ExistingFiles | UnknownFiles,
        protected: ProtectedTargets | None = None,
    ) -> None:
        self._placement = placement
        self._existing = existing
        self._protected = protected
        self._found = Survey()
        self._seen_roots: set[bytes] = set()
        self._links: set[bytes] = set()
        self._in_the_way: set[bytes] = set()
        self._above_all: list[bytes] | None = None
        self._parent: bytes | None = None
        self._landed: dict[bytes, bool] = {}

    def add(self, item: ListedFile) -> None:
        if is_root(item):
            return
        if not is_safe(item.path):
            _note(self._found.unsafe, item.path.replace(b"\0", rb"\0"))  # only to be shown
            return
        self._count(item)
        parent = item.path.rpartition(b"/")[0]
        if parent != self._parent:
            self._parent = parent
            self._look_above(item.path, parent)
        if (root := self._placement.root_of(item.path)) is not None:
            self._seen_roots.add(root)
        if item.type == LINK:
            self._links.add(item.path)
        if not item.is_special:
            self._look_at_target(item)

    def finished(self) -> Survey:
        found = self._found
        found.missing = [root for root in self._placement.roots if root not in self._seen_roots]
        found.links_in_the_way = sorted(self._in_the_way)[:MOST_LINKS_IN_THE_WAY]
        found.unsafe += sorted(self._in_the_way)[MOST_LINKS_IN_THE_WAY:]
        found.above_all = None if self._above_all is None else b"/".join(self._above_all)
        return found

    def _count(self, item: ListedFile) -> None:
        if item.is_directory:
            self._found.directories += 1
        elif item.is_special:
            self._found.special += 1
        else:
            self._found.files += 1
            self._found.size += item.size if item.type != LINK else 0

    def _look_above(self, path: bytes, parent: bytes) -> None:
        self._in_the_way.update(folder for folder in ancestors(path) if folder in self._links)
        parts = parent.split(b"/") if parent else []
        if self._above_all is None:
            self._above_all = parts
        else:
            self._above_all = _common(self._above_all, parts)

    def _look_at_target(self, item: ListedFile) -> None:
        target = self._placement.target(item.path, is_directory=item.is_directory)
        if target is None:
            return
        if self._protected is not None and self._protected.is_own(target, is_directory=item.is_directory):
            self._note_own(item)
            return
        if self._placement.may_collide:
            self._look_for_collision(target, item)
        if reason := self._existing.conflict(target, is_directory=item.is_directory):
            self._found.conflict_count += 1
            self._found.occupied_files += not item.is_directory
            if len(self._found.conflicts) < MOST_SHOWN:
                self._found.conflicts.append((item.path, reason))

    def _note_own(self, item: ListedFile) -> None:
        self._found.own_files += not item.is_directory
        _note(self._found.own, item.path)
        if item.path in self._placement.roots:
            _note(self._found.own_roots, item.path)

    def _look_for_collision(self, target: bytes, item: ListedFile) -> None:
        is_folder = self._landed.get(target)
        if is_folder is not None and not (is_folder and item.is_directory):
            _note(self._found.collisions, item.path)
        self._landed[target] = item.is_directory


def is_root(item: ListedFile) -> bool:
    """Whether the item is the folder that was backed up as `.`, which corresponds to the destination itself."""
    return item.path == b"." and item.is_directory


def is_safe(path: bytes) -> bool:
    """Whether the engine would keep this path below its target folder, and it is a valid file name."""
    return b"\0" not in path and not any(part in (b"", b".", b"..") for part in path.split(b"/"))


def readable_paths(paths: Iterable[bytes], most: int = 3) -> str:
    """The first few paths, for use in a sentence."""
    named = [readable(path) for path in paths]
    return ", ".join(named[:most]) + (f" and {len(named) - most} more" if len(named) > most else "")


def _note(paths: list[bytes], path: bytes) -> None:
    if len(paths) < MOST_SHOWN:
        paths.append(path)


def _common(first: list[bytes], second: list[bytes]) -> list[bytes]:
    common = []
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        common.append(one)
    return common
