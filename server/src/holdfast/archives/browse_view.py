"""A folder of an archive, as clients see it."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from backup_jobs import paths as text
from holdfast.archives import paths
from holdfast.archives.coverage import Covered
from holdfast.archives.history.answers import BrowsePage
from holdfast.archives.history.entry import Entry
from holdfast.archives.history.errors import ArchiveNotIndexed, InvalidCursor
from holdfast.archives.live_browse import position_of
from holdfast.archives.schemas import BrowseEntry
from holdfast.kit.cursor import bad_cursor
from holdfast.repositories.archive_records import Archive

if TYPE_CHECKING:
    from holdfast.archives.history.index import HistoryIndex


def from_index(
    index: HistoryIndex | None, covered: Covered, archive: Archive, directory: bytes, limit: int, cursor: str | None
) -> BrowsePage | None:
    """A page of a folder from the index; None where the archive is not indexed."""
    if index is None or not covered.has(archive):
        return None
    try:
        if cursor is not None:
            position_of(cursor)
        return index.browse(archive.engine_id, directory, limit=limit, cursor=cursor)
    except InvalidCursor as error:
        raise bad_cursor() from error
    except ArchiveNotIndexed:
        return None


def entry(one: Entry) -> BrowseEntry:
    name = one.path.rsplit(b"/", 1)[-1]
    return BrowseEntry(
        **paths.told(one.path),
        name=text.readable(name),
        name_b64=text.exact(name),
        type=one.type,
        size=None if one.is_directory else one.size,
        mtime=None if one.is_implicit else paths.moment(one.mtime),
        mode=None if one.is_implicit else stat.filemode(one.mode),
        user=one.user,
        group=one.group,
        link_target=text.readable(one.link) if one.link else None,
    )
