"""What changed between two archives."""

from sqlalchemy.orm import Session

from holdfast.archives import paths
from holdfast.archives.history.changes import Change, ChangeKind
from holdfast.archives.history.entry import Entry
from holdfast.archives.history.errors import ArchiveNotIndexed, InvalidCursor
from holdfast.archives.indexes import Indexes
from holdfast.archives.schemas import ChangeRow, Changes
from holdfast.archives.series_view import between, of_series
from holdfast.kit.cursor import bad_cursor
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository

WORDS = {ChangeKind.ADDED: "added", ChangeKind.REMOVED: "removed", ChangeKind.MODIFIED: "modified"}


def changes(
    session: Session,
    indexes: Indexes,
    repository: Repository,
    archive: Archive,
    compare_to: Archive | None,
    *,
    prefix: bytes,
    kinds: tuple[str, ...],
    limit: int,
    cursor: str | None,
) -> Changes:
    """Changes against the predecessor in the series, or against any archive of the repository."""
    other = compare_to or _indexed_predecessor(session, archive)
    gaps = _gaps(session, archive, other, given=compare_to)
    answer = Changes(
        archive_id=archive.id,
        compare_to_id=other.id if other else None,
        history_state=archive.history_state,
        changes=[],
        totals=dict.fromkeys(WORDS.values(), 0),
        next_cursor=None,
        incomplete=bool(gaps),
        unindexed_archive_ids=gaps,
    )
    index = indexes.reading(repository.uuid)
    if index is None or other is None or archive.history_state != "indexed" or other.history_state != "indexed":
        return answer
    wanted = tuple(kind for kind, word in WORDS.items() if word in kinds)
    try:
        page = index.changes(
            other.engine_id, archive.engine_id, prefix=prefix, kinds=wanted, limit=limit, cursor=cursor
        )
    except InvalidCursor as error:
        raise bad_cursor() from error
    except ArchiveNotIndexed:
        return answer
    answer.changes = [_row(change) for change in page.changes]
    answer.totals = {word: page.totals.get(kind, 0) for kind, word in WORDS.items()}
    answer.next_cursor = page.next_cursor
    return answer


def _indexed_predecessor(session: Session, archive: Archive) -> Archive | None:
    before = [one for one in of_series(session, archive.repository_id, archive.series) if _is_before(one, archive)]
    return next((one for one in reversed(before) if one.history_state == "indexed"), None)


def _is_before(one: Archive, other: Archive) -> bool:
    return (one.start, one.id) < (other.start, other.id)


def _gaps(session: Session, archive: Archive, other: Archive | None, *, given: Archive | None) -> list[int]:
    """Archives inside the window, its ends included, that were never indexed."""
    window = [archive] if given is None else [archive, given]
    series = of_series(session, archive.repository_id, archive.series)
    if other is not None:
        window += between(series, archive, other) if other.series == archive.series else []
    else:
        window += [one for one in series if _is_before(one, archive)]
    return sorted({one.id for one in window if one.history_state != "indexed"})


def _row(change: Change) -> ChangeRow:
    return ChangeRow(
        **paths.told(change.path),
        change=WORDS[change.kind],
        size_before=_size(change.before),
        size_after=_size(change.after),
        mtime_before=paths.moment(change.before.mtime) if change.before else None,
        mtime_after=paths.moment(change.after.mtime) if change.after else None,
        mode_changed=change.mode_changed,
        owner_changed=change.owner_changed,
    )


def _size(entry: Entry | None) -> int | None:
    return entry.size if entry else None
