"""The history of one path in all archives, and the search for paths."""

from __future__ import annotations

import stat
from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from backup_engine.frozen import frozen
from holdfast.archives import paths
from holdfast.archives.coverage import AnyArchive, IndexedArchives
from holdfast.archives.schemas import (
    Coverage,
    HistoryEntry,
    PathHistoryAnswer,
    Presence,
    PresentRange,
    SearchAnswer,
    SearchHit,
)
from holdfast.history.answers import PathHistory, unchanged
from holdfast.history.entry import Entry
from holdfast.history.errors import InvalidCursor
from holdfast.kit.cursor import bad_cursor

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex


def path_history(
    index: HistoryIndex | None, covered: IndexedArchives, archives: Sequence[AnyArchive], path: bytes
) -> PathHistoryAnswer:
    """Return every archive in which a path changed, series by series."""
    found = {one.archive: one.entry for one in index.file_history(path).presence} if index else {}
    entries: list[HistoryEntry] = []
    present: list[PresentRange] = []
    for _, series in _by_series(archives):
        entries += _events(series, found, covered)
        present += _ranges(series, found, covered)
    entries.sort(key=lambda entry: (entry.start, entry.archive_id))
    _name_equals(entries, {archive.id: found.get(archive.engine_id) for archive in archives})
    in_latest, coverage = any(one.to_archive_id is None for one in present), covered.coverage(archives)
    return PathHistoryAnswer(
        **paths.to_fields(path),
        entries=entries,
        present=present,
        present_in_latest=in_latest,
        presence=_presence(coverage, in_latest=in_latest, ever=bool(entries)),
        coverage=coverage,
    )


def _presence(coverage: Coverage, *, in_latest: bool, ever: bool) -> Presence:
    """Distinguish a path that is gone from one that never existed, and both from one that has not been indexed."""
    if in_latest:
        return "present"
    if ever:
        return "gone"
    return "unknown" if coverage.unindexed_archive_ids else "never"


def _by_series(archives: Sequence[AnyArchive]) -> list[tuple[str, list[AnyArchive]]]:
    ordered = sorted(archives, key=lambda archive: (archive.series, archive.start, archive.id))
    return [(series, list(group)) for series, group in groupby(ordered, key=lambda archive: archive.series)]


def _events(series: list[AnyArchive], found: dict[str, Entry], covered: IndexedArchives) -> list[HistoryEntry]:
    """Return one entry for each archive in which the path differs from the previous indexed archive."""
    events: list[HistoryEntry] = []
    before: Entry | None = None
    for archive in series:
        if not covered.has(archive):
            continue
        now = found.get(archive.engine_id)
        if now is not None and before is None:
            events.append(_event(archive, "added", now))
        elif now is not None and before is not None and not unchanged(before, now):
            events.append(_event(archive, "modified", now))
        elif now is None and before is not None:
            events.append(_event(archive, "removed", None))
        if now is not None:
            events[-1].until_archive_id = archive.id
            events[-1].archive_count += 1
        before = now
    return events


def _name_equals(entries: list[HistoryEntry], state: dict[int, Entry | None]) -> None:
    """Link each entry to the first earlier one with the same content, if the content is known."""
    first: dict[tuple[int, int], int] = {}
    for entry in entries:
        now = state.get(entry.archive_id)
        if now is not None and now.content:
            earlier = first.setdefault((now.content, now.size), entry.archive_id)
            entry.same_content_as = earlier if earlier != entry.archive_id else None


def _event(archive: AnyArchive, change: str, entry: Entry | None) -> HistoryEntry:
    return HistoryEntry(
        archive_id=archive.id,
        archive_name=archive.name,
        series=archive.series,
        start=archive.start,
        change=change,
        size=_size(entry) if entry else None,
        mtime=paths.file_time(entry.mtime) if entry else None,
        mode=stat.filemode(entry.mode) if entry else None,
    )


def _size(entry: Entry) -> int | None:
    """Return the size; None for a folder, whose own entry does not include its content."""
    return None if entry.is_directory else entry.size


