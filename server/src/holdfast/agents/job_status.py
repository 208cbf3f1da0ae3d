"""The status of an agent's job in the contract, derived from its operation."""

from backup_protocol import JobStatus
from holdfast.agents.models import AgentJob
from holdfast.operations.models import Operation
from holdfast.operations.status import Status

OF_AN_ENDED_OPERATION = {
    Status.COMPLETED: JobStatus.COMPLETED,
    Status.COMPLETED_WITH_WARNINGS: JobStatus.COMPLETED,
    Status.FAILED: JobStatus.FAILED,
    Status.SKIPPED: JobStatus.FAILED,
    Status.CANCELLED: JobStatus.CANCELED,
}


def job_status(operation: Operation, job: AgentJob | None) -> JobStatus:
    status = Status(operation.status)
    if status is Status.PENDING:
        return JobStatus.QUEUED
    if status is not Status.RUNNING:
        return OF_AN_ENDED_OPERATION[status]
    if operation.cancel_requested_at is not None:
        return JobStatus.CANCEL_REQUESTED
    return JobStatus.RUNNING if job is not None and job.started_at is not None else JobStatus.CLAIMED
