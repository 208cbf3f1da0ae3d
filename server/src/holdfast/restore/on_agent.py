"""A restore that an agent does on its machine."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from backup_protocol import JobKind
from holdfast.operations.agent_work import AgentReport, AgentWork
from holdfast.operations.kinds import Outcome, reported
from holdfast.operations.models import Operation
from holdfast.restore.endings import NOTHING
from holdfast.restore.schemas import RestoreParams

MOST_NAMED = 1000
COUNTS = frozenset({*(name for name, value in NOTHING.items() if isinstance(value, int)), "files", "bytes"})
LISTS = frozenset(name for name, value in NOTHING.items() if isinstance(value, list))


def work() -> AgentWork:
    return AgentWork(JobKind.RESTORE_EXTRACT, _payload, _conclude)


def _payload(session: Session, operation: Operation) -> Mapping[str, Any]:
    del session
    params = RestoreParams.model_validate(operation.params)
    return {
        "archive": params.archive,
        **({"archive_id": params.engine_id} if params.engine_id else {}),
        "paths": params.paths,
        "destination": params.destination,
        "restore_layout": params.restore_layout,
        "overwrite": params.overwrite,
        "dry_run": params.dry_run,
    }


def _conclude(session: Session, operation: Operation, report: AgentReport) -> Outcome:
    """What the agent counted, and nothing that it did not tell."""
    del session
    params = RestoreParams.model_validate(operation.params)
    told = {name: value for name, value in report.details.items() if _is_count(name, value)}
    named = {name: _named(value) for name, value in report.details.items() if name in LISTS}
    nothing = {} if params.dry_run else NOTHING
    extra = {"dry_run": True} if params.dry_run else {}
    return reported(report, result={**nothing, **told, **named, **extra})


def _is_count(name: str, value: Any) -> bool:
    return name in COUNTS and isinstance(value, int) and not isinstance(value, bool)


def _named(value: Any) -> list[dict[str, str]]:
    items = value if isinstance(value, list) else []
    return [
        {key: str(item[key]) for key in ("path", "path_b64", "reason") if key in item}
        for item in items[:MOST_NAMED]
        if isinstance(item, Mapping)
    ]
