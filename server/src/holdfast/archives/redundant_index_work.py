"""Skip index work that another operation has done since this one was queued.

Every change of the archives queues its own index work, so that a change is never missed because the work of an earlier
one was cancelled, skipped or failed. An operation that was still waiting when the change happened starts after it and
therefore sees it. Once that operation has read the repository, there is nothing left to do for the change.
"""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.archives.stage_params import StageParams
from holdfast.operations.context import Context
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import Status


def waiting_operation(session: Session, repository_id: int, kind: str) -> int | None:
    """Return the id of the oldest operation of a kind that waits for its first start."""
    statement = (
        select(Operation.id)
        .where(
            Operation.repository_id == repository_id,
            Operation.kind == kind,
            Operation.status == Status.PENDING,
            Operation.started_at.is_(None),
        )
        .order_by(Operation.id)
    )
    return session.scalars(statement.limit(1)).first()


def already_done(context: Context) -> Outcome | None:
    """Return the outcome of an operation whose work another one has done; None if the repository has to be read.

    The decision is stored, so that an interrupted run does not decide differently when it resumes.
    """
    kept = context.once("covered", lambda: _read(context))
    if kept["by"] is None:
        return None
    context.log(f"Operation {kept['by']} has read the repository since this one was queued; nothing left to do.")
    return Outcome(Status.COMPLETED, result={"covered_by": kept["by"]})


def _read(context: Context) -> dict[str, Any]:
    params = context.params
    other = params.covered_by if isinstance(params, StageParams) else None
    if other is None:
        return {"by": None}
    with context.database.reading() as session:
        return {"by": other if _has_read_the_repository(session, other) else None}


def _has_read_the_repository(session: Session, operation_id: int) -> bool:
    """Return whether the operation itself read the repository.

    An operation that was itself covered does not count: that read may be older than the change in question.
    """
    operation = session.get(Operation, operation_id)
    if operation is None or operation.status != Status.COMPLETED:
        return False
    return "covered_by" not in (operation.result or {})
