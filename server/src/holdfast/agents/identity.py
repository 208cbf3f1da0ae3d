"""Whether an agent's report is about the repository that was meant: an agent of another maker may not have looked itself."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.outcome import REPLACED
from holdfast.operations.job_work import JobReport
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories import store

SENTENCE = (
    "The agent worked in another repository, which lies at this place; a backup may have been written there. The index keeps"
    " what it has. Put the right repository back, correct the path, or accept this one with accept-replacement."
)


def compared(session: Session, operation: Operation, report: JobReport) -> JobReport:
    """The report; or a failure that holds nothing of it, if it names another repository by its engine's id."""
    told = told_id(report.details)
    if not store.is_another(session, operation.repository_id or 0, told):
        return report
    return JobReport(Status.FAILED, report.return_code, REPLACED, SENTENCE, warnings=report.warnings)


def told_id(details: Mapping[str, Any]) -> str | None:
    """The repository's id in a report: in `repository`, or in what the engine printed (`created`, `info`)."""
    for document in (details, details.get("created"), details.get("info")):
        repository = document.get("repository") if isinstance(document, Mapping) else None
        told = repository.get("id") if isinstance(repository, Mapping) else None
        if told and isinstance(told, str):
            return told[:64]
    return None
