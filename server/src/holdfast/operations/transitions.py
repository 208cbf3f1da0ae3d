"""All status changes of operations. Nothing else in the service writes a status."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, func, select, update
from sqlalchemy.orm import Session, aliased

from holdfast.kit import clock
from holdfast.operations import outbox
from holdfast.operations.end_time import end_of_work
from holdfast.operations.ending_log import log_ending
from holdfast.operations.kinds import Registry
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import SUCCEEDED, TERMINAL, TRANSITIONS, Needs, Status
from holdfast.storage.session import lanes_after_commit

DEPENDENCY_FAILED = "dependency_failed"


INLINE_EXECUTOR = "inline"
"""A request that holds a lane itself. It leaves no history and causes no events: only its lane matters to others."""


def is_enough(needs: Needs, ended: Status, *, started: bool) -> bool:
    """Whether this end satisfies an operation that depends on it."""
    if needs is Needs.OVER:
        return True
    if needs is Needs.RAN:
        return started and ended is not Status.SKIPPED
    return ended in SUCCEEDED


def publish_status(session: Session, operation_id: int, repository_id: int | None, status: Status, **more: Any) -> None:
    """Write the outbox row for a status change."""
    payload = {"id": operation_id, "status": str(status), **more}
    outbox.publish(session, "operation.updated", payload, repository_id=repository_id, operation_id=operation_id)


def move(
    session: Session,
    operation_id: int,
    old: Status,
    new: Status,
    *guards: Any,
    **values: Any,
) -> bool:
    """Change a status if it is still the expected one. Return False if another process was faster."""
    if new not in TRANSITIONS[old]:
        raise ValueError(f"an operation never goes from {old} to {new}")
    changed = session.execute(
        update(Operation)
        .where(Operation.id == operation_id, Operation.status == old, *guards)
        .values(status=new, **values)
        .returning(Operation.repository_id, Operation.kind, Operation.repository_name, Operation.executor)
        .execution_options(synchronize_session=False)
    ).all()
    if len(changed) != 1:
        return False
    row = changed[0]
    if row.executor != INLINE_EXECUTOR:
        publish_status(session, operation_id, row.repository_id, new)
    elif new is not Status.RUNNING:
        lanes_after_commit(session)
    log_ending(session, new, values=values, operation_id=operation_id, kind=row.kind, repository=row.repository_name)
    return True


def requeue_for_next_attempt(
    session: Session,
    operation: Operation,
    *,
    log_lines: int,
    delay_seconds: float,
    result: Mapping[str, Any] | None = None,
) -> bool:
    """Return a running operation to the queue for its next attempt, with the result of this one, if any.

    Return False if it no longer belongs to this runner or was cancelled; then there is no next attempt.
    """
    later = clock.now() + timedelta(seconds=delay_seconds) if delay_seconds else None
    kept = {"result": dict(result)} if result is not None else {}
    return _requeue(
        session, operation, attempt=operation.attempt + 1, log_base_line=log_lines, available_at=later, **kept
    )


def requeue_as_never_started(session: Session, operation: Operation) -> bool:
    """Return a running operation to the queue as if it had never been claimed. Return False if it was cancelled."""
    values = {"started_at": None} if operation.attempt == 1 else {}
    return _requeue(session, operation, **values)


def _still(operation: Operation) -> tuple[ColumnElement[bool], ...]:
    """Conditions that it still belongs to the same runner, in the same attempt."""
    return Operation.runner_id == operation.runner_id, Operation.attempt == operation.attempt


def _requeue(session: Session, operation: Operation, **values: Any) -> bool:
    return move(
        session,
        operation.id,
        Status.RUNNING,
        Status.PENDING,
        *_still(operation),
        Operation.cancel_requested_at.is_(None),
        runner_id=None,
        spool=None,
        progress=None,
        **values,
    )


def finish(
    session: Session,
    registry: Registry,
    operation: Operation,
    outcome: Outcome,
    progress: dict[str, Any] | None = None,
) -> bool:
    """End a running operation. Return False if it no longer belongs to this runner.

    The caller has already run `outcome.record`, and has set the end time with `recording_end` if it was earlier.
    """
    ended = move(
        session,
        operation.id,
        Status.RUNNING,
        outcome.status,
        *_still(operation),
        completed_at=end_of_work(session),
        error_key=outcome.error_key,
        error_message=outcome.error_message,
        skip_reason=outcome.skip_reason,
        result=dict(outcome.result) if outcome.result is not None else operation.result,
        warnings=[dict(warning) for warning in outcome.warnings] or None,
        archive_name=outcome.archive_name or operation.archive_name,
        progress=progress,
    )
    if not ended:
        return False
    settle_dependants(session, operation.id, outcome.status)
    if outcome.status in SUCCEEDED or outcome.had_effects:
        notify_listeners(session, registry, operation.id)
    return True


def name_archive(session: Session, operation: Operation, name: str, result: dict[str, Any]) -> None:
    """Complete the record of an ended backup whose archive name was unknown at its end."""
    session.execute(
        update(Operation)
        .where(Operation.id == operation.id, Operation.archive_name.is_(None))
        .values(archive_name=name, result=result)
        .execution_options(synchronize_session=False)
    )
    publish_status(session, operation.id, operation.repository_id, Status(operation.status))


def notify_listeners(session: Session, registry: Registry, operation_id: int) -> None:
    operation = session.get(Operation, operation_id, populate_existing=True)
    kind = registry.kinds.get(operation.kind) if operation else None
    if operation is None or kind is None:
        return
    for effect in sorted(kind.effects):
        for listener in registry.listeners.get(effect, ()):
            listener(session, operation)


def settle_dependants(session: Session, operation_id: int, status: Status) -> None:
    """Skip operations that required a different end of this one, and in turn those that depend on them."""
    if status in SUCCEEDED:
        return
    for dependant in session.execute(_DEPENDANTS, {"dependency": operation_id}).all():
        started = dependant.dependency_started_at is not None
        if is_enough(Needs(dependant.depends_needs), status, started=started):
            continue
        if skip(session, dependant.id, DEPENDENCY_FAILED):
            settle_dependants(session, dependant.id, Status.SKIPPED)


def skip(session: Session, operation_id: int, reason: str) -> bool:
    return move(session, operation_id, Status.PENDING, Status.SKIPPED, skip_reason=reason, completed_at=clock.now())


def fail_pending(session: Session, operation_id: int, error_key: str, error_message: str) -> bool:
    failed = move(
        session,
        operation_id,
        Status.PENDING,
        Status.FAILED,
        completed_at=clock.now(),
        error_key=error_key,
        error_message=error_message,
    )
    if failed:
        settle_dependants(session, operation_id, Status.FAILED)
    return failed


def request_cancel(session: Session, operation_id: int) -> Status | None:
    """Cancel a pending operation, or request a running one to stop. Return the new status; None if it is unknown."""
    while True:
        if _cancel_pending(session, operation_id):
            return Status.CANCELLED
        if _ask_to_stop(session, operation_id):
            return Status.RUNNING
        status = session.scalar(select(Operation.status).where(Operation.id == operation_id))
        if status is None or Status(status) in TERMINAL:
            return Status(status) if status else None


def _cancel_pending(session: Session, operation_id: int) -> bool:
    now = clock.now()
    cancelled = move(session, operation_id, Status.PENDING, Status.CANCELLED, cancel_requested_at=now, completed_at=now)
    if cancelled:
        settle_dependants(session, operation_id, Status.CANCELLED)
    return cancelled


def _ask_to_stop(session: Session, operation_id: int) -> bool:
    asked = session.execute(
        update(Operation)
        .where(Operation.id == operation_id, Operation.status == Status.RUNNING)
        .values(cancel_requested_at=func.coalesce(Operation.cancel_requested_at, clock.now()))
        .returning(Operation.repository_id)
        .execution_options(synchronize_session=False)
    ).all()
    if asked:
        publish_status(session, operation_id, asked[0].repository_id, Status.RUNNING, cancel_requested=True)
    return bool(asked)


def cancel_pending_of_repository(session: Session, repository_id: int, *, categories: Iterable[str] = ()) -> int:
    """Cancel everything that waits for a repository, optionally only in some categories.

    Newest first, so that an operation that waits for another of them is cancelled too instead of being skipped.
    """
    statement = (
        select(Operation.id)
        .where(Operation.repository_id == repository_id, Operation.status == Status.PENDING)
        .order_by(Operation.id.desc())
    )
    if wanted := tuple(categories):
        statement = statement.where(Operation.category.in_(wanted))
    return sum(request_cancel(session, pending) is Status.CANCELLED for pending in session.scalars(statement).all())


def remove_finished_inline(session: Session, operation_id: int) -> None:
    """Delete an ended inline call: it leaves no history, only its lane mattered."""
    session.execute(delete(Operation).where(Operation.id == operation_id, Operation.executor == INLINE_EXECUTOR))
    lanes_after_commit(session)


def delete_finished(session: Session, operation_id: int) -> bool:
    """Remove an ended operation from the record. Return False if it is unknown, pending or running."""
    gone = session.execute(
        delete(Operation)
        .where(Operation.id == operation_id, Operation.status.not_in((Status.PENDING, Status.RUNNING)))
        .returning(Operation.id)
    ).all()
    if gone:
        session.execute(update(Operation).where(Operation.parent_id == operation_id).values(parent_id=None))
    return bool(gone)


_dependency = aliased(Operation)
_DEPENDANTS = (
    select(Operation.id, Operation.depends_needs, _dependency.started_at.label("dependency_started_at"))
    .outerjoin(_dependency, _dependency.id == Operation.depends_on_id)
    .where(Operation.depends_on_id == bindparam("dependency"), Operation.status == Status.PENDING)
    .order_by(Operation.id)
)
