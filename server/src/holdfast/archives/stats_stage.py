"""The operation kind `stats`: measure the repository, and archives whose sizes are unknown."""

from backup_engine.requests import InfoRequest
from backup_engine.results import GarbledOutput, parse_info
from holdfast.archives.measure_archives import measure_archives
from holdfast.archives.redundant_index_work import already_done
from holdfast.archives.stage_params import StageParams
from holdfast.operations.kinds import Kind
from holdfast.operations.locks import Access
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories import store
from holdfast.repositories.location import Opener
from holdfast.repositories.work import RepositoryWork, repository_kind


def kind(opener: Opener) -> Kind:
    return repository_kind(opener, run, name="stats", category="index", access=Access.READ, params=StageParams)


def run(work: RepositoryWork) -> Outcome | TryAgain:
    if done := already_done(work.context):
        return done
    step = work.context.step("info", work.engine.info(work.location, InfoRequest()))
    if bad := work.ended_without_success(step):
        return bad
    try:
        told = parse_info(step.stdout.read_bytes())
    except (GarbledOutput, OSError):
        return Outcome(Status.FAILED, "engine.failed", "The engine's sizes were cut short or garbled.")
    totals = told.repository_totals
    values = {"total_size": totals.total_size, "unique_size": totals.unique_size} if totals else {}
    ended_at = work.context.ended_at()
    with work.context.database.writing() as session:
        store.learn_engine_id(session, work.repository.id, told.repository_id)
        store.note_evidence(session, work.repository.id, last_index=ended_at, last_stats=ended_at, **values)
    measured = measure_archives(work)
    work.context.log(f"{values.get('unique_size', 'unknown')} bytes stored; measured {measured} archives.")
    status = Status.CANCELLED if work.context.is_cancelled() else Status.COMPLETED
    return Outcome(status, result={**values, "measured_archives": measured})
