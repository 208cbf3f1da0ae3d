"""The operation kind `delete_archive`: remove one archive."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from backup_protocol import DeleteBlock, JobKind
from holdfast.maintenance import soft_delete
from holdfast.maintenance.job_reports import MOST_ARCHIVES, evidence_record, listed
from holdfast.maintenance.kinds import maintenance_job
from holdfast.maintenance.schemas import DeleteParams
from holdfast.operations.job_work import JobReport, JobWork, NothingToDo, reported
from holdfast.operations.kinds import CHANGES_ARCHIVES, Kind
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.repositories import protection
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository


def kind(opener: Opener) -> Kind:
    job = JobWork(JobKind.ARCHIVE_DELETE, block, conclude)
    return maintenance_job(opener, job, "delete_archive", DeleteParams, "archive", effects=CHANGES_ARCHIVES)


def block(session: Session, operation: Operation) -> DeleteBlock:
    """Raise NothingToDo if the archive was protected while its deletion waited."""
    params = DeleteParams.model_validate(operation.params)
    if protection.is_meant(session, operation.repository_id or 0, params.archive, params.engine_id):
        raise NothingToDo("archive_protected")
    return DeleteBlock(archive=params.archive, archive_id=params.engine_id)


def conclude(session: Session, operation: Operation, report: JobReport) -> Outcome:
    params = DeleteParams.model_validate(operation.params)
    gone = tuple(str(number) for number in listed(report.details.get("deleted"))[:MOST_ARCHIVES])
    if report.succeeded and not gone and params.engine_id:
        gone = (params.engine_id,)
    result: dict[str, Any] = {"archive": _archive(params, report, gone) if report.succeeded or gone else None}
    if gone:
        result |= soft_delete.note_for(session.get_one(Repository, operation.repository_id))
    record = evidence_record(operation, report, None, gone=gone)
    return reported(report, result=result, had_effects=bool(gone), record=record)


def _archive(params: DeleteParams, report: JobReport, gone: tuple[str, ...]) -> dict[str, Any]:
    found = report.details.get("archive")
    start = found.get("start") if isinstance(found, Mapping) else None
    return {
        "name": params.archive,
        "id": params.engine_id or (gone[0] if gone else None),
        **({"start": start} if isinstance(start, str) else {}),
    }
