"""The data that a forecast of bytes is learned from: the records of archives, and the chunks of their files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from holdfast.archives.retention.size_forecast import RecentBackup, Samples, SimulatedArchive, samples
from holdfast.repositories import gone_archives
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.gone_archives import new_bytes_of

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex

MOST_GONE = 500
MOST_ADDED = 60
"""Number of backups whose new bytes are added up from chunks if the engine does not report them."""
LONGEST_PAST = timedelta(days=366)


def simulated_archive(archive: Archive) -> SimulatedArchive:
    return SimulatedArchive(
        archive.id, archive.engine_id, archive.name, archive.start, archive.series, archive.original_size
    )


def recent_backups(
    session: Session, repository_id: int, archives: Sequence[Archive], now: datetime, series: str | None = None
) -> list[RecentBackup]:
    """Return the backups of the last year, optionally of one series, oldest first."""
    gone = gone_archives.since(session, repository_id, now - LONGEST_PAST, MOST_GONE)
    made = {one.engine_id: RecentBackup(one.start, one.series, one.new_bytes) for one in gone}
    made |= {one.engine_id: RecentBackup(one.start, one.series, new_bytes_of(one)) for one in archives}
    wanted = (one for one in made.values() if series is None or one.series == series)
    return sorted((one for one in wanted if now - LONGEST_PAST <= one.start <= now), key=lambda one: one.start)


def samples_by_chunks(opened: HistoryIndex | None, archives: Sequence[SimulatedArchive]) -> Samples:
    """Like `samples`, but from the chunks of files, for an engine that reports no sizes. Archives are oldest first."""
    last = archives[-MOST_ADDED - 1 :]
    found = opened.added_bytes([one.engine_id for one in last]) if opened is not None else None
    if found is None:
        return {}
    return samples([RecentBackup(one.start, one.series, new) for one, new in zip(last, found, strict=True)])


def measured(opened: HistoryIndex | None, sets: Sequence[frozenset[str]]) -> Sequence[int] | None:
    """Return the bytes of each set of archives from the chunks of their files; None if the chunks are unknown."""
    return opened.stored_bytes(sets) if opened is not None and sets else None
