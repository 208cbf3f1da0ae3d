"""The operation kind `compact`: free the space of removed archives."""

from typing import Any

from sqlalchemy.orm import Session

from backup_protocol import CompactBlock, JobKind
from holdfast.maintenance.reported import noting, number
from holdfast.maintenance.schemas import CompactBody
from holdfast.operations.job_work import JobReport, JobWork, reported
from holdfast.operations.kinds import Kind
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.repositories.job_kinds import job_kind
from holdfast.repositories.location import Opener


def kind(opener: Opener) -> Kind:
    return job_kind(
        opener,
        JobWork(JobKind.REPOSITORY_COMPACT, block, conclude, may_repeat=True),
        name="compact",
        category="maintenance",
        access=Access.CHANGE,
        params=CompactBody,
        present=present,
    )


def present(operation: Operation) -> dict[str, Any]:
    return {"freed_bytes": (operation.result or {}).get("freed_bytes")}


def block(session: Session, operation: Operation) -> CompactBlock:
    del session
    return CompactBlock(threshold=CompactBody.model_validate(operation.params).threshold)


def conclude(session: Session, operation: Operation, report: JobReport) -> Outcome:
    freed = number(report.details.get("freed_bytes"), None)
    result = {"freed_bytes": freed, "threshold": block(session, operation).threshold}
    return reported(report, result=result, record=noting(operation, report, "last_compact"))
