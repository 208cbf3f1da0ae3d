"""Operation kinds whose work is a job. Its body runs on two hosts: a runner here, or an agent on its machine.

The kind's `conclude` turns the report of either into the outcome.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from backup_engine.results import GarbledOutput, InfoResult, parse_info
from backup_jobs.bodies import BODIES, attempt
from backup_jobs.endings import Completed, Ended, Failed, Stopped
from backup_jobs.endings import TryAgain as JobTryAgain
from backup_jobs.sources import Sources
from backup_jobs.stopped_services import ServicesToStop
from backup_jobs.work import Work
from backup_protocol import JobKind
from holdfast.operations.context import Context
from holdfast.operations.job_work import JobReport, JobWork, NothingToDo
from holdfast.operations.kinds import Kind, retry_when_interrupted
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories.location import Opener
from holdfast.repositories.work import RepositoryWork

Result = TypeVar("Result")
MakeSources = Callable[[Context, RepositoryWork, Any], Sources]
MakeServices = Callable[[Context, RepositoryWork, Any], ServicesToStop]


def job_kind(
    opener: Opener,
    job: JobWork,
    *,
    category: str,
    sources: MakeSources | None = None,
    services: MakeServices | None = None,
    **values: Any,
) -> Kind:
    """Return a kind that runs here and on agents.

    `sources` and `services` are for backups; `values` are the other fields of `Kind`.
    """

    def run(context: Context) -> Outcome | TryAgain:
        try:
            ended = attempted(job, RepositoryWork.open(opener, context), sources, services)
        except NothingToDo as nothing:
            return Outcome(Status.SKIPPED, skip_reason=nothing.reason)
        return concluded(job, context, ended)

    return Kind(
        category=category,
        limit_group=category,
        run=run,
        on_interrupted=retry_when_interrupted,  # never reached: the body handles interruptions inside `run`
        agent=job,
        **values,
    )


def attempted(
    job: JobWork, opened: RepositoryWork, sources: MakeSources | None = None, services: MakeServices | None = None
) -> Ended:
    """Attempt the job once, with this runner as its host."""
    context = opened.context
    with context.database.reading() as session:
        block = job.block(session, context.operation)
    known = sources(context, opened, block) if sources else None
    stops = services(context, opened, block) if services else ServicesToStop()
    work = Work(context, opened.engine, opened.location, block, known, stops)
    return attempt(BODIES[JobKind(job.job_kind)], work)


def concluded(job: JobWork, context: Context, ended: Ended) -> Outcome | TryAgain:
    """Return the outcome of an attempt: `conclude` receives the same report that an agent would send."""
    with context.database.reading() as session:
        outcome = job.conclude(session, context.operation, report_of(ended))
    if not isinstance(ended, JobTryAgain):
        return outcome
    return TryAgain(
        ended.error_key,
        ended.message,
        ended.delay_seconds,
        result=ended.details or None,
        had_effects=outcome.had_effects,
        record=outcome.record,
    )


def report_of(ended: Ended) -> JobReport:
    match ended:
        case Completed():
            return JobReport(
                Status.COMPLETED_WITH_WARNINGS if ended.warned else Status.COMPLETED,
                ended.return_code,
                archive_name=ended.archive_name,
                stats=ended.stats,
                warnings=ended.warnings,
                details=ended.details,
                items=ended.items,
                ended_at=ended.ended_at,
            )
        case Stopped():
            return JobReport(Status.CANCELLED, ended.return_code, ended.error_key, ended.message, details=ended.details)
        case Failed():
            code, warnings, details = ended.return_code, ended.warnings, ended.details
            return JobReport(Status.FAILED, code, ended.error_key, ended.message, warnings=warnings, details=details)
        case JobTryAgain():
            return JobReport(Status.FAILED, None, ended.error_key, ended.message, details=ended.details)


def printed(report: JobReport, name: str, parse: Callable[[bytes], Result]) -> Result | None:
    """Return the engine's output if it was reported under this name and can be parsed."""
    document = report.details.get(name)
    if not isinstance(document, Mapping):
        return None
    try:
        return parse(json.dumps(document).encode())
    except GarbledOutput:
        return None


def info_in(report: JobReport) -> InfoResult | None:
    """Return the repository from the engine's `info`."""
    return printed(report, "info", parse_info)
