"""What an index answers with.

Views and routes need no more of it, so this knows nothing of how the answers are found.
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
    """Of files that came or grew, and of files that went or shrank."""

    added: int
    removed: int

    @property
    def net(self) -> int:
        return self.added - self.removed


@frozen
class ChangePage:
    changes: list[Change]
    totals: dict[ChangeKind, int]  # of the whole comparison under the prefix, whatever kinds the page shows
    next_cursor: str | None
    bytes: ChangedBytes | None = None  # of the same; None where the index does not know the sizes


@frozen
class ChangeGroup:
    """What changed at or below one entry of a folder."""

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
    """By the bytes of the name, by size or by time of modification; with a minus the other way round."""

    NAME = "name"
    NAME_DOWN = "-name"
    SIZE = "size"
    SIZE_DOWN = "-size"
    MODIFIED = "modified"
    MODIFIED_DOWN = "-modified"


@frozen
class EntryFacts:
    """What is known of an entry beside the entry itself; None where it is not known, or was not asked for."""

    compared: bool = False  # with another archive; without a change then, it is the same there
    change: ChangeKind | None = None
    item_count: int | None = None
    subtree_size: int | None = None


NO_FACTS = EntryFacts()


@frozen
class BrowsePage:
    exists: bool  # False when the archive has no such directory
    entries: list[Entry]  # in the order that was asked for
    next_cursor: str | None
    total: int | None = None  # entries of the directory that have the text in their name, on whatever page
    facts: dict[bytes, EntryFacts] = field(default_factory=dict)  # by path


class Presence(NamedTuple):
    """One archive that has the path, and how it looks there."""

    archive: str
    version: int
    entry: Entry


@frozen
class PathHistory:
    path: bytes
    presence: list[Presence]  # in the order the archives were indexed; time is the caller's knowledge

    def in_archive(self, archive: str) -> Presence | None:
        return next((one for one in self.presence if one.archive == archive), None)


def unchanged(before: Entry, after: Entry) -> bool:
    """Given the same path in two archives, tell whether nothing is known to have changed.

    Where one side was read from the CLI listing, what that cannot show (the content, odd bytes of a link) does not
    count as a change.
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
    truncated: bool  # more was left to look at when the work of one call was used up
