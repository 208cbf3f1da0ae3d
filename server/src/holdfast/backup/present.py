"""Present a backup operation as a status response."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from holdfast.backup.schemas import BackupStatus, ProgressDetails
from holdfast.operations.job_status import job_values, known_progress
from holdfast.operations.models import Operation
from holdfast.operations.status import SUCCEEDED


def statuses(session: Session, logs: Path, operations: Sequence[Operation], *, with_logs: bool) -> list[BackupStatus]:
    shared = job_values(session, logs, operations, with_logs=with_logs)
    return [_status(operation, values) for operation, values in zip(operations, shared, strict=True)]


def _status(operation: Operation, values: dict[str, Any]) -> BackupStatus:
    is_beyond = operation.status not in SUCCEEDED and bool((operation.progress or {}).get("more_than_expected"))
    details = {
        **known_progress(operation, ProgressDetails.model_fields),
        "progress_percent": None if is_beyond else values["progress"],
    }
    return BackupStatus(**values, progress_details=ProgressDetails(**details))
