"""Asking an operation to stop, and saying truthfully whether it has."""

import time

from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.errors import Conflict
from holdfast.operations import store
from holdfast.operations.models import Operation
from holdfast.operations.reach import unknown
from holdfast.operations.schemas import CancelAnswer
from holdfast.operations.status import TERMINAL, Status
from holdfast.storage.session import Database

ANSWER_SECONDS = 5.0

MESSAGES = {
    Status.CANCELLED: "The operation was cancelled.",
    Status.RUNNING: "The operation was asked to stop; it is cancelled when its engine has stopped.",
}


def cancel(database: Database, caller: Caller, operation: Operation) -> CancelAnswer:
    """Ask for the operation to stop, wait a little for it, and say how it stands. Raise Conflict if it has ended."""
    with database.writing() as session:
        before = store.get(session, operation.id)
        if before is None:
            raise unknown(operation.id)
        if Status(before.status) in TERMINAL:
            raise already_finished(before)
        status = store.request_cancel(session, operation.id)
        audit.record(session, actor=caller, action="operation.cancel", object_type="operation", object_id=operation.id)
    if status is Status.RUNNING:
        status = _wait_for_end(database, operation.id)
    message = MESSAGES.get(status or Status.CANCELLED, "The operation ended before the request to stop reached it.")
    return CancelAnswer(id=operation.id, status=status or Status.CANCELLED, cancel_requested=True, message=message)


def already_finished(operation: Operation) -> Conflict:
    return Conflict(
        "operations.already_finished",
        "The operation has ended already.",
        operation_id=operation.id,
        status=operation.status,
    )


def _wait_for_end(database: Database, operation_id: int) -> Status | None:
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        seen = database.work.number
        with database.reading() as session:
            operation = store.get(session, operation_id)
        status = Status(operation.status) if operation else None
        remaining = deadline - time.monotonic()
        if status is not Status.RUNNING or remaining <= 0:
            return status
        database.work.wait(seen, min(remaining, 0.5))
