"""Index work that another operation has done since it was queued.

Every change of the archives queues index work of its own, so that cancelling, skipping or failing the work of an
earlier change never leaves a later one out. What was still waiting at that moment starts later than the change, and so
sees it: when it has read the repository, the work of the change has nothing left to do.
"""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.archives.params import StageParams
from holdfast.operations.context import Context
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import Status


def waiting_operation(session: Session, repository_id: int, kind: str) -> int | None:
    """The oldest operation of a kind that waits for its first start."""
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
    """The outcome of an operation whose work another one has done; None if the repository has to be read.

    The answer is kept, so that a run that was interrupted does not change its mind.
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
    """One that was covered itself may have been covered by a read from before the change in question."""
    operation = session.get(Operation, operation_id)
    if operation is None or operation.status != Status.COMPLETED:
        return False
    return "covered_by" not in (operation.result or {})
