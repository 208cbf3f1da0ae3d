"""The processes that execute operations, and the operations they hold."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, exists, func, select, update
from sqlalchemy.orm import Session

from holdfast.operations.models import Operation, Runner
from holdfast.operations.status import Status
from holdfast.operations.transitions import INLINE_EXECUTOR
from holdfast.storage.rows import change_rows


def known(session: Session) -> list[Runner]:
    return list(session.scalars(select(Runner).order_by(Runner.started_at)))


def heartbeat(session: Session, runner_id: str, now: datetime) -> None:
    session.execute(update(Runner).where(Runner.id == runner_id).values(heartbeat_at=now))


def forget_idle_runner(session: Session, runner_id: str) -> bool:
    """Remove a runner unless a running operation refers to it. Return False if one does."""
    busy = exists().where(Operation.runner_id == runner_id, Operation.status == Status.RUNNING)
    gone = session.execute(delete(Runner).where(Runner.id == runner_id, ~busy).returning(Runner.id)).all()
    return bool(gone)


def running_groups(session: Session) -> list[str]:
    """Return the limit group of each running operation that counts towards a limit."""
    statement = select(Operation.limit_group).where(
        Operation.status == Status.RUNNING, Operation.limit_group.is_not(None)
    )
    return [group for group in session.scalars(statement) if group is not None]


def running_by_runner(session: Session) -> dict[str, int]:
    statement = (
        select(Operation.runner_id, func.count())
        .where(Operation.status == Status.RUNNING, Operation.runner_id.is_not(None))
        .group_by(Operation.runner_id)
    )
    return {str(row[0]): row[1] for row in session.execute(statement)}


def running_in_processes(session: Session) -> list[Operation]:
    """Return all operations that run in processes of the service, on any machine."""
    statement = select(Operation).where(
        Operation.status == Status.RUNNING,
        Operation.executor.in_(("runner", INLINE_EXECUTOR)),
        Operation.runner_id.is_not(None),
    )
    return list(session.scalars(statement))


def waiting_requests(session: Session) -> list[Operation]:
    """Return the requests that wait for a lane, each assigned to the process that answers it."""
    statement = select(Operation).where(
        Operation.status == Status.PENDING, Operation.executor == INLINE_EXECUTOR, Operation.runner_id.is_not(None)
    )
    return list(session.scalars(statement))


def active_among(session: Session, operations: Iterable[int]) -> set[int]:
    """Return which of the given operations wait or run."""
    statement = select(Operation.id).where(Operation.status.in_((Status.PENDING, Status.RUNNING)))
    return set(session.scalars(statement)) & set(operations)


def take_over(session: Session, operation: Operation, runner_id: str) -> bool:
    """Reassign an operation of a dead runner to this runner."""
    taken = change_rows(
        session,
        Operation,
        Operation.id == operation.id,
        Operation.status == Status.RUNNING,
        Operation.runner_id == operation.runner_id,
        Operation.attempt == operation.attempt,
        runner_id=runner_id,
    )
    return bool(taken)


def cancel_requested_of(session: Session, runner_id: str) -> list[int]:
    return list(session.scalars(_CANCEL_REQUESTED, {"runner": runner_id}))


def write_progress(session: Session, rows: list[dict[str, Any]]) -> None:
    """Store progress values in a single statement; each row is `{b_id, b_attempt, b_progress}`."""
    session.connection().execute(_PROGRESS, rows)


_CANCEL_REQUESTED = select(Operation.id).where(
    Operation.status == Status.RUNNING,
    Operation.runner_id == bindparam("runner"),
    Operation.cancel_requested_at.is_not(None),
)


_PROGRESS = (
    update(Operation.__table__)  # type: ignore[arg-type]
    .where(
        Operation.__table__.c.id == bindparam("b_id"),
        Operation.__table__.c.attempt == bindparam("b_attempt"),
        Operation.__table__.c.status == "running",
    )
    .values(progress=bindparam("b_progress"))
)
