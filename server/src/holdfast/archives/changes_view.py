"""The view of what changed between two archives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from backup_jobs import paths as text
from holdfast.archives import paths, schemas
from holdfast.archives.coverage import IndexedArchives
from holdfast.archives.schemas import ChangedSize, ChangeRow, Changes
from holdfast.archives.series_view import between, is_before, of_series
from holdfast.history.answers import Change, ChangedBytes, ChangeGroup, ChangeKind, ChangePage, GroupPage
from holdfast.history.errors import InvalidCursor
from holdfast.kit.cursor import bad_cursor
from holdfast.repositories.archive_records import Archive

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex

WORDS = {ChangeKind.ADDED: "added", ChangeKind.REMOVED: "removed", ChangeKind.MODIFIED: "modified"}


def changes(
    session: Session,
    index: HistoryIndex | None,
    covered: IndexedArchives,
    archive: Archive,
    compare_to: Archive | None,
    *,
    prefix: bytes,
    kinds: tuple[str, ...],
    limit: int,
    cursor: str | None,
    grouped: bool = False,
) -> Changes:
    """Return the changes since the previous archive of the series, or since any other archive of the repository.

    If `grouped`, changes below a folder are added up for each of its entries.
    """
    series = of_series(session, archive.repository_id, archive.series)
    other = compare_to or _indexed_predecessor(series, archive, covered)
    gaps = _gaps(series, archive, other, covered)
    answer = Changes(
        archive_id=archive.id,
        compare_to_id=other.id if other else None,
        history_state=covered.state(archive),
        changes=[],
        totals=dict.fromkeys(WORDS.values(), 0),
        next_cursor=None,
        incomplete=bool(gaps),
        unindexed_archive_ids=gaps,
        byte_totals=ChangedSize(**_size(None)),
        groups=[] if grouped else None,
    )
    if index is None or other is None or not covered.has(archive) or not covered.has(other):
        return answer
    wanted = tuple(kind for kind, word in WORDS.items() if word in kinds)
    both = other.engine_id, archive.engine_id
    page: ChangePage | GroupPage
    try:
        if grouped:
            page = index.change_groups(*both, folder=prefix, kinds=wanted, limit=limit, cursor=cursor)
            answer.groups = [_group(group) for group in page.groups]
        else:
            page = index.changes(*both, prefix=prefix, kinds=wanted, limit=limit, cursor=cursor)
            answer.changes = [_row(change) for change in page.changes]
    except InvalidCursor as error:
        raise bad_cursor() from error
    answer.totals = {word: page.totals.get(kind, 0) for kind, word in WORDS.items()}
    answer.byte_totals = ChangedSize(**_size(page.bytes))
    answer.next_cursor = page.next_cursor
    return answer


def _indexed_predecessor(series: list[Archive], archive: Archive, covered: IndexedArchives) -> Archive | None:
    before = [one for one in series if is_before(one, archive)]
    return next((one for one in reversed(before) if covered.has(one)), None)


def _gaps(series: list[Archive], archive: Archive, other: Archive | None, covered: IndexedArchives) -> list[int]:
    """Return the archives in the compared range, including both ends, that were never indexed."""
    if other is None:
        window = [archive, *(one for one in series if is_before(one, archive))]
    elif other.series == archive.series:
        window = [archive, other, *between(series, archive, other)]
    else:
        window = [archive, other]
    return sorted({one.id for one in window if not covered.has(one)})


def _row(change: Change) -> ChangeRow:
    return ChangeRow(
        **paths.to_fields(change.path),
        change=WORDS[change.kind],
        size_before=change.before.size if change.before else None,
        size_after=change.after.size if change.after else None,
        mtime_before=paths.file_time(change.before.mtime) if change.before else None,
        mtime_after=paths.file_time(change.after.mtime) if change.after else None,
        mode_changed=change.mode_changed,
        owner_changed=change.owner_changed,
    )


def _group(group: ChangeGroup) -> schemas.ChangeGroup:
    name = group.path.rsplit(b"/", 1)[-1]
    return schemas.ChangeGroup(
        **paths.to_fields(group.path),
        name=text.readable(name),
        name_b64=text.exact(name),
        type=group.type,
        added=group.counts[ChangeKind.ADDED],
        removed=group.counts[ChangeKind.REMOVED],
        modified=group.counts[ChangeKind.MODIFIED],
        **_size(group.bytes),
    )


def _size(changed: ChangedBytes | None) -> dict[str, int | None]:
    return {
        "bytes_added": changed.added if changed else None,
        "bytes_removed": changed.removed if changed else None,
        "bytes_net": changed.net if changed else None,
    }
