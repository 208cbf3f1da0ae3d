"""The view of one folder of an archive."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Literal

from backup_engine.frozen import frozen
from backup_jobs import paths as text
from holdfast.archives import paths
from holdfast.archives.coverage import IndexedArchives
from holdfast.archives.schemas import BrowseEntry
from holdfast.errors import Conflict
from holdfast.history.answers import BrowsePage, BrowseSort, EntryFacts
from holdfast.history.entry import Entry
from holdfast.history.errors import ArchiveNotIndexed, InvalidCursor
from holdfast.kit.cursor import bad_cursor
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.own_places import HiddenPaths

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex


SortWord = Literal["name", "-name", "size", "-size", "modified", "-modified"]


@frozen
class BrowseQuery:
    """The requested page of a folder."""

    directory: bytes
    limit: int
    cursor: str | None
    sort: SortWord
    text: str
    sizes: bool

    def require_order_of_engine(self) -> None:
        """Raise Conflict unless sorted by name: the engine has its own order, and only one page of names is kept."""
        if self.sort != "name":
            sentence = "The archive is not indexed; its folders can only be sorted by name."
            raise Conflict("archives.sort_needs_index", sentence)


def from_index(
    index: HistoryIndex | None,
    covered: IndexedArchives,
    archive: Archive,
    predecessor: Archive | None,
    wanted: BrowseQuery,
    hidden: HiddenPaths,
) -> BrowsePage | None:
    """Return a page of a folder from the index; None if the archive is not indexed."""
    if index is None or not covered.has(archive):
        return None
    above = wanted.directory + b"/" if wanted.directory else b""
    against = predecessor.engine_id if predecessor is not None and covered.has(predecessor) else None
    try:
        return index.browse(
            archive.engine_id,
            wanted.directory,
            limit=wanted.limit,
            cursor=wanted.cursor,
            sort=BrowseSort(wanted.sort),
            text=wanted.text,
            without={name.removeprefix(above) for name in hidden.below(wanted.directory)},
            sizes=wanted.sizes,
            against=against,
        )
    except InvalidCursor as error:
        raise bad_cursor() from error
    except ArchiveNotIndexed:
        return None


def entry(one: Entry, facts: EntryFacts, hidden: HiddenPaths) -> BrowseEntry:
    name = one.path.rsplit(b"/", 1)[-1]
    is_open = not hidden.below(one.path)  # the size of a folder with hidden content is hidden too
    return BrowseEntry(
        **paths.to_fields(one.path),
        name=text.readable(name),
        name_b64=text.exact(name),
        type=one.type,
        size=None if one.is_directory else one.size,
        mtime=None if one.is_implicit else paths.file_time(one.mtime),
        mode=None if one.is_implicit else stat.filemode(one.mode),
        user=one.user,
        group=one.group,
        link_target=text.readable(one.link) if one.link else None,
        change=(facts.change or "unchanged") if facts.compared else None,
        item_count=facts.item_count if is_open else None,
        subtree_size=facts.subtree_size if is_open else None,
    )
