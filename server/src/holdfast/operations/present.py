"""From rows to the responses for clients."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends
from sqlalchemy.orm import Session

from holdfast.api.parts import Part
from holdfast.kit import clock
from holdfast.operations import waiting_reasons
from holdfast.operations.kinds import Registry
from holdfast.operations.lanes import Verdict
from holdfast.operations.models import Operation
from holdfast.operations.schemas import OperationItem
from holdfast.operations.status import SUCCEEDED, Status

COPIED = (
    "id",
    "kind",
    "category",
    "status",
    "trigger",
    "priority",
    "run_id",
    "parent_id",
    "depends_on_id",
    "retry_of",
    "repository_id",
    "repository_path",
    "machine_id",
    "created_at",
    "started_at",
    "completed_at",
    "error_message",
    "error_key",
    "skip_reason",
    "triggered_by",
    "schedule_id",
    "schedule_name",
    "archive_name",
    "package_name",
    "attempt",
    "params",
    "result",
)


class Presenter:
    """Turns operations into items, with the label of each kind and the location of its log."""

    def __init__(self, registry: Registry, logs: Path) -> None:
        self.registry = registry
        self.logs = logs

    def items(self, session: Session, operations: Sequence[Operation]) -> list[OperationItem]:
        verdicts = waiting_verdicts(session, operations)
        return [self.item(operation, verdicts.get(operation.id)) for operation in operations]

    def item(self, operation: Operation, verdict: Verdict | None = None) -> OperationItem:
        return OperationItem(**self.values(operation, verdict))

    def values(self, operation: Operation, verdict: Verdict | None) -> dict[str, Any]:
        progress = operation.progress or {}
        loaded = vars(operation)  # reading each attribute would take as long as everything else
        return {
            **{name: loaded[name] if name in loaded else getattr(operation, name) for name in COPIED},
            "error_params": (operation.result or {}).get("error_params"),
            "activity_key": f"operation:{operation.id}",
            "type": self.registry.word_of(operation.kind),
            "repository": operation.repository_name,
            "queued_reason": verdict.reason if verdict else None,
            "queued_behind_id": verdict.behind_id if verdict else None,
            "cancel_requested": operation.cancel_requested_at is not None,
            "duration_seconds": _duration(operation),
            "progress_percent": percent(operation),
            "progress_current": progress.get("original_size") or progress.get("current"),
            "progress_total": progress.get("total_expected_size") or progress.get("total"),
            "progress_message": progress.get("message"),
            "has_logs": operation.log_file is not None,
            "log_file_path": str(self.logs / operation.log_file) if operation.log_file else None,
            "warnings": operation.warnings or [],
        }


PRESENTER = Part[Presenter]("presenter")
ThePresenter = Annotated[Presenter, Depends(PRESENTER)]


def waiting_verdicts(session: Session, operations: Sequence[Operation]) -> Mapping[int, Verdict]:
    """Return why each pending operation among these waits. Without pending ones, no query is made."""
    pending = [operation for operation in operations if operation.status == Status.PENDING]
    return waiting_reasons.verdicts_of(session, clock.now(), pending) if pending else {}


def percent(operation: Operation) -> float | None:
    if operation.status in SUCCEEDED:
        return 100.0
    value = (operation.progress or {}).get("progress_percent")
    return float(value) if value is not None else None


def _duration(operation: Operation) -> float | None:
    if operation.started_at is None:
        return None
    end = operation.completed_at or (clock.now() if operation.status == Status.RUNNING else None)
    return round(clock.seconds_between(operation.started_at, end), 3) if end else None
