"""Agents and their jobs, as presented to administrators."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.agents import store
from holdfast.agents.fleet import Fleet
from holdfast.agents.job_status import job_status
from holdfast.agents.models import AgentJob, AgentMachine, EnrollmentToken
from holdfast.agents.payload import Payloads
from holdfast.agents.schemas import AgentItem, AgentJobItem, EnrollmentTokenItem, MachineItem
from holdfast.errors import Forbidden, NotFound
from holdfast.machines.models import SshConnection
from holdfast.operations.models import Operation
from holdfast.operations.status import ACTIVE, Status

COPIED = [name for name in AgentItem.model_fields if name not in ("last_seen_at", "clock_skew_seconds")]


def agent_item(agent: AgentMachine, fleet: Fleet) -> AgentItem:
    values = {name: getattr(agent, name) for name in COPIED}
    return AgentItem(**values, last_seen_at=fleet.last_seen(agent), clock_skew_seconds=fleet.skew(agent))


def machine_item(agent: AgentMachine, fleet: Fleet) -> MachineItem:
    return MachineItem.from_row(agent, connection_type="agent", last_seen_at=fleet.last_seen(agent))


def ssh_machine_item(connection: SshConnection) -> MachineItem:
    return MachineItem.from_row(connection, connection_type="ssh", status=connection.state)


def token_item(token: EnrollmentToken, now: datetime) -> EnrollmentTokenItem:
    values = {name: getattr(token, name) for name in EnrollmentTokenItem.model_fields if name != "status"}
    return EnrollmentTokenItem(**values, status=_token_status(token, now))


def _token_status(token: EnrollmentToken, now: datetime) -> str:
    if token.used_at is not None:
        return "used"
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at <= now else "unused"


def job_items(session: Session, payloads: Payloads, operations: Sequence[Operation]) -> list[AgentJobItem]:
    ids = [operation.id for operation in operations]
    jobs = {job.operation_id: job for job in session.scalars(select(AgentJob).where(AgentJob.operation_id.in_(ids)))}
    agents = store.by_id(session, (operation.machine_id for operation in operations if operation.machine_id))
    return [
        _job_item(session, payloads, operation, jobs.get(operation.id), agents.get(operation.machine_id or 0))
        for operation in operations
    ]


def _job_item(
    session: Session, payloads: Payloads, operation: Operation, job: AgentJob | None, agent: AgentMachine | None
) -> AgentJobItem:
    ended = Status(operation.status) not in ACTIVE
    return AgentJobItem(
        id=operation.id,
        agent_machine_id=operation.machine_id,
        agent_id=agent.agent_id if agent else None,
        agent_name=agent.name if agent else None,
        job_type=operation.kind,
        job_kind=operation.job_kind,
        status=job_status(operation, job),
        operation_status=operation.status,
        repository_id=operation.repository_id,
        repository=operation.repository_name,
        payload=job.payload if job else _future_payload(session, payloads, operation),
        result=operation.result if ended else None,
        claimed_at=job.claimed_at if job else None,
        started_at=job.started_at if job else None,
        completed_at=operation.completed_at,
        error_key=operation.error_key,
        error_message=operation.error_message,
        cancel_requested=operation.cancel_requested_at is not None,
        created_at=operation.created_at,
        updated_at=operation.completed_at or (job.updated_at if job else operation.created_at),
    )


def _future_payload(session: Session, payloads: Payloads, operation: Operation) -> dict[str, object] | None:
    """The payload that the agent would get now: it is not fixed until the job is first handed out."""
    if operation.status != Status.PENDING:
        return None
    try:
        return payloads.build(session, operation)
    except (Forbidden, NotFound):
        return None
