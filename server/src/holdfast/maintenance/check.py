"""The operation kind `check`: verify the repository."""

from sqlalchemy.orm import Session

from backup_jobs.check import MOST_PROBLEMS
from backup_protocol import CheckBlock, JobKind
from holdfast.maintenance.job_reports import evidence_record, listed, number
from holdfast.maintenance.kinds import maintenance_job
from holdfast.maintenance.schemas import CheckBody
from holdfast.operations.job_work import JobReport, JobWork, reported
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.repositories.location import Opener

MOST_VERDICTS = 100


def kind(opener: Opener) -> Kind:
    job = JobWork(JobKind.REPOSITORY_CHECK, block, conclude, may_repeat=True)
    return maintenance_job(opener, job, "check", CheckBody, "problems", "problem_count", "verdicts", "complete")


def block(session: Session, operation: Operation) -> CheckBlock:
    del session
    return block_of(CheckBody.model_validate(operation.params))


def block_of(params: CheckBody) -> CheckBlock:
    return CheckBlock(max_duration=params.max_duration, verify_data=params.verify_data, repair=params.repair)


def conclude(session: Session, operation: Operation, report: JobReport) -> Outcome:
    del session
    params = CheckBody.model_validate(operation.params)
    problems = [str(problem) for problem in listed(report.details.get("problems"))[:MOST_PROBLEMS]]
    result = {
        "problems": problems,
        "problem_count": number(report.details.get("problem_count"), len(problems)),
        "verdicts": [str(verdict) for verdict in listed(report.details.get("verdicts"))[:MOST_VERDICTS]],
        "complete": params.max_duration is None,
        "verify_data": params.verify_data,
        "repair": params.repair,
    }
    return reported(report, result=result, record=evidence_record(operation, report, "last_check"))
