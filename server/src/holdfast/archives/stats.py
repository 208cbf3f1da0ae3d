"""The operation kind `stats`: sizes of the repository, and of archives that nobody has measured yet."""

from sqlalchemy import select

from backup_engine.parse import ArchiveDetails, GarbledOutput, parse_info
from backup_engine.requests import InfoRequest
from holdfast.archives.params import StageParams
from holdfast.kit import clock
from holdfast.operations.kinds import Kind, Outcome, TryAgain, again_when_interrupted
from holdfast.operations.status import LockMode, Status
from holdfast.repositories import store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import Opener
from holdfast.repositories.work import RepositoryWork, on_repository

MOST_MEASURED = 100
"""Archives measured in one run; the engine takes seconds for each large one, and others wait for the repository."""


def kind(opener: Opener) -> Kind:
    return Kind(
        name="stats",
        category="index",
        limit_group="index",
        lock=LockMode.SHARED,
        params=StageParams,
        run=on_repository(opener, run),
        on_interrupted=again_when_interrupted,
    )


def run(work: RepositoryWork) -> Outcome | TryAgain:
    step = work.context.step("info", work.engine.info(work.location, InfoRequest()))
    if bad := work.ended_without_success(step):
        return bad
    try:
        totals = parse_info(step.stdout.read_bytes()).repository_totals
    except (GarbledOutput, OSError):
        return Outcome(Status.FAILED, "engine.failed", "The engine's sizes were cut short or garbled.")
    measured = _measure_archives(work)
    values = {"total_size": totals.total_size, "unique_size": totals.unique_size} if totals else {}
    with work.context.database.writing() as session:
        store.note_evidence(session, work.repository.id, last_index=clock.now(), last_stats=clock.now(), **values)
    work.context.log(f"{values.get('unique_size', 'unknown')} bytes stored; measured {measured} archives.")
    return Outcome(Status.COMPLETED, result={**values, "measured_archives": measured})


def _measure_archives(work: RepositoryWork) -> int:
    """Ask for the sizes of archives that were not made by this service. One that fails stays unknown."""
    with work.context.database.reading() as session:
        statement = (
            select(Archive.id, Archive.name)
            .where(Archive.repository_id == work.repository.id, Archive.original_size.is_(None))
            .order_by(Archive.start.desc())
            .limit(MOST_MEASURED)
        )
        unmeasured = session.execute(statement).all()
    measured = 0
    for archive_id, name in unmeasured:
        command = work.engine.info(work.location, InfoRequest(name))
        step = work.context.step(f"info-{archive_id}", command, quiet=True)
        if step.outcome.status not in ("completed", "completed_with_warnings"):
            continue
        try:
            details = parse_info(step.stdout.read_bytes()).archives
        except (GarbledOutput, OSError):
            continue
        if details:
            _store(work, archive_id, details[0])
            measured += 1
        work.context.report(current=measured, total=len(unmeasured), message="Measuring archives")
    return measured


def _store(work: RepositoryWork, archive_id: int, details: ArchiveDetails) -> None:
    with work.context.database.writing() as session:
        archive = session.get(Archive, archive_id)
        if archive is None or archive.engine_id != details.id:
            return
        archive.nfiles = details.stats.nfiles
        archive.original_size = details.stats.original_size
        archive.compressed_size = details.stats.compressed_size
        archive.deduplicated_size = details.stats.deduplicated_size
        archive.duration_seconds = details.duration
        archive.end = details.end
