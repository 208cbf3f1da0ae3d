"""Starts work on a repository in the same way for every kind."""

from dataclasses import replace
from typing import Any

from pydantic import BaseModel
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.operations import queue
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin, Subject
from holdfast.operations.schemas import StartAnswer
from holdfast.operations.status import Trigger
from holdfast.repositories import agent_target, store
from holdfast.repositories.models import Repository


@frozen
class AgentJob:
    """A job for a specific agent."""

    agent_machine_id: int
    job_kind: str


@frozen
class OfRunner:
    """Work done by a runner. For a repository on an agent, the runner calls that agent's engine."""


def start(
    session: Session,
    caller: Caller,
    kind: Kind,
    repository: Repository,
    params: BaseModel,
    *,
    origin: Origin | None = None,
    archive_name: str | None = None,
    details: dict[str, Any] | None = None,
    executed_by: AgentJob | OfRunner | None = None,
) -> Operation:
    """Queue an operation on a repository, and record who requested it. It waits until the repository is set up.

    `executed_by` is for work that is not executed where the repository is opened. Raise Conflict if the repository's
    agent takes no work or could not set it up, TooManyRequests if too much work is waiting.
    """
    queue.require_room(session, repository.id)
    origin = origin or Origin(Trigger.MANUAL, caller.user_id, caller.username)
    if (awaited := agent_target.awaited_setup(session, repository)) is not None:
        origin = replace(origin, depends_on_id=awaited)
    operation = queue.enqueue(
        session,
        kind,
        params.model_dump(mode="json", exclude_none=True),
        origin,
        subject=_subject(repository, executed_by),
        archive_name=archive_name,
    )
    details = {"repository_id": repository.id, "repository": repository.name, **(details or {})}
    audit.note(session, caller, f"{kind.name}.started", "operation", operation.id, details)
    return operation


def _subject(repository: Repository, executed_by: AgentJob | OfRunner | None) -> Subject:
    subject = store.subject(repository)
    match executed_by:
        case AgentJob():
            machine = executed_by.agent_machine_id
            return replace(subject, executor="agent", machine_id=machine, job_kind=executed_by.job_kind)
        case OfRunner():
            return replace(subject, executor="runner")
        case None:
            return subject


def started(operation: Operation, what: str) -> StartAnswer:
    message = f"The {what} of {operation.repository_name} is queued."
    return StartAnswer(job_id=operation.id, status=operation.status, message=message)
