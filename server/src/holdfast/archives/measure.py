"""Sizes of archives that nobody has measured yet: those that this service did not make itself."""

from sqlalchemy import select

from backup_engine.parse import ArchiveDetails, GarbledOutput, parse_info
from backup_engine.requests import InfoRequest
from holdfast.archives.giving_way import waiter_of
from holdfast.repositories import archive_records
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.work import SUCCEEDED, RepositoryWork

MOST_MEASURED = 1000
"""Archives measured in one run: the engine takes seconds for each large one. The next run goes on."""


def measure_archives(work: RepositoryWork) -> int:
    """Ask the engine for the sizes of unmeasured archives, newest first; return how many it told. Lets others pass."""
    wanted: list[int] = work.context.once("unmeasured", lambda: {"archives": _unmeasured(work)})["archives"]
    measured = 0
    for number, archive_id in enumerate(wanted):
        step = f"info-{archive_id}"
        if work.context.is_cancelled() or (not work.context.has_begun(step) and waiter_of(work.context) is not None):
            break
        work.context.report(current=number, total=len(wanted), message="Measuring archives")
        measured += _measure(work, archive_id, step)
    return measured


def _unmeasured(work: RepositoryWork) -> list[int]:
    statement = (
        select(Archive.id)
        .where(Archive.repository_id == work.repository.id, Archive.original_size.is_(None))
        .order_by(Archive.start.desc(), Archive.id.desc())
        .limit(MOST_MEASURED)
    )
    with work.context.database.reading() as session:
        return list(session.scalars(statement))


def _measure(work: RepositoryWork, archive_id: int, name: str) -> bool:
    """False for an archive that stays unknown."""
    with work.context.database.reading() as session:
        archive = archive_records.get(session, archive_id)
    if archive is None:
        return False
    step = work.context.step(
        name,
        work.engine.info(work.location, InfoRequest(work.engine.address(archive.name, archive.engine_id))),
        quiet=True,
    )
    if step.outcome.status not in SUCCEEDED:
        return False
    try:
        details = parse_info(step.stdout.read_bytes()).archives
    except (GarbledOutput, OSError):
        return False
    return any(_store(work, archive_id, one) for one in details)


def _store(work: RepositoryWork, archive_id: int, details: ArchiveDetails) -> bool:
    with work.context.database.writing() as session:
        archive = archive_records.get(session, archive_id)
        if archive is None or archive.engine_id != details.id:
            return False
        archive.nfiles = details.stats.nfiles
        archive.original_size = details.stats.original_size
        archive.compressed_size = details.stats.compressed_size
        archive.deduplicated_size = details.stats.deduplicated_size
        archive.duration_seconds = details.duration
        archive.end = details.end
    return True
