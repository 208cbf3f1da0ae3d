"""The operation kind `archives`: the stored archive list, brought in line with the engine's own."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from backup_engine.parse import ArchiveInfo, GarbledOutput, parse_archives
from backup_engine.requests import ListArchivesRequest
from holdfast.archives import on_agent
from holdfast.archives.bring_in_line import Synced, bring_in_line
from holdfast.archives.measure import measure_archives
from holdfast.archives.params import StageParams
from holdfast.kit import clock
from holdfast.operations.kinds import Kind, Outcome, TryAgain, again_when_interrupted
from holdfast.operations.status import LockMode, Status
from holdfast.repositories.location import Opener
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
        agent=on_agent.work(),
    )


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
