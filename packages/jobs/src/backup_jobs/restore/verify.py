"""Compare the extracted files with the archive's listing. Files that do not match are never moved into place."""

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

from backup_engine.extraction_check import LINK_IN_THE_WAY, NOT_EXTRACTED, PathWarnings, mismatch
from backup_engine.listing import REGULAR, ListedFile
from backup_engine.protected_places import ProtectedTargets
from backup_jobs.paths import from_json, to_json
from backup_jobs.restore.existing_files import ExistingFiles
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.private_tree import remove_folder
from backup_jobs.restore.survey import MOST_SHOWN, is_root
from backup_jobs.restore.unrestorable import OUTSIDE_HARD_LINK, Inside, accessible, remove_unrestorable
from backup_jobs.restore.walking import reached

MOST_FAILED = 10_000


@dataclass(slots=True)
class Plan:
    """The files to move into place, and those to leave.

    ``removed`` are items that were extracted but must not be moved, each with the modification time of its folder.
    ``folders`` are archived folders that exist at the destination, with their times and modes: emptying a folder
    changes its times, and making that possible may change its mode.
    """

    files: int = 0
    size: int = 0
    special: list[bytes] = field(default_factory=list)
    failed: list[tuple[bytes, str, int]] = field(default_factory=list)
    removed: list[tuple[bytes, int]] = field(default_factory=list)
    folders: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    conflicts: list[tuple[bytes, str]] = field(default_factory=list)
    conflict_count: int = 0
    given_up: bool = False
    unnamed: int = 0
    """Number of further failed items that are not listed; `unnamed_special` counts special ones likewise."""
    unnamed_special: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "size": self.size,
            "special": [to_json(path) for path in self.special],
            "failed": [[to_json(path), reason, size] for path, reason, size in self.failed],
            "removed": [[to_json(path), time] for path, time in self.removed],
            "folders": [[to_json(path), *values] for path, values in self.folders.items()],
            "conflicts": [[to_json(path), reason] for path, reason in self.conflicts],
            "conflict_count": self.conflict_count,
            "given_up": self.given_up,
            "unnamed": self.unnamed,
            "unnamed_special": self.unnamed_special,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Plan":
        return Plan(
            files=value["files"],
            size=value["size"],
            special=[from_json(path) for path in value["special"]],
            failed=[(from_json(path), reason, size) for path, reason, size in value["failed"]],
            removed=[(from_json(path), time) for path, time in value["removed"]],
            folders={from_json(path): (time, mode) for path, time, mode in value["folders"]},
            conflicts=[(from_json(path), reason) for path, reason in value["conflicts"]],
            conflict_count=value["conflict_count"],
            given_up=value["given_up"],
            unnamed=value.get("unnamed", 0),
            unnamed_special=value.get("unnamed_special", 0),
        )


class Verifier:
    """Compares the extracted tree with the listing, item by item."""

    def __init__(
        self,
        tree: int,
        placement: Placement,
        existing: ExistingFiles,
        links_in_the_way: Iterable[bytes],
        path_warnings: PathWarnings,
        protected: ProtectedTargets | None = None,
    ) -> None:
        self._tree = tree
        self._placement = placement
        self._existing = existing
        self._protected = protected
        self._in_the_way = frozenset(links_in_the_way)
        self._path_warnings = path_warnings
        self._outside_links: set[bytes] = set()
        self._closed: dict[bytes, int] = {}
        self._inside = Inside(tree)
        self._plan = Plan(given_up=path_warnings.too_many)

    def verify(self, items: Iterable[ListedFile]) -> Plan:
        with accessible(self._tree) as self._closed, closing(Inside(self._tree)) as self._inside:
            self._outside_links = {path for path, _ in remove_unrestorable(self._tree).outside_links}
            for item in items:
                if not (self._plan.given_up or is_root(item)):
                    self._look_at(item)
        return self._plan

    def _look_at(self, item: ListedFile) -> None:
        if item.path in self._in_the_way:
            self._fail(item, LINK_IN_THE_WAY)
            return
        found = self._inside.find(item.path)
        if found is None:
            if item.is_special:
                self._plan.special.append(item.path)
            else:
                self._fail(item, self._reason(item))
            return
        if item.is_special:
            self._plan.special.append(item.path)
            self._remove(item.path)
        elif reason := mismatch(item, found, self._path_warnings):
            self._fail(item, reason)
            if not item.is_directory:
                self._remove(item.path)
        else:
            self._accept(item, found)

    def _reason(self, item: ListedFile) -> str:
        if item.path in self._outside_links:
            return OUTSIDE_HARD_LINK
        return self._path_warnings.of(item.path) or NOT_EXTRACTED

    def _accept(self, item: ListedFile, found: os.stat_result) -> None:
        target = self._placement.target(item.path, is_directory=item.is_directory)
        if item.is_directory:
            if target is not None and self._existing.is_folder(target):
                self._plan.folders[item.path] = (
                    found.st_mtime_ns,
                    self._closed.get(item.path, stat.S_IMODE(found.st_mode)),
                )
        else:
            self._plan.files += 1
            self._plan.size += found.st_size if item.type == REGULAR else 0
        if target is None or (self._protected and self._protected.is_own(target, is_directory=item.is_directory)):
            return
        if reason := self._existing.conflict(target, is_directory=item.is_directory):
            self._plan.conflict_count += 1
            if len(self._plan.conflicts) < MOST_SHOWN:
                self._plan.conflicts.append((item.path, reason))

    def _fail(self, item: ListedFile, reason: str) -> None:
        if len(self._plan.failed) >= MOST_FAILED:
            self._plan.given_up = True
            return
        self._plan.failed.append((item.path, reason, item.size))

    def _remove(self, path: bytes) -> None:
        with reached(self._tree, path.rpartition(b"/")[0]) as folder:
            self._plan.removed.append((path, os.fstat(folder).st_mtime_ns))


def remove_rejected(tree: int, plan: Plan) -> None:
    """Remove the files that must not be moved from the tree, keeping the times of its folders."""
    for path, time in plan.removed:
        folder, _, name = path.rpartition(b"/")
        with suppress(FileNotFoundError), reached(tree, folder) as descriptor:
            _remove(descriptor, name)
            if folder:
                os.utime(descriptor, ns=(os.fstat(descriptor).st_atime_ns, time))


def _remove(folder: int, name: bytes) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError:
        remove_folder(folder, os.fsdecode(name))
