"""The answers of an index.

Views and routes need nothing else, so this module does not depend on how the answers are found.
"""

import stat
from collections.abc import Callable
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from backup_engine.frozen import frozen
from holdfast.history.entry import INEXACT, Entry, listed


class ChangeKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    MODIFIED = "modified"


@frozen
class Change:
    path: bytes
    kind: ChangeKind
    before: Entry | None
    after: Entry | None

    @property
    def mode_changed(self) -> bool:
        return self._differs(lambda entry: stat.S_IMODE(entry.mode))

    @property
    def owner_changed(self) -> bool:
        return self._differs(lambda entry: (entry.uid, entry.gid, entry.user, entry.group))

    def _differs(self, aspect: Callable[[Entry], object]) -> bool:
        return self.before is not None and self.after is not None and aspect(self.before) != aspect(self.after)


@frozen
class ChangedBytes:
    """Bytes of files that were added or grew, and of files that were removed or shrank."""

    added: int
    removed: int

    @property
    def net(self) -> int:
        return self.added - self.removed


@frozen
class ChangePage:
    changes: list[Change]
    totals: dict[ChangeKind, int]  # of the whole comparison below the prefix, for all kinds
    next_cursor: str | None
    bytes: ChangedBytes | None = None  # likewise; None if the index does not have the sizes


@frozen
class ChangeGroup:
    """The changes of one entry of a folder and of everything below it."""

    path: bytes
    type: str
    counts: dict[ChangeKind, int]
    bytes: ChangedBytes | None


@frozen
class GroupPage:
    groups: list[ChangeGroup]  # ordered by the bytes of the name
    totals: dict[ChangeKind, int]
    next_cursor: str | None
    bytes: ChangedBytes | None = None


class BrowseSort(StrEnum):
    """By the bytes of the name, by size or by modification time; a minus reverses the order."""

    NAME = "name"
    NAME_DOWN = "-name"
    SIZE = "size"
    SIZE_DOWN = "-size"
    MODIFIED = "modified"
    MODIFIED_DOWN = "-modified"


@frozen
class EntryFacts:
    """Facts about an entry besides the entry itself; None if unknown or not requested."""

    compared: bool = False  # with another archive; if `change` is None, the entry is the same there
    change: ChangeKind | None = None
    item_count: int | None = None
    subtree_size: int | None = None


NO_FACTS = EntryFacts()


@frozen
class BrowsePage:
    exists: bool  # False if the archive has no such directory
    entries: list[Entry]  # in the requested order
    next_cursor: str | None
    total: int | None = None  # matching entries of the directory, on all pages
    facts: dict[bytes, EntryFacts] = field(default_factory=dict)  # by path


class Presence(NamedTuple):
    """One archive that contains the path, and the entry there."""

    archive: str
    version: int
    entry: Entry


@frozen
class PathHistory:
    path: bytes
    presence: list[Presence]  # in the order in which the archives were indexed; only the caller knows their times

    def in_archive(self, archive: str) -> Presence | None:
        return next((one for one in self.presence if one.archive == archive), None)


def unchanged(before: Entry, after: Entry) -> bool:
    """Return whether two entries for the same path show no difference.

    If one of them comes from the CLI listing, whatever the listing cannot show (the content, undecodable bytes of a
    link target) does not count as a difference.
    """
    if before == after:
        return True
    if bool(before.flags & INEXACT) == bool(after.flags & INEXACT):
        return False
    return listed(before) == after if after.flags & INEXACT else listed(after) == before


@frozen
class SearchPage:
    hits: list[PathHistory]
    next_cursor: str | None
    truncated: bool  # the work limit of one call was reached before everything was searched
