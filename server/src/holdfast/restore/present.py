"""A restore's operation as the status payload."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy.orm import Session

from backup_jobs.paths import from_json, readable
from backup_jobs.restore.progress import estimated_time_remaining
from holdfast.kit import clock
from holdfast.operations import waiting_reasons
from holdfast.operations.lanes import Verdict
from holdfast.operations.log_answers import summary
from holdfast.operations.models import Operation
from holdfast.operations.present import percent
from holdfast.operations.status import ACTIVE, SUCCEEDED, Status
from holdfast.restore.schemas import RestoreParams, RestoreProgress, RestoreStatus


def statuses(session: Session, logs: Path, operations: Sequence[Operation], *, with_logs: bool) -> list[RestoreStatus]:
    verdicts: Mapping[int, Verdict] = {}
    order: list[int] = []
    if any(operation.status == Status.PENDING for operation in operations):
        waiting, verdicts = waiting_reasons.verdicts(session, clock.now(), everyone=True)
        order = [waiter.id for waiter in waiting]
    positions = {operation_id: number for number, operation_id in enumerate(order, 1)}
    return [
        _status(
            operation,
            verdicts.get(operation.id),
            positions.get(operation.id),
            summary(logs, operation) if with_logs else None,
        )
        for operation in operations
    ]


def _status(operation: Operation, verdict: Verdict | None, position: int | None, log: str | None) -> RestoreStatus:
    params = RestoreParams.model_validate(operation.params)
    details = _details(operation)
    return RestoreStatus(
        id=operation.id,
        repository=operation.repository_path,
        archive=operation.archive_name,
        destination=readable(from_json(params.destination)),
        status=operation.status,
        started_at=operation.started_at,
        completed_at=operation.completed_at,
        progress=details.progress_percent,
        error_message=operation.error_message,
        error_key=operation.error_key,
        logs=log,
        progress_details=details,
        restore_layout=params.restore_layout,
        overwrite=params.overwrite,
        dry_run=params.dry_run,
        trigger=operation.trigger,
        triggered_by=operation.triggered_by,
        run_id=operation.run_id,
        attempt=operation.attempt,
        queue_position=position if operation.status == Status.PENDING else None,
        queued_reason=verdict.reason if verdict else None,
        queued_behind_id=verdict.behind_id if verdict else None,
        cancel_requested=operation.cancel_requested_at is not None,
        warnings=operation.warnings or [],
        result=operation.result if Status(operation.status) not in ACTIVE else None,
    )


def _details(operation: Operation) -> RestoreProgress:
    known = {
        name: value
        for name, value in (operation.progress or {}).items()
        if name in RestoreProgress.model_fields and value is not None
    }
    details = RestoreProgress(**{**known, "progress_percent": percent(operation) or 0.0})
    if operation.status in SUCCEEDED:
        details.estimated_time_remaining = 0
    elif operation.status == Status.RUNNING:
        details.estimated_time_remaining = estimated_time_remaining(
            details.original_size, details.restored_size, details.restore_speed
        )
    return details
