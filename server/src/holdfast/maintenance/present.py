"""Presents a maintenance operation as its status payload."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy.orm import Session

from holdfast.maintenance.schemas import MaintenanceJob
from holdfast.operations.job_status import job_values
from holdfast.operations.models import Operation


def jobs(session: Session, logs: Path, operations: Sequence[Operation], *, with_logs: bool) -> list[MaintenanceJob]:
    return [MaintenanceJob(**values) for values in job_values(session, logs, operations, with_logs=with_logs)]
