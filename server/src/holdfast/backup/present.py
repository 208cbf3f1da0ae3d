"""A backup's operation as the status payload."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy.orm import Session

from holdfast.backup.schemas import BackupStatus, ProgressDetails
from holdfast.kit import clock
from holdfast.operations import waiting_reasons
from holdfast.operations.lanes import Verdict
from holdfast.operations.log_answers import summary
from holdfast.operations.models import Operation
from holdfast.operations.present import percent
from holdfast.operations.status import SUCCEEDED, Status


def statuses(session: Session, logs: Path, operations: Sequence[Operation], *, with_logs: bool) -> list[BackupStatus]:
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


def _status(operation: Operation, verdict: Verdict | None, position: int | None, log: str | None) -> BackupStatus:
    done = percent(operation) or 0.0
    is_beyond = operation.status not in SUCCEEDED and bool((operation.progress or {}).get("more_than_expected"))
    known = {
        name: value
        for name, value in (operation.progress or {}).items()
        if name in ProgressDetails.model_fields and value is not None
    }
    return BackupStatus(
        id=operation.id,
        repository=operation.repository_path,
        status=operation.status,
        started_at=operation.started_at,
        completed_at=operation.completed_at,
        progress=done,
        error_message=operation.error_message,
        error_key=operation.error_key,
        logs=log,
        progress_details=ProgressDetails(**{**known, "progress_percent": None if is_beyond else done}),
        error_params=(operation.result or {}).get("error_params"),
        archive_name=operation.archive_name,
        trigger=operation.trigger,
        triggered_by=operation.triggered_by,
        run_id=operation.run_id,
        attempt=operation.attempt,
        retry_of=operation.retry_of,
        queue_position=position if operation.status == Status.PENDING else None,
        queued_reason=verdict.reason if verdict else None,
        queued_behind_id=verdict.behind_id if verdict else None,
        cancel_requested=operation.cancel_requested_at is not None,
        warnings=operation.warnings or [],
    )
