"""The operation kind `archives`: synchronise the stored archive list with the engine's."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.results import ArchiveInfo, GarbledOutput, InfoResult, parse_archives
from backup_jobs.endings import Completed
from backup_jobs.list_archives import CUT_SHORT
from backup_protocol import JobKind, ListBlock
from holdfast.archives.archive_sync import sync_archives
from holdfast.archives.measure_archives import measure_archives
from holdfast.archives.redundant_index_work import already_done
from holdfast.archives.stage_params import StageParams
from holdfast.kit import clock
from holdfast.operations.end_time import end_of_work, recording_end
from holdfast.operations.job_work import JobReport, JobWork, reported
from holdfast.operations.kinds import Kind
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories import store
from holdfast.repositories.job_kinds import attempted, concluded, info_in, report_of
from holdfast.repositories.location import Opener
from holdfast.repositories.work import RepositoryWork, repository_kind


def kind(opener: Opener) -> Kind:
    job = JobWork(JobKind.ARCHIVES_LIST, block, conclude, may_repeat=True)
    values = {"access": Access.READ, "params": StageParams, "agent": job}
    return repository_kind(opener, partial(run, job), name="archives", category="index", **values)


def block(session: Session, operation: Operation) -> ListBlock:
    """Return the parameters of the list. If a runner executes the operation, a separate stage reads the repository's
    sizes.
    """
    del session
    return ListBlock(with_info=operation.executor == "agent")


def run(job: JobWork, work: RepositoryWork) -> Outcome | TryAgain:
    context = work.context
    if done := already_done(context):
        return done
    ended = attempted(job, work)
    if not isinstance(ended, Completed):
        return concluded(job, context, ended)
    synced = context.once("synced", lambda: _stored(work, ended))
    if "total" not in synced:
        return Outcome(Status.FAILED, "engine.failed", CUT_SHORT, result=synced)
    context.log(f"{synced['total']} archives, {synced['added']} new, {synced['removed']} gone.")
    # The file history does not wait for sizes: if it follows, it measures the archives when it is done.
    measured = 0 if _history_follows(work) else measure_archives(work)
    result = {**synced, "measured_archives": measured}
    if context.is_cancelled():
        return Outcome(Status.CANCELLED, result=result)
    if ended.warned:
        return Outcome(Status.COMPLETED_WITH_WARNINGS, result=result, warnings=ended.warnings)
    return Outcome(Status.COMPLETED, result=result)


def _stored(work: RepositoryWork, ended: Completed) -> Mapping[str, Any]:
    context = work.context
    with context.database.writing() as session, recording_end(session, context.ended_at()):
        return conclude(session, context.operation, report_of(ended)).result or {}


def conclude(session: Session, operation: Operation, report: JobReport) -> Outcome:
    """Synchronise the stored list with the reported one; an incomplete list changes nothing.

    Unlike those of other kinds, it writes immediately, because the result counts the changes.
    """
    if not report.succeeded:
        return reported(report)
    listed = _listed(report)
    if listed is None:
        return Outcome(Status.FAILED, "engine.failed", CUT_SHORT, result={"return_code": report.return_code})
    repository_id = operation.repository_id or 0
    info = info_in(report)
    synced = sync_archives(session, repository_id, listed, operation.started_at or clock.now())
    store.learn_engine_id(session, repository_id, info.repository_id if info else None)
    sizes = _sizes(info)
    if sizes is not None:
        store.note_evidence(session, repository_id, last_stats=end_of_work(session), **sizes)
    return reported(report, result={**asdict(synced), **(sizes or {})})


def _listed(report: JobReport) -> Sequence[ArchiveInfo] | None:
    if report.items is None:
        return None
    try:
        return parse_archives(json.dumps({"archives": list(report.items)}).encode())
    except GarbledOutput:
        return None


def _sizes(info: InfoResult | None) -> dict[str, int] | None:
    totals = info.repository_totals if info else None
    return {"total_size": totals.total_size, "unique_size": totals.unique_size} if totals else None


def _history_follows(work: RepositoryWork) -> bool:
    statement = select(Operation.id).where(
        Operation.depends_on_id == work.context.operation.id,
        Operation.kind == "history",
        Operation.status == Status.PENDING,
    )
    with work.context.database.reading() as session:
        return session.scalars(statement.limit(1)).first() is not None
