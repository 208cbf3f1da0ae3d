"""Let other operations pass during long index work: between two archives, check which ones wait for the repository."""

from collections.abc import Callable

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.kit import clock
from holdfast.operations import queue, waiting_reasons
from holdfast.operations.context import Context
from holdfast.operations.kinds import Kind
from holdfast.operations.lanes import QueuedReason
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin, Subject
from holdfast.operations.status import AGEING_SECONDS_PER_POINT, LockMode, Trigger


def waiter_of(context: Context) -> int | None:
    """Return the operation that waits for this one's lane and would be first in line once it is free; None if none
    would.
    """
    with context.database.reading() as session:
        return _waiter(session, context.operation)


def _waiter(session: Session, operation: Operation) -> int | None:
    if operation.lock_key is None:
        return None
    waiting, judged = waiting_reasons.verdicts(session, clock.now(), only_lanes=[operation.lock_key], everyone=True)
    exclusive = [
        waiter.id
        for waiter in waiting
        if waiter.lock_mode == LockMode.EXCLUSIVE and judged[waiter.id].reason is QueuedReason.REPOSITORY_BUSY
    ]
    if not exclusive:
        return None
    # An operation that would queue behind the rest of this work gains nothing if this run ends now.
    rank = clock.now().timestamp() + operation.priority * AGEING_SECONDS_PER_POINT
    first = select(Operation.id).where(Operation.id.in_(exclusive), Operation.queue_rank <= rank)
    return session.scalars(first.order_by(Operation.queue_rank, Operation.id).limit(1)).first()


def continuation(kind: Kind, operation: Operation) -> Callable[[Session], None]:
    """Return a function for the transaction that ends an operation: it queues the remaining work as part of the same
    run.
    """

    def enqueue(session: Session) -> None:
        assert operation.repository_id is not None
        subject = Subject(
            operation.repository_id,
            operation.repository_name or "",
            operation.repository_path or "",
            operation.machine_id,
        )
        origin = Origin(
            Trigger(operation.trigger),
            operation.triggered_by_id,
            operation.triggered_by,
            run_id=operation.run_id,
            parent_id=operation.parent_id,
        )
        queue.enqueue(session, kind, dict(operation.params), origin, subject=subject)

    return enqueue
