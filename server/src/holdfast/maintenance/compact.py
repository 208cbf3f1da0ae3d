"""The operation kind `compact`: free the space of removed archives."""

from sqlalchemy.orm import Session

from backup_protocol import CompactBlock, JobKind
from holdfast.maintenance.job_reports import evidence_record, number
from holdfast.maintenance.kinds import maintenance_job
from holdfast.maintenance.schemas import CompactBody
from holdfast.operations.job_work import JobReport, JobWork, reported
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.repositories.location import Opener


def kind(opener: Opener) -> Kind:
    job = JobWork(JobKind.REPOSITORY_COMPACT, block, conclude, may_repeat=True)
    return maintenance_job(opener, job, "compact", CompactBody, "freed_bytes")


def block(session: Session, operation: Operation) -> CompactBlock:
    del session
    return CompactBlock(threshold=CompactBody.model_validate(operation.params).threshold)


def conclude(session: Session, operation: Operation, report: JobReport) -> Outcome:
    freed = number(report.details.get("freed_bytes"), None)
    result = {"freed_bytes": freed, "threshold": block(session, operation).threshold}
    return reported(report, result=result, record=evidence_record(operation, report, "last_compact"))
