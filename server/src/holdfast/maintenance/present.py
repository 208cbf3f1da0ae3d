"""A maintenance operation as its status payload."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from holdfast.kit import clock
from holdfast.maintenance.schemas import MaintenanceJob
from holdfast.operations import waiting_reasons
from holdfast.operations.lanes import Verdict
from holdfast.operations.log_answers import summary
from holdfast.operations.models import Operation
from holdfast.operations.present import percent
from holdfast.operations.status import Status

COPIED = (
    "id",
    "kind",
    "repository_id",
    "repository_name",
    "status",
    "started_at",
    "completed_at",
    "created_at",
    "error_message",
    "error_key",
    "archive_name",
    "trigger",
    "triggered_by",
    "run_id",
    "attempt",
    "params",
    "result",
)


def job(session: Session, logs: Path, operation: Operation) -> MaintenanceJob:
    return jobs(session, logs, [operation], with_logs=True)[0]


def jobs(session: Session, logs: Path, operations: Sequence[Operation], *, with_logs: bool) -> list[MaintenanceJob]:
    return [MaintenanceJob(**values) for values in job_values(session, logs, operations, with_logs=with_logs)]


def job_values(
    session: Session, logs: Path, operations: Sequence[Operation], *, with_logs: bool
) -> list[dict[str, Any]]:
    verdicts: Mapping[int, Verdict] = {}
    positions: dict[int, int] = {}
    if any(operation.status == Status.PENDING for operation in operations):
        waiting, verdicts = waiting_reasons.verdicts(session, clock.now(), everyone=True)
        positions = {waiter.id: number for number, waiter in enumerate(waiting, 1)}
    return [
        {
            **_values(operation, verdicts.get(operation.id)),
            "queue_position": positions.get(operation.id),
            "logs": summary(logs, operation) if with_logs else None,
        }
        for operation in operations
    ]


def _values(operation: Operation, verdict: Verdict | None) -> dict[str, Any]:
    return {
        **{name: getattr(operation, name) for name in COPIED},
        "repository": operation.repository_path,
        "progress": percent(operation) or 0.0,
        "progress_message": (operation.progress or {}).get("message") if operation.completed_at is None else None,
        "has_logs": operation.log_file is not None,
        "queued_reason": verdict.reason if verdict else None,
        "queued_behind_id": verdict.behind_id if verdict else None,
        "cancel_requested": operation.cancel_requested_at is not None,
        "warnings": operation.warnings or [],
    }
