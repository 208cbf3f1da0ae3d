"""The view of what would be lost if some archives were deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from holdfast.archives import paths
from holdfast.archives.coverage import IndexedArchives
from holdfast.archives.losses_schemas import Losses, LostPath
from holdfast.history.answers import PathHistory
from holdfast.history.errors import InvalidCursor
from holdfast.kit.cursor import bad_cursor
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.own_places import HiddenPaths

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex


def losses(
    index: HistoryIndex | None,
    covered: IndexedArchives,
    archives: Sequence[Archive],
    going: Collection[int],
    hidden: HiddenPaths,
    *,
    limit: int,
    cursor: str | None,
) -> Losses:
    leaving = [archive for archive in archives if archive.id in going]
    staying = [archive for archive in archives if archive.id not in going and archive.lost_at is None]
    answer = Losses(
        archives=len(leaving),
        archives_left=len(staying),
        paths_lost=0,
        versions_lost=0,
        freed_bytes_at_most=0,
        sample=[],
        next_cursor=None,
        going=covered.coverage(leaving),
        staying=covered.coverage(staying),
    )
    indexed = {archive.engine_id: archive for archive in leaving if covered.has(archive)}
    if index is None or not indexed:
        return answer
    try:
        kept = [archive.engine_id for archive in staying if covered.has(archive)]
        page = index.losses(list(indexed), kept, limit=limit, cursor=cursor)
    except InvalidCursor as error:
        raise bad_cursor() from error
    answer.paths_lost, answer.versions_lost, answer.freed_bytes_at_most = page.paths, page.versions, page.bytes
    answer.sample = [_lost(one, indexed) for one in page.lost if not hidden.hides(one.path)]
    answer.next_cursor = page.next_cursor
    return answer


def _lost(one: PathHistory, archives: dict[str, Archive]) -> LostPath:
    holders = [(archives[each.archive], each.entry) for each in one.presence if each.archive in archives]
    archive, entry = max(holders, key=lambda pair: (pair[0].start, pair[0].id))
    return LostPath(
        **paths.to_fields(one.path),
        type=entry.type,
        size=None if entry.is_directory else entry.size,
        mtime=None if entry.is_implicit else paths.file_time(entry.mtime),
        last_archive_id=archive.id,
        last_archive_start=archive.start,
    )
