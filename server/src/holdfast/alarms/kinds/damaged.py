"""`damaged`: a check or a restore check found damage, and no full check has passed since."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import func, select

from holdfast.alarms.kind import AlarmKind, EvaluationContext, Finding, Subject, on_day, shown
from holdfast.alarms.models import Severity
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories.models import Repository

DAMAGED = "engine.damaged"
SAY_SO = ("check", "restore_check")

_LAST_SEEN = (
    # Few operations end with this error, and they have their own index.
    select(Operation.repository_id, func.max(Operation.id).label("id"))
    .where(Operation.error_key == DAMAGED, Operation.kind.in_(SAY_SO), Operation.repository_id.is_not(None))
    .group_by(Operation.repository_id)
    .subquery()
)
_DAMAGE = (
    select(Operation.id, Operation.repository_id, Operation.kind, Operation.completed_at)
    .join(_LAST_SEEN, _LAST_SEEN.c.id == Operation.id)
    .join(Repository, Repository.id == Operation.repository_id)
)


def find(context: EvaluationContext) -> Iterator[Finding]:
    damage = context.session.execute(_DAMAGE).all()
    passed = _full_checks(context, {row.repository_id: row.id for row in damage})
    for row in damage:
        if passed.get(row.repository_id, 0) < row.id:
            evidence = {"operation_id": row.id, "found_by": row.kind, "found_at": shown(row.completed_at)}
            yield Finding(Subject("repository", row.repository_id), Severity.CRITICAL, evidence)


def _full_checks(context: EvaluationContext, damage: Mapping[int, int]) -> dict[int, int]:
    """Return, for each of these repositories, the newest full check that passed after the damage was found."""
    if not damage:
        return {}
    checks = select(Operation.id, Operation.repository_id, Operation.result).where(
        Operation.repository_id.in_(damage),
        Operation.kind == "check",
        Operation.status == Status.COMPLETED,
        Operation.id > min(damage.values()),
    )
    found = context.session.execute(checks.order_by(Operation.id))
    return {row.repository_id: row.id for row in found if _is_full(row.result or {})}


def _is_full(result: Mapping[str, Any]) -> bool:
    """Whether a check covered everything, changed nothing and found nothing."""
    return bool(result.get("complete")) and not result.get("repair") and not result.get("problem_count")


def message(name: str, evidence: Mapping[str, Any]) -> str:
    found_by = str(evidence.get("found_by")).replace("_", " ")
    found_at = on_day(evidence.get("found_at"))
    return (
        f"{name} is damaged: a {found_by} found it at {found_at}. Make a copy before repairing; a full check clears "
        f"this alarm."
    )


KIND = AlarmKind("damaged", find, message)
