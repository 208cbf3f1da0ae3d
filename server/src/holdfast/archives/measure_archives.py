"""Measure the sizes of archives that are still unknown: those that this service did not make itself."""

from collections.abc import Iterable

from sqlalchemy import select

from backup_engine.requests import InfoRequest
from backup_engine.results import ArchiveDetails, GarbledOutput, parse_info
from backup_jobs.host import SUCCEEDED, Step
from holdfast.archives.lane_waiters import waiter_of
from holdfast.repositories import archive_records
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.work import RepositoryWork

MOST_MEASURED = 1000
"""Archives measured one by one per run, as each large one takes the engine seconds. The next run continues."""
FEW = 5
"""Beyond this number, the engine is asked for all archives at once, so that it opens the repository only once."""
STORED_AT_ONCE = 500
ONE_BY_ONE = "info-"
ALL = "info-all"


def measure_archives(work: RepositoryWork) -> int:
    """Ask the engine for the sizes of unmeasured archives, newest first, letting other operations pass.

    Return the number of archives measured.
    """
    wanted: list[int] = work.context.once("unmeasured", lambda: {"archives": _unmeasured(work)})["archives"]
    if not wanted or work.context.is_cancelled():
        return 0
    if len(wanted) > FEW and (measured := _measure_all(work, len(wanted))):
        return measured
    return _measure_each(work, wanted)


def _measure_all(work: RepositoryWork, count: int) -> int:
    """Measure all archives at once. Return 0 if the engine reports nothing: one of them may be damaged."""
    if not work.context.has_begun(ALL) and waiter_of(work.context) is not None:
        return 0
    work.context.report(current=0, total=count, message=f"Measuring {count} archives")
    step = work.context.step(ALL, work.engine.info(work.location, InfoRequest(every_archive=True)), quiet=True)
    details = _details(step)
    measured = 0
    for start in range(0, len(details), STORED_AT_ONCE):
        measured += _store(work, details[start : start + STORED_AT_ONCE])
        work.context.report(current=min(measured, count), total=count, message=f"Measuring {count} archives")
    return measured


def _measure_each(work: RepositoryWork, wanted: list[int]) -> int:
    measured = 0
    for number, archive_id in enumerate(wanted[:MOST_MEASURED]):
        step = f"{ONE_BY_ONE}{archive_id}"
        if work.context.is_cancelled() or (not work.context.has_begun(step) and waiter_of(work.context) is not None):
            break
        work.context.report(current=number, total=len(wanted), message="Measuring archives")
        measured += _measure(work, archive_id, step)
    return measured


def _unmeasured(work: RepositoryWork) -> list[int]:
    statement = (
        select(Archive.id)
        .where(Archive.repository_id == work.repository.id, Archive.original_size.is_(None), Archive.lost_at.is_(None))
        .order_by(Archive.start.desc(), Archive.id.desc())
    )
    with work.context.database.reading() as session:
        return list(session.scalars(statement))


def _measure(work: RepositoryWork, archive_id: int, name: str) -> int:
    """Return 0 if the archive's size remains unknown."""
    with work.context.database.reading() as session:
        archive = archive_records.get(session, archive_id)
    if archive is None:
        return 0
    command = work.engine.info(work.location, InfoRequest(work.engine.address(archive.name, archive.engine_id)))
    told = _details(work.context.step(name, command, quiet=True))
    return _store(work, [one for one in told if one.id == archive.engine_id])


def _details(step: Step) -> list[ArchiveDetails]:
    if step.outcome.status not in SUCCEEDED:
        return []
    try:
        return list(parse_info(step.stdout.read_bytes()).archives)
    except (GarbledOutput, OSError):
        return []


def _store(work: RepositoryWork, told: Iterable[ArchiveDetails]) -> int:
    """Store the sizes of archives that have none yet; return their number."""
    by_id = {details.id: details for details in told}
    statement = select(Archive).where(
        Archive.repository_id == work.repository.id,
        Archive.engine_id.in_(by_id),
        Archive.original_size.is_(None),
    )
    with work.context.database.writing() as session:
        archives = session.scalars(statement).all()
        for archive in archives:
            details = by_id[archive.engine_id]
            archive.nfiles = details.stats.nfiles
            archive.original_size = details.stats.original_size
            archive.compressed_size = details.stats.compressed_size
            archive.deduplicated_size = details.stats.deduplicated_size
            archive.duration_seconds = details.duration
            archive.end = details.end
        return len(archives)
