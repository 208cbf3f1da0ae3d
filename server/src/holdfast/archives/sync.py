"""The operation kind `archives`: the stored archive list, brought in line with the engine's own."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from backup_engine.parse import ArchiveInfo, GarbledOutput, parse_archives
from backup_engine.requests import ListArchivesRequest
from holdfast.archives.params import StageParams
from holdfast.kit import clock
from holdfast.operations.kinds import Kind, Outcome, TryAgain, again_when_interrupted
from holdfast.operations.status import LockMode, Status
from holdfast.repositories import archive_records, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.series import series_of
from holdfast.repositories.work import RepositoryWork, on_repository


def kind(opener: Opener) -> Kind:
    return Kind(
        name="archives",
        category="index",
        limit_group="index",
        lock=LockMode.SHARED,
        params=StageParams,
        run=on_repository(opener, run),
        on_interrupted=again_when_interrupted,
    )


@dataclass(frozen=True, slots=True)
class Synced:
    added: int
    removed: int
    total: int


def run(work: RepositoryWork) -> Outcome | TryAgain:
    """Read the whole list; a list that is not whole changes nothing."""
    context = work.context
    began = context.operation.started_at or clock.now()
    step = context.step("list", work.engine.list_archives(work.location, ListArchivesRequest()))
    if bad := work.ended_without_success(step):
        return bad
    try:
        listed = parse_archives(step.stdout.read_bytes())
    except (GarbledOutput, OSError):
        return Outcome(
            Status.FAILED,
            "engine.failed",
            "The engine's list of archives was cut short or garbled; nothing was changed.",
        )
    with context.database.writing() as session:
        synced = bring_in_line(session, work.repository.id, listed, began)
    context.log(f"{synced.total} archives, {synced.added} new, {synced.removed} gone.")
    return Outcome(Status.COMPLETED, result=asdict(synced))


def bring_in_line(session: Session, repository_id: int, listed: Sequence[ArchiveInfo], began: datetime) -> Synced:
    """Make the stored list equal to a complete listing. Given twice, it changes nothing the second time."""
    known = {archive.engine_id: archive for archive in archive_records.all_of(session, repository_id)}
    present = {archive.id for archive in listed}
    # What a backup recorded after the listing began is not in it, and not gone.
    gone = [row for row in known.values() if row.engine_id not in present and row.first_seen_at < began]
    archive_records.remove(session, gone)
    new = [archive for archive in listed if archive.id not in known]
    now = clock.now()
    session.add_all(record(repository_id, archive, now) for archive in new)
    for archive in listed:
        if stored := known.get(archive.id):
            stored.last_seen_at = now
            stored.hostname, stored.username = archive.hostname, archive.username
            stored.comment = archive.comment or None
    session.flush()
    total = archive_records.count(session, repository_id)
    store.note_evidence(session, repository_id, archive_count=total, last_index=now, last_synced=now)
    return Synced(added=len(new), removed=len(gone), total=total)


def record(repository_id: int, archive: ArchiveInfo, now: datetime) -> Archive:
    return Archive(
        repository_id=repository_id,
        engine_id=archive.id,
        name=archive.name,
        series=series_of(archive.name),
        start=archive.start,
        end=archive.end,
        duration_seconds=clock.seconds_between(archive.start, archive.end) if archive.end else None,
        hostname=archive.hostname,
        username=archive.username,
        comment=archive.comment or None,
        first_seen_at=now,
        last_seen_at=now,
    )
