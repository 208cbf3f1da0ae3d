"""The operation kind `archives`: the stored archive list, brought in line with the engine's own."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.parse import ArchiveInfo, GarbledOutput, parse_archives
from backup_engine.requests import ListArchivesRequest
from holdfast.archives.measure import measure_archives
from holdfast.archives.params import StageParams
from holdfast.kit import clock
from holdfast.operations.kinds import Kind, Outcome, TryAgain, again_when_interrupted
from holdfast.operations.models import Operation
from holdfast.operations.status import LockMode, Status
from holdfast.repositories import archive_records, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.series import series_of
from holdfast.repositories.work import RepositoryWork, on_repository

KEY = "holdfast:"
"""Before the key of the operation in the comment of each archive that this service makes."""


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
    synced = context.once("synced", lambda: asdict(_store(work, listed, began)))
    context.log(f"{synced['total']} archives, {synced['added']} new, {synced['removed']} gone.")
    measured = measure_archives(work)
    status = Status.CANCELLED if context.is_cancelled() else Status.COMPLETED
    return Outcome(status, result={**synced, "measured_archives": measured})


def _store(work: RepositoryWork, listed: Sequence[ArchiveInfo], began: datetime) -> Synced:
    with work.context.database.writing() as session:
        return bring_in_line(session, work.repository.id, listed, began)


def bring_in_line(session: Session, repository_id: int, listed: Sequence[ArchiveInfo], began: datetime) -> Synced:
    """Make the stored list equal to a complete listing. Given twice, it changes nothing the second time."""
    repository = _held(session, repository_id)
    if repository is None:
        return Synced(0, 0, 0)
    known = {archive.engine_id: archive for archive in archive_records.all_of(session, repository_id)}
    present = {archive.id for archive in listed}
    # What a backup recorded after the listing began is not in it, and not gone.
    gone = [row for row in known.values() if row.engine_id not in present and row.first_seen_at < began]
    archive_records.remove(session, gone)
    new = [archive for archive in listed if archive.id not in known]
    now = clock.now()
    makers = _makers(session, new)
    template = repository.archive_name_template
    session.add_all(
        Archive(
            repository_id=repository_id,
            engine_id=archive.id,
            backup_operation_id=makers.get(archive.id),
            first_seen_at=now,
            **_told(archive, template),
        )
        for archive in new
    )
    for archive in listed:
        if stored := known.get(archive.id):
            _refresh(stored, archive, template, now)
    session.flush()
    total = archive_records.count(session, repository_id)
    store.note_evidence(
        session,
        repository_id,
        archive_count=total,
        last_index=now,
        last_synced=now,
        last_backup=_newest_backup(repository, listed),
    )
    return Synced(added=len(new), removed=len(gone), total=total)


def _held(session: Session, repository_id: int) -> Repository | None:
    """The repository's row, held: two lists that are read at once are brought in line one after the other."""
    statement = select(Repository).where(Repository.id == repository_id).with_for_update()
    return session.scalars(statement).first()


def _told(archive: ArchiveInfo, template: str) -> dict[str, Any]:
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
    stored.last_seen_at = now
    stored.hostname, stored.username = archive.hostname, archive.username
    stored.comment = archive.comment or None
    if stored.name != archive.name:
        stored.name, stored.series = archive.name, series_of(archive.name, template)


def _makers(session: Session, archives: Iterable[ArchiveInfo]) -> dict[str, int]:
    """The operations of this service that made archives, by the key in the archives' comments. A rename keeps it."""
    keys = {
        word.removeprefix(KEY): archive.id
        for archive in archives
        for word in archive.comment.split()
        if word.startswith(KEY)
    }
    found: dict[str, int] = {}
    for block in archive_records.batched(sorted(keys), archive_records.STATEMENT_VALUES):
        rows = session.execute(select(Operation.uuid, Operation.id).where(Operation.uuid.in_(block)))
        found |= {keys[row.uuid]: row.id for row in rows}
    return found


def _newest_backup(repository: Repository, listed: Sequence[ArchiveInfo]) -> datetime | None:
    """An archive is evidence of a backup, whoever made it."""
    times = [archive.end or archive.start for archive in listed]
    return max([*times, *([repository.last_backup] if repository.last_backup else [])], default=None)
