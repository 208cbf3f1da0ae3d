"""Checks that an agent's report is about the intended repository, because third-party agents may not check that."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.causes import REPLACED
from holdfast.operations.job_work import JobReport
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories import store

SENTENCE = (
    "A different repository is at this location, and the agent worked in it; a backup may have been written to it. "
    "The index is unchanged. Put the right repository back, correct the path, or use accept-replacement."
)


def compared(session: Session, operation: Operation, report: JobReport) -> JobReport:
    """Return the report, or a failure without its content if it names a different repository by the engine's id."""
    reported = reported_id(report.details)
    if not store.is_another(session, operation.repository_id or 0, reported):
        return report
    return JobReport(Status.FAILED, report.return_code, REPLACED, SENTENCE, warnings=report.warnings)


def reported_id(details: Mapping[str, Any]) -> str | None:
    """The repository's id in a report: under `repository`, or in the engine's output (`created`, `info`)."""
    for document in (details, details.get("created"), details.get("info")):
        repository = document.get("repository") if isinstance(document, Mapping) else None
        reported = repository.get("id") if isinstance(repository, Mapping) else None
        if reported and isinstance(reported, str):
            return reported[:64]
    return None
