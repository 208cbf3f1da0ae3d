"""Synchronise the stored archive list with a complete listing by the engine."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_engine.results import ArchiveInfo
from backup_jobs.archive_keys import PREFIX, key_in
from holdfast.kit import clock
from holdfast.operations.end_time import end_of_work
from holdfast.operations.models import Operation
from holdfast.repositories import archive_records, evidence_times, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.repositories.series import series_of


@frozen
class Synced:
    added: int
    removed: int
    total: int


def sync_archives(session: Session, repository_id: int, listed: Sequence[ArchiveInfo], began: datetime) -> Synced:
    """Make the stored list equal to a complete listing. Calling it again with the same listing changes nothing."""
    repository = _locked_repository(session, repository_id)
    if repository is None:
        return Synced(0, 0, 0)
    known = {archive.engine_id: archive for archive in archive_records.all_of(session, repository_id)}
    present = {archive.id for archive in listed}
    # An archive that a backup recorded after the listing began is missing from the listing, but it is not gone.
    gone = [
        row
        for row in known.values()
        if row.engine_id not in present and row.first_seen_at < began and row.lost_at is None
    ]
    archive_records.remove(session, gone)
    new = [archive for archive in listed if archive.id not in known]
    now = clock.now()
    makers = _makers(session, new)
    template = repository.archive_name_template
    added = [
        Archive(
            repository_id=repository_id,
            engine_id=archive.id,
            backup_operation_id=makers.get(archive.id),
            first_seen_at=now,
            **_columns_of(archive, template),
        )
        for archive in new
    ]
    session.add_all(added)
    for archive in listed:
        if stored := known.get(archive.id):
            _refresh(stored, archive, template, now)
    evidence_times.forget_ahead(repository, now)
    session.flush()
    archive_records.publish(session, "archive.added", repository_id, added)
    found = [*(row for row in known.values() if row.engine_id in present), *added]
    total = archive_records.count(session, repository_id)
    store.note_evidence(
        session,
        repository_id,
        *(("archives",) if new or gone else ()),
        archive_count=total,
        last_index=end_of_work(session),
        last_synced=end_of_work(session),
        last_backup=_newest_backup(repository, found, now),
    )
    return Synced(added=len(new), removed=len(gone), total=total)


def _locked_repository(session: Session, repository_id: int) -> Repository | None:
    """Return the repository's row, locked, so that two simultaneous listings are applied one after the other."""
    statement = select(Repository).where(Repository.id == repository_id).with_for_update()
    return session.scalars(statement).first()


def _columns_of(archive: ArchiveInfo, template: str) -> dict[str, Any]:
    return {
        "name": archive.name,
        "series": series_of(archive.name, template),
        "start": archive.start,
        "end": archive.end,
        "duration_seconds": clock.seconds_between(archive.start, archive.end) if archive.end else None,
        "hostname": archive.hostname,
        "username": archive.username,
        "comment": archive.comment or None,
        "last_seen_at": clock.now(),
    }


def _refresh(stored: Archive, archive: ArchiveInfo, template: str, now: datetime) -> None:
    stored.last_seen_at, stored.lost_at = now, None
    if not archive.is_bare:
        stored.hostname, stored.username = archive.hostname, archive.username
        stored.comment = archive.comment or None
    if stored.name != archive.name:
        stored.name, stored.series = archive.name, series_of(archive.name, template)


def _makers(session: Session, archives: Iterable[ArchiveInfo]) -> dict[str, int]:
    """Return the ids of the operations of this service that made the archives, by engine id.

    They are found by the key in the archive's comment, which survives a rename.
    """
    keys = {
        key.removeprefix(PREFIX): archive.id for archive in archives if (key := key_in(archive.comment)) is not None
    }
    found: dict[str, int] = {}
    for block in archive_records.batched(sorted(keys), archive_records.STATEMENT_VALUES):
        rows = session.execute(select(Operation.uuid, Operation.id).where(Operation.uuid.in_(block)))
        found |= {keys[row.uuid]: row.id for row in rows}
    return found


def _newest_backup(repository: Repository, archives: Iterable[Archive], now: datetime) -> datetime | None:
    """Return the time of the newest backup; every archive is evidence of one, whoever made it.

    Its own time may come from a clock that was ahead, but it was made no later than it was first seen.
    """
    times = [min(archive.end or archive.start, archive.first_seen_at) for archive in archives]
    known = [evidence_times.unless_ahead(moment, now) for moment in (*times, repository.last_backup)]
    return max((moment for moment in known if moment is not None), default=None)
