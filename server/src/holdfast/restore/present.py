"""The status payload of a restore."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from backup_jobs.paths import from_json, readable
from backup_jobs.restore.progress import estimated_time_remaining
from holdfast.operations.job_status import job_values, known_progress
from holdfast.operations.models import Operation
from holdfast.operations.present import percent
from holdfast.operations.status import ACTIVE, SUCCEEDED, Status
from holdfast.restore.schemas import RestoreParams, RestoreProgress, RestoreStatus


def statuses(session: Session, logs: Path, operations: Sequence[Operation], *, with_logs: bool) -> list[RestoreStatus]:
    shared = job_values(session, logs, operations, with_logs=with_logs)
    return [_status(operation, values) for operation, values in zip(operations, shared, strict=True)]


def _status(operation: Operation, values: dict[str, Any]) -> RestoreStatus:
    params = RestoreParams.model_validate(operation.params)
    own = {
        "archive": operation.archive_name,
        "destination": readable(from_json(params.destination)),
        "progress_details": _details(operation),
        "restore_layout": params.restore_layout,
        "overwrite": params.overwrite,
        "dry_run": params.dry_run,
        "result": operation.result if Status(operation.status) not in ACTIVE else None,
    }
    return RestoreStatus(**{**values, **own})


def _details(operation: Operation) -> RestoreProgress:
    known = known_progress(operation, RestoreProgress.model_fields)
    details = RestoreProgress(**{**known, "progress_percent": percent(operation) or 0.0})
    if operation.status in SUCCEEDED:
        details.estimated_time_remaining = 0
    elif operation.status == Status.RUNNING:
        details.estimated_time_remaining = estimated_time_remaining(
            details.original_size, details.restored_size, details.restore_speed
        )
    return details