def _ranges(series: list[AnyArchive], found: dict[str, Entry], covered: IndexedArchives) -> list[PresentRange]:
    """Return the runs of indexed archives that contain the path; the end is null if a run reaches the newest one."""
    ranges: list[PresentRange] = []
    current: PresentRange | None = None
    last_holder = 0
    gaps: list[int] = []
    for archive in series:
        if not covered.has(archive):
            gaps.append(archive.id)
            continue
        if archive.engine_id in found:
            if current is None:
                current = PresentRange(series=archive.series, from_archive_id=archive.id, to_archive_id=None)
            else:
                current.unindexed_archive_ids += gaps
            last_holder = archive.id
        elif current is not None:
            current.to_archive_id = last_holder
            ranges.append(current)
            current = None
        gaps = []
    if current is not None:
        ranges.append(current)
    return ranges


class Hit(NamedTuple):
    """A path that was found, in the state of the last archive that contains it."""

    path: bytes
    entry: Entry
    first: AnyArchive
    last: AnyArchive
    archive_count: int
    series: set[str]
    is_in_latest: bool

    @property
    def size(self) -> int | None:
        return _size(self.entry)

    @property
    def mtime(self) -> datetime | None:
        return paths.file_time(self.entry.mtime)


class Hits(NamedTuple):
    hits: list[Hit]
    truncated: bool = False
    next_cursor: str | None = None


@frozen
class NameQuery:
    """A query for paths by a part of their name."""

    text: str
    limit: int
    cursor: str | None
    deleted_only: bool


def search(
    index: HistoryIndex | None,
    covered: IndexedArchives,
    archives: Sequence[AnyArchive],
    query: NameQuery,
    series: str | None = None,
) -> SearchAnswer:
    """Search all indexed archives, or those of one series."""
    asked = [archive for archive in archives if series is None or archive.series == series]
    found = find(index, covered, asked, query)
    return SearchAnswer(
        query=query.text,
        results=[_told(hit) for hit in found.hits],
        truncated=found.truncated,
        next_cursor=found.next_cursor,
        coverage=covered.coverage(asked),
    )


def find(
    index: HistoryIndex | None, covered: IndexedArchives, archives: Sequence[AnyArchive], query: NameQuery
) -> Hits:
    """Search those of the archives that are indexed."""
    indexed = [archive for archive in archives if covered.has(archive)]
    if index is None or not indexed:
        return Hits([])
    indexed.sort(key=lambda archive: (archive.start, archive.id))
    newest = {archive.series: archive.engine_id for archive in indexed}.values()
    try:
        page = index.search(
            query.text,
            limit=query.limit,
            cursor=query.cursor,
            within=[archive.engine_id for archive in indexed],
            missing_from=newest if query.deleted_only else (),
        )
    except InvalidCursor as error:
        raise bad_cursor() from error
    places = {archive.engine_id: place for place, archive in enumerate(indexed)}
    hits = [_hit(hit, indexed, places, set(newest)) for hit in page.hits]
    return Hits([hit for hit in hits if hit is not None], page.truncated, page.next_cursor)


def _hit(
    hit: PathHistory, archives: Sequence[AnyArchive], places: dict[str, int], newest: Collection[str]
) -> Hit | None:
    """Make a hit of a found path. `places`: the position of each archive, oldest first, by engine id."""
    entries = {places[one.archive]: one.entry for one in hit.presence if one.archive in places}
    if not entries:
        return None
    last = max(entries)
    return Hit(
        hit.path,
        entries[last],
        archives[min(entries)],
        archives[last],
        len(entries),
        {archives[place].series for place in entries},
        any(archives[place].engine_id in newest for place in entries),
    )


def _told(hit: Hit) -> SearchHit:
    return SearchHit(
        **paths.to_fields(hit.path),
        size=hit.size,
        mtime=hit.mtime,
        first_seen=hit.first.id,
        last_seen=hit.last.id,
        archive_count=hit.archive_count,
        series=sorted(hit.series),
        present_in_latest=hit.is_in_latest,
    )
