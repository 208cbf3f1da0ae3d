"""The fields shared by the status payloads of all jobs: backup, restore, maintenance, wipe, packages.

Each kind adds its own.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.operations import pages, waiting_reasons
from holdfast.operations.lanes import Verdict
from holdfast.operations.log_answers import summary
from holdfast.operations.models import Operation
from holdfast.operations.present import percent, waiting_verdicts
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
    "package_name",
    "trigger",
    "triggered_by",
    "run_id",
    "attempt",
    "retry_of",
    "params",
    "result",
)


def job_values(
    session: Session, logs: Path, operations: Sequence[Operation], *, with_logs: bool
) -> list[dict[str, Any]]:
    """Return the shared fields of each operation; a schema picks the ones that it declares."""
    pending = [operation for operation in operations if operation.status == Status.PENDING]
    verdicts = waiting_verdicts(session, pending)
    positions = waiting_reasons.positions(session, pending)
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
        "error_params": (operation.result or {}).get("error_params"),
        "has_logs": operation.log_file is not None,
        "queued_reason": verdict.reason if verdict else None,
        "queued_behind_id": verdict.behind_id if verdict else None,
        "cancel_requested": operation.cancel_requested_at is not None,
        "warnings": operation.warnings or [],
    }


def known_progress(operation: Operation, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored progress, reduced to the fields of a schema."""
    progress = operation.progress or {}
    return {name: value for name, value in progress.items() if name in fields and value is not None}


def page_of_jobs(
    session: Session, caller: Caller, kind: str, repository_id: int | None, limit: int, cursor: str | None
) -> tuple[list[Operation], str | None]:
    """Return the newest visible operations of a kind, optionally of one repository, and the next cursor."""
    visible = rights.visible_repositories(session, caller)
    if repository_id is not None and visible is not None and repository_id not in visible:
        return [], None
    narrowed = pages.Filter(
        repositories=visible,
        of_repositories_only=caller.role is not Role.ADMIN,
        repository_id=repository_id,
        kinds=(kind,),
    )
    return pages.page(session, narrowed, limit, cursor)
