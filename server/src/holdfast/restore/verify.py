"""Whether the engine has extracted what the archive's listing names. What it has not is never moved into place."""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backup_engine.events import Event, LogMessage
from backup_engine.listing import DIRECTORY, LINK, REGULAR, ListedFile
from holdfast.restore.archived_paths import from_json, to_json
from holdfast.restore.destination import OPEN, remove_folder
from holdfast.restore.layout import Placement
from holdfast.restore.occupied import Occupied
from holdfast.restore.survey import MOST_SHOWN, Survey

MOST_WARNINGS = 10_000
MOST_FAILED = 10_000
ABOUT_ATTRIBUTES = re.compile(r": (?:BackupOSError: )?(?:attrs|flags): |^when setting extended attribute ")
"""Warnings after which the content is complete, but an owner, a mode or an attribute is not as it was."""

NOT_EXTRACTED = "the engine did not extract it"
WRONG_TYPE = "the engine extracted something else in its place"
WRONG_SIZE = "the engine extracted {found} of {wanted} bytes"
LINK_IN_THE_WAY = "the archive holds files below this symbolic link"
SPECIAL = "a FIFO or device is not restored"

EXPECTED_TYPE = {REGULAR: stat.S_IFREG, DIRECTORY: stat.S_IFDIR, LINK: stat.S_IFLNK}


@dataclass(slots=True)
class Complaints:
    """What the engine has said about single paths while it extracted."""

    about: dict[str, str] = field(default_factory=dict)
    """From each text that may be the path of a warning to the warning."""
    attributes: list[str] = field(default_factory=list)
    too_many: bool = False

    def hear(self, event: Event) -> None:
        if not isinstance(event, LogMessage) or event.level != "WARNING" or not event.message.strip():
            return
        message = event.message
        if ABOUT_ATTRIBUTES.search(message):
            if len(self.attributes) < MOST_SHOWN:
                self.attributes.append(message)
            return
        if len(self.about) >= MOST_WARNINGS:
            self.too_many = True
            return
        cut = message.find(": ")
        while cut > 0:
            self.about.setdefault(message[:cut], message[cut + 2 :])
            cut = message.find(": ", cut + 1)

    def of(self, path: bytes) -> str | None:
        """The warning about a path. The engine writes a ``?`` for each byte that is not text, so may this."""
        return self.about.get(path.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode())


@dataclass(slots=True)
class Plan:
    """What is to be moved into place, and what is not.

    ``removed`` are items that were extracted and must not be moved, each with the modification time of its folder.
    ``folders`` are the archived ones that exist at the destination: their times and modes, because emptying a folder
    changes the one, and being allowed to empty it may change the other.
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
        )


class Verifier:
    """Compares the extracted tree with the listing, item by item."""

    def __init__(
        self, tree: int, placement: Placement, occupied: Occupied, surveyed: Survey, complaints: Complaints
    ) -> None:
        self._tree = tree
        self._placement = placement
        self._occupied = occupied
        self._in_the_way = frozenset(surveyed.links_in_the_way)
        self._complaints = complaints
        self._plan = Plan(given_up=complaints.too_many)

    def verify(self, items: Iterable[ListedFile]) -> Plan:
        for item in items:
            if not self._plan.given_up:
                self._look_at(item)
        return self._plan

    def _look_at(self, item: ListedFile) -> None:
        if item.path in self._in_the_way:
            self._fail(item, LINK_IN_THE_WAY)
            return
        try:
            found = os.stat(item.path, dir_fd=self._tree, follow_symlinks=False)
        except OSError:
            if item.is_special:
                self._plan.special.append(item.path)
            else:
                self._fail(item, self._complaints.of(item.path) or NOT_EXTRACTED)
            return
        if item.is_special:
            self._plan.special.append(item.path)
            self._remove(item.path)
        elif reason := self._fault(item, found):
            self._fail(item, reason)
            if not item.is_directory:
                self._remove(item.path)
        else:
            self._accept(item, found)

    def _fault(self, item: ListedFile, found: os.stat_result) -> str | None:
        if stat.S_IFMT(found.st_mode) != EXPECTED_TYPE[item.type]:
            return WRONG_TYPE
        if complaint := self._complaints.of(item.path):
            return complaint
        if item.type == REGULAR and not item.is_hard_link and found.st_size != item.size:
            return WRONG_SIZE.format(found=found.st_size, wanted=item.size)
        return None

    def _accept(self, item: ListedFile, found: os.stat_result) -> None:
        target = self._placement.target(item.path, is_directory=item.is_directory)
        if item.is_directory:
            if target is not None and self._occupied.is_folder(target):
                self._plan.folders[item.path] = (found.st_mtime_ns, stat.S_IMODE(found.st_mode))
        else:
            self._plan.files += 1
            self._plan.size += found.st_size if item.type == REGULAR else 0
        if target is not None and (reason := self._occupied.conflict(target, is_directory=item.is_directory)):
            self._plan.conflict_count += 1
            if len(self._plan.conflicts) < MOST_SHOWN:
                self._plan.conflicts.append((item.path, reason))

    def _fail(self, item: ListedFile, reason: str) -> None:
        if len(self._plan.failed) >= MOST_FAILED:
            self._plan.given_up = True
            return
        self._plan.failed.append((item.path, reason, item.size))

    def _remove(self, path: bytes) -> None:
        folder = path.rpartition(b"/")[0] or b"."
        changed = os.stat(folder, dir_fd=self._tree, follow_symlinks=False).st_mtime_ns
        self._plan.removed.append((path, changed))


def remove_unfit(tree: int, plan: Plan) -> None:
    """Take out of the tree what must not be moved, and leave the times of its folders as they were."""
    for path, time in plan.removed:
        folder, _, name = path.rpartition(b"/")
        try:
            descriptor = os.open(folder or b".", OPEN, dir_fd=tree)
        except FileNotFoundError:
            continue
        try:
            _remove(descriptor, name)
            if folder:
                os.utime(descriptor, ns=(os.fstat(descriptor).st_atime_ns, time))
        finally:
            os.close(descriptor)


def _remove(folder: int, name: bytes) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError:
        remove_folder(folder, os.fsdecode(name))
