"""Whether the agent that opens a repository may be given work. This module knows only the name of the agents' table."""

from typing import Any

from sqlalchemy import JSON, Select, bindparam, column, select, table
from sqlalchemy.orm import Session

from holdfast.errors import Conflict, Unprocessable
from holdfast.operations import pages
from holdfast.operations.models import Operation
from holdfast.operations.status import ACTIVE, SUCCEEDED, Status
from holdfast.repositories.models import Repository

SHUT_OUT = frozenset({"disabled", "revoked"})

UNVERIFIED = "unverified"
"""Imported for an agent that cannot open it on request: its first backup is the proof that it opens."""

_agents = table("agent_machines", column("id"), column("status"), column("capabilities", JSON))
_STATUS: Select[Any] = select(_agents.c.status).where(_agents.c.id == bindparam("agent"))
_CAPABILITIES: Select[Any] = select(_agents.c.capabilities).where(_agents.c.id == bindparam("agent"))


def status_of(session: Session, agent_machine_id: int | None) -> str | None:
    """Return the status of an agent; None if there is no such agent."""
    status: str | None = session.execute(_STATUS, {"agent": agent_machine_id or 0}).scalar()
    return status


def can(session: Session, agent_machine_id: int | None, job_kind: str) -> bool:
    """Whether an agent has reported this capability. Work that needs no agent is always possible."""
    if agent_machine_id is None:
        return True
    found = session.execute(_CAPABILITIES, {"agent": agent_machine_id}).scalar()
    return job_kind in (found or ())


def require_able(session: Session, repository: Repository, capability: str, sentence: str) -> None:
    """Raise Unprocessable if an agent runs the repository's engine and has not reported the capability."""
    agent = repository.agent_machine_id
    if repository.execution_target == "agent" and not can(session, agent, capability):
        raise Unprocessable("repository.agent_unable", sentence, agent_machine_id=agent, capability=capability)


def require_agent(session: Session, agent_machine_id: int | None) -> int:
    """Return the agent if a repository may be assigned to it. Raise Unprocessable or Conflict."""
    if agent_machine_id is None:
        raise Unprocessable(
            "repository.agent_missing", "A repository that belongs to an agent requires agent_machine_id."
        )
    status = status_of(session, agent_machine_id)
    if status is None:
        raise Unprocessable("repository.unknown_agent", "Agent not found.", agent_machine_id=agent_machine_id)
    if status in SHUT_OUT:
        raise shut_out(agent_machine_id)
    return agent_machine_id


def takes_work(session: Session, repository: Repository) -> bool:
    """Return False if the repository's agent is gone or shut out: queued work would wait indefinitely."""
    if repository.execution_target != "agent":
        return True
    status = status_of(session, repository.agent_machine_id)
    return status is not None and status not in SHUT_OUT


def awaited_setup(session: Session, repository: Repository) -> int | None:
    """Return the operation that new work has to wait for while the repository is being set up.

    Raise Conflict if the agent takes no work, or if the repository could not be set up.
    """
    if not takes_work(session, repository):
        raise shut_out(repository.agent_machine_id)
    state = setup_state(session, repository)
    if state == "failed":
        raise Conflict(
            "repository.not_set_up",
            "The agent could not set up the repository; try again with POST /api/repositories/{id}/setup.",
            setup_operation_id=repository.setup_operation_id,
        )
    return repository.setup_operation_id if state == "pending" else None


def setup_state(session: Session, repository: Repository) -> str:
    """Return `ready`, `unverified`, `pending`, or `failed` if the operation that should set it up did not succeed."""
    if repository.setup_state != "pending":
        return repository.setup_state
    operation = setup_operation(session, repository)
    if operation is None:
        return "failed"
    return "pending" if Status(operation.status) in ACTIVE | SUCCEEDED else "failed"


def setup_operation(session: Session, repository: Repository) -> Operation | None:
    return pages.get(session, repository.setup_operation_id or 0)


def shut_out(agent_machine_id: int | None) -> Conflict:
    sentence = "This repository's agent is disabled, revoked or removed, and takes no work."
    return Conflict("agents.revoked", sentence, agent_machine_id=agent_machine_id)
