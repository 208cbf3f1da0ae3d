"""Retries operations that did not succeed."""

from pydantic import ValidationError
from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.errors import Conflict
from holdfast.operations.kinds import Registry
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin
from holdfast.operations.schemas import RetryAnswer
from holdfast.operations.status import ACTIVE, SUCCEEDED, Status, Trigger

START_ANEW = "Operations of this kind cannot be retried; start a new one."


def queue_retry(session: Session, caller: Caller, registry: Registry, failed: Operation) -> Operation:
    """Queue the same work again. The rules of a new start apply: the caller's current rights and the current state.

    Raise Conflict if the operation has not ended, has succeeded, or is of a kind that must be started from scratch.
    """
    if Status(failed.status) in ACTIVE:
        raise Conflict("operations.still_active", "The operation has not ended yet.", status=failed.status)
    if failed.status in SUCCEEDED:
        raise Conflict("operations.not_retryable", "The operation has succeeded.", status=failed.status)
    kind = registry.kinds.get(failed.kind)
    if kind is None or kind.retry is None:
        raise Conflict("operations.not_retryable", START_ANEW, status=failed.status)
    try:
        return kind.retry(session, caller, kind, failed)
    except ValidationError as error:  # an earlier version stored it with other parameters
        raise Conflict("operations.not_retryable", START_ANEW, status=failed.status) from error


def retry_answer(operation: Operation, registry: Registry) -> RetryAnswer:
    word = registry.word_of(operation.kind).replace("_", " ")
    message = f"The {word} of {operation.repository_name or operation.package_name} is queued again."
    return RetryAnswer(job_id=operation.id, status=operation.status, message=message, retry_of=operation.retry_of or 0)


def origin_of(caller: Caller, failed: Operation) -> Origin:
    """Return the origin of the new operation, which joins the run of the failed one."""
    return Origin(Trigger.RETRY, caller.user_id, caller.username, run_id=failed.run_id, retry_of=failed.id)
