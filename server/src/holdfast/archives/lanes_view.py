"""The view of a folder through time: one lane for each name that was ever in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from backup_jobs import paths as text
from holdfast.archives import paths
from holdfast.archives.coverage import IndexedArchives
from holdfast.archives.lanes_schemas import Lane, LaneArchive, LanePiece, Lanes
from holdfast.history.answers import PathHistory, unchanged
from holdfast.history.entry import Entry
from holdfast.history.errors import InvalidCursor
from holdfast.kit.cursor import bad_cursor
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.own_places import HiddenPaths

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex


def lanes(
    index: HistoryIndex | None,
    covered: IndexedArchives,
    archives: Sequence[Archive],
    directory: bytes,
    hidden: HiddenPaths,
    *,
    limit: int,
    cursor: str | None,
) -> Lanes:
    ordered = sorted(archives, key=lambda archive: (archive.start, archive.id))
    indexed = [archive for archive in ordered if covered.has(archive)]
    answer = Lanes(
        **paths.to_fields(directory),
        archives=[],
        entries=[],
        total=0,
        next_cursor=None,
        coverage=covered.coverage(ordered),
    )
    if index is None or not indexed:
        return answer
    try:
        page = index.folder_timeline(directory, limit=limit, cursor=cursor)
    except InvalidCursor as error:
        raise bad_cursor() from error
    step = {archive.engine_id: number for number, archive in enumerate(indexed)}
    changed: set[int] = set()
    answer.entries = [
        lane
        for one in page.histories
        if not hidden.hides(one.path) and (lane := _lane(one, step, len(indexed), changed)) is not None
    ]
    answer.archives = [
        LaneArchive.from_row(archive, changed_here=number in changed) for number, archive in enumerate(indexed)
    ]
    answer.total, answer.next_cursor = page.total, page.next_cursor
    return answer


def _lane(one: PathHistory, step: dict[str, int], archives: int, changed: set[int]) -> Lane | None:
    """Return a lane with one piece for each run of archives with the same version.

    Add the steps at which the name changed to `changed`.
    """
    at = {step[presence.archive]: presence.entry for presence in one.presence if presence.archive in step}
    if not at:
        return None
    pieces: list[LanePiece] = []
    before: Entry | None = None
    for number in range(archives):
        entry = at.get(number)
        if entry is not None and before is not None and unchanged(before, entry):
            pieces[-1].last = number
        elif entry is not None:
            pieces.append(_piece(number, entry))
            changed.add(number)
        elif before is not None:
            changed.add(number)
        before = entry
    newest = at[max(at)]
    name = one.path.rsplit(b"/", 1)[-1]
    return Lane(
        **paths.to_fields(one.path),
        name=text.readable(name),
        name_b64=text.exact(name),
        type=newest.type,
        pieces=pieces,
    )


def _piece(number: int, entry: Entry) -> LanePiece:
    return LanePiece(
        first=number,
        last=number,
        size=None if entry.is_directory else entry.size,
        mtime=None if entry.is_implicit else paths.file_time(entry.mtime),
    )
