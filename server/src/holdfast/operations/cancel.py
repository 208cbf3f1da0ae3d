"""Cancels operations, and reports truthfully whether they have stopped."""

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.errors import Conflict
from holdfast.operations import pages, transitions
from holdfast.operations.models import Operation
from holdfast.operations.schemas import CancelAnswer
from holdfast.operations.status import TERMINAL, Status
from holdfast.operations.visible_operations import unknown
from holdfast.storage.session import Database

ANSWER_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 0.5

Route = TypeVar("Route", bound=Callable[..., CancelAnswer])

MESSAGES = {
    Status.CANCELLED: "The operation was cancelled.",
    Status.RUNNING: "Cancellation was requested; the operation ends once its engine has stopped.",
}


def waits_for_end(route: Route) -> Route:
    """Mark a route that cancels: it answers when the operation has stopped, or after a few seconds.

    The cancellation is requested in a thread; waiting for the end occupies none.
    """

    @functools.wraps(route)
    async def waiting(**values: Any) -> CancelAnswer:
        answer: CancelAnswer = await run_in_threadpool(route, **values)
        if answer.status != Status.RUNNING:
            return answer
        database = next(value for value in values.values() if isinstance(value, Database))
        return _answer(answer.id, await _end_of(database, answer.id))

    waiting.waits_for_end = True  # type: ignore[attr-defined]
    return waiting  # type: ignore[return-value]


def cancel(database: Database, caller: Caller, operation: Operation) -> CancelAnswer:
    """Request cancellation of the operation and return its status. Raise Conflict if it has already ended."""
    with database.writing() as session:
        before = pages.get(session, operation.id)
        if before is None:
            raise unknown(operation.id)
        if Status(before.status) in TERMINAL:
            raise already_finished(before)
        status = transitions.request_cancel(session, operation.id)
        audit.record(session, actor=caller, action="operation.cancel", object_type="operation", object_id=operation.id)
    return _answer(operation.id, status)


def _answer(operation_id: int, status: Status | None) -> CancelAnswer:
    message = MESSAGES.get(status or Status.CANCELLED, "The operation ended before it could be cancelled.")
    return CancelAnswer(id=operation_id, status=status or Status.CANCELLED, cancel_requested=True, message=message)


def already_finished(operation: Operation) -> Conflict:
    return Conflict(
        "operations.already_finished",
        "The operation has already ended.",
        operation_id=operation.id,
        status=operation.status,
    )


async def _end_of(database: Database, operation_id: int) -> Status | None:
    """Return the status once the operation has ended, or when the time for an answer is up."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        seen = database.work.number
        status = await run_in_threadpool(_status, database, operation_id)
        if status is not Status.RUNNING or time.monotonic() >= deadline:
            return status
        await database.work.changed(seen, min(LONGEST_PAUSE_SECONDS, deadline - time.monotonic()))


def _status(database: Database, operation_id: int) -> Status | None:
    with database.reading() as session:
        operation = pages.get(session, operation_id)
    return Status(operation.status) if operation else None
