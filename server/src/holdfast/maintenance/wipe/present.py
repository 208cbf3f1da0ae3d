"""Presents a preview or a wipe as its payload. The status comes from the operation's details."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from holdfast.maintenance.wipe import store
from holdfast.maintenance.wipe.models import WipePreview
from holdfast.maintenance.wipe.preview import phrase
from holdfast.maintenance.wipe.schemas import WipeJob
from holdfast.operations import pages
from holdfast.operations.job_status import job_values
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories import protection
from holdfast.repositories.models import Repository

PREVIEW_PHASES = {"previewed": "preview", "started": "preview", "cancelled": "cancelled"}
DETAILS = ("deleted_count", "remaining_count", "deleted", "remaining", "freed_bytes")


def phase_of(operation: Operation) -> str:
    result, progress = operation.result or {}, operation.progress or {}
    match operation.status:
        case Status.PENDING:
            return "queued"
        case Status.RUNNING:
            return str(progress.get("phase") or "delete")
        case Status.CANCELLED:
            return "cancelled"
        case Status.SKIPPED:
            return "error"
        case _:
            return str(result.get("phase") or "error")


def status_of(operation: Operation) -> str:
    """The status shown. `completed_compaction_failed` and `failed_partial` are presentations, not states."""
    phase = phase_of(operation)
    if phase == "compact_failed":
        return "completed_compaction_failed"
    if phase == "delete_failed_partial":
        return "failed_partial"
    return operation.status


def detail(operation: Operation) -> dict[str, Any]:
    result = operation.result or {}
    known = {name: result.get(name) for name in ("archive_count", *DETAILS)}
    return {"status": status_of(operation), "phase": phase_of(operation), **known}


def jobs(session: Session, logs: Path, found: Sequence[WipePreview | Operation], *, with_logs: bool) -> list[WipeJob]:
    del with_logs
    return [
        wipe_answer(session, logs, job)
        if isinstance(job, Operation)
        else preview_answer(session, session.get_one(Repository, job.repository_id), job)
        for job in found
    ]


def preview_answer(session: Session, repository: Repository, preview: WipePreview) -> WipeJob:
    reason = blocking_reason(session, repository.id)
    return WipeJob(
        id=preview.public_id,
        repository_id=repository.id,
        repository=repository.path,
        repository_name=repository.name,
        status=preview.status,
        phase=PREVIEW_PHASES[preview.status],
        preview_id=preview.public_id,
        operation_id=preview.operation_id,
        run_compact=preview.run_compact,
        archive_count=preview.archive_count,
        archive_fingerprint=preview.archive_fingerprint,
        archives=preview.archives,
        confirmation_phrase=phrase(repository),
        protected_count=protection.count(session, repository.id),
        blocked=reason is not None,
        blocking_reason=reason,
        created_at=preview.created_at,
    )


def wipe_answer(session: Session, logs: Path, operation: Operation) -> WipeJob:
    values = job_values(session, logs, [operation], with_logs=True)[0]
    result, params = operation.result or {}, operation.params
    preview = store.get(session, params["preview_id"])
    holder = values["queued_behind_id"]
    return WipeJob(
        **{name: values[name] for name in WipeJob.model_fields if name in values and name not in ("status", "params")},
        **{name: result[name] for name in DETAILS if name in result},
        status=status_of(operation),
        phase=phase_of(operation),
        preview_id=params["preview_id"],
        operation_id=operation.id,
        run_compact=params["run_compact"],
        archive_count=preview.archive_count if preview else len(result.get("deleted_ids") or ()),
        archive_fingerprint=params["archive_fingerprint"],
        archives=preview.archives if preview else [],
        blocked=holder is not None,
        blocking_reason=f"operation {holder} holds the repository" if holder is not None else None,
    )


def blocking_reason(session: Session, repository_id: int) -> str | None:
    """The first operation of the repository that is running or waiting, or None."""
    for operation in pages.active(session, frozenset({repository_id}), of_repositories_only=True):
        if operation.executor != "inline":
            return f"{operation.kind} {operation.id} is {operation.status}"
    return None
