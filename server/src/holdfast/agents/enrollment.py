"""Enrol, disable, revoke and remove agents."""

import uuid
from collections.abc import Sequence
from datetime import timedelta

import structlog
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from backup_protocol import AGENT_TOKEN_PREFIX, ENROLLMENT_TOKEN_PREFIX, AgentStatus
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.agents import jobs, store
from holdfast.agents.credentials import KnownAgent
from holdfast.agents.fleet import audited
from holdfast.agents.gateway import Gateway
from holdfast.agents.models import PREFIX_LENGTH, AgentJob, AgentMachine, EnrollmentToken
from holdfast.agents.schemas import NewEnrollmentToken, RegisterBody, Registered
from holdfast.errors import Conflict, Unauthenticated
from holdfast.kit import clock
from holdfast.kit.tokens import new_token, token_hash
from holdfast.operations.models import Operation
from holdfast.operations.status import TERMINAL
from holdfast.storage.session import Database, after_commit

log = structlog.get_logger("holdfast.agents")

SHUT_OUT_SENTENCE = "An administrator disabled or revoked the agent before the job ended."
CROSSING_SECONDS = 60.0
"""How long after its report a job is not cancelled even if a heartbeat lists it as running."""


def create_token(session: Session, caller: Caller, wanted: NewEnrollmentToken) -> tuple[EnrollmentToken, str]:
    """Create a token and return it with its value, which is not stored."""
    now = clock.now()
    value = new_token(ENROLLMENT_TOKEN_PREFIX)
    token = EnrollmentToken(
        name=wanted.name,
        token_hash=token_hash(value),
        token_prefix=value[:PREFIX_LENGTH],
        created_by_user_id=caller.user_id,
        expires_at=now + timedelta(minutes=wanted.expires_in_minutes),
        created_at=now,
    )
    session.add(token)
    session.flush()
    _log_and_audit(session, caller, "agent.enrollment_token_created", "enrollment_token", token.id, name=token.name)
    return token, value


def revoke_token(session: Session, caller: Caller, token_id: int) -> EnrollmentToken:
    """Revoke an unused token. Raise Conflict for a used one: its agent must be revoked instead."""
    token = store.token(session, token_id)
    session.refresh(token, with_for_update=True)
    if token.used_at is not None:
        raise Conflict("agents.enrollment_token_used", "The token was used; revoke the agent that it enrolled.")
    if token.revoked_at is None:
        token.revoked_at = clock.now()
        _log_and_audit(session, caller, "agent.enrollment_token_revoked", "enrollment_token", token.id, name=token.name)
    return token


def register(gateway: Gateway, body: RegisterBody, address: str | None) -> Registered:
    """Register the holder of an unused token as an agent. Raise Unauthenticated if the token is not valid."""
    now = clock.now()
    credential = new_token(AGENT_TOKEN_PREFIX)
    with gateway.database.writing() as session:
        token = store.use_token(session, token_hash(body.enrollment_token), now)
        if token is None:
            raise Unauthenticated(
                "agents.enrollment_invalid", "The enrollment token is unknown, used, expired or revoked."
            )
        agent = store.add(
            session,
            name=body.name,
            agent_id=uuid.uuid4().hex,
            token_hash=token_hash(credential),
            token_prefix=credential[:PREFIX_LENGTH],
            hostname=body.hostname,
            os=body.os,
            arch=body.arch,
            agent_version=body.agent_version,
            engine_versions=[version.model_dump() for version in body.engine_versions],
            capabilities=list(dict.fromkeys(body.capabilities)),
        )
        token.used_by_agent_id = agent.id
        log.info("an agent has registered", agent_id=agent.agent_id, name=agent.name, token=token.token_prefix)
        audit.add(
            session,
            audited(
                agent,
                "agent.registered",
                address=address,
                details={"name": agent.name, "hostname": agent.hostname, "enrollment_token_id": token.id},
            ),
        )
    return Registered(
        agent_id=agent.agent_id,
        agent_token=credential,
        server_time=now,
        poll_interval_seconds=gateway.settings.agent_poll_seconds,
        heartbeat_interval_seconds=gateway.settings.agent_heartbeat_seconds,
    )


def unregister(gateway: Gateway, agent: KnownAgent) -> str:
    """Disable the agent at its own request and fail its unfinished jobs."""
    with gateway.database.writing() as session:
        machine = store.active(session, agent.id, to_change=True)
        shut_out(session, gateway, machine, AgentStatus.DISABLED)
        audit.add(session, audited(machine, "agent.unregistered"))
        return str(machine.status)


def change_status(
    session: Session, gateway: Gateway, caller: Caller, agent: AgentMachine, status: AgentStatus
) -> AgentMachine:
    """Disable, enable or revoke an agent. Raise Conflict if its current status does not allow the change."""
    session.refresh(agent, with_for_update=True)
    if agent.status == status:
        return agent
    if agent.status == AgentStatus.REVOKED:
        raise Conflict("agents.is_revoked", "Revoking an agent is permanent; enrol the machine again.")
    if status in store.SHUT_OUT:
        shut_out(session, gateway, agent, status)
    elif agent.status == AgentStatus.DISABLED:
        store.set_status(session, agent, AgentStatus.OFFLINE)
        _invalidate_credentials(session, gateway)
    word = "enabled" if status not in store.SHUT_OUT else str(status)
    _log_and_audit(session, caller, f"agent.{word}", "agent", agent.id, name=agent.name)
    return agent


def delete(session: Session, gateway: Gateway, caller: Caller, agent: AgentMachine) -> None:
    """Remove an agent's record. Its unfinished jobs end; its past jobs stay in the history."""
    session.refresh(agent, with_for_update=True)
    ended = jobs.end_unfinished(session, gateway.registry, agent.id, "agents.revoked", SHUT_OUT_SENTENCE)
    store.forget(session, agent)
    _invalidate_credentials(session, gateway)
    _forget_after_commit(session, gateway, agent.id)
    _log_and_audit(session, caller, "agent.deleted", "agent", agent.id, name=agent.name, ended_jobs=ended)


def shut_out(session: Session, gateway: Gateway, agent: AgentMachine, status: AgentStatus) -> None:
    """Stop an agent: once this is committed, it gets no work, and nothing that it sends is accepted."""
    store.set_status(session, agent, status)
    ended = jobs.end_unfinished(session, gateway.registry, agent.id, "agents.revoked", SHUT_OUT_SENTENCE)
    _invalidate_credentials(session, gateway)
    _forget_after_commit(session, gateway, agent.id)
    log.info("an agent is shut out", agent_id=agent.agent_id, status=str(status), ended_jobs=ended)


def ended_jobs(database: Database, agent_machine_id: int, claimed_to_run: Sequence[int]) -> list[int]:
    """Return jobs that have ended in the store although the agent still reports them as running.

    Jobs that the agent has reported within the last minute are omitted, because the heartbeat may have been sent before
    the report: agents of the previous version exit if they receive a cancel for a job whose files they have just
    removed.
    """
    just_now = clock.now() - timedelta(seconds=CROSSING_SECONDS)
    statement = (
        select(Operation.id)
        .outerjoin(AgentJob, AgentJob.operation_id == Operation.id)
        .where(
            Operation.id.in_(claimed_to_run),
            Operation.machine_id == agent_machine_id,
            Operation.executor == "agent",
            Operation.status.in_(list(TERMINAL)),
            or_(AgentJob.report.is_(None), AgentJob.updated_at < just_now),
        )
    )
    with database.reading() as session:
        return list(session.scalars(statement))


def _forget_after_commit(session: Session, gateway: Gateway, agent_id: int) -> None:
    """Make this process forget an agent, and end its long poll, once the transaction is durable."""

    def forget() -> None:
        gateway.fleet.forget(agent_id)
        gateway.work_cache.call(frozenset({agent_id}))

    after_commit(session, forget)


def _invalidate_credentials(session: Session, gateway: Gateway) -> None:
    store.next_generation(session)
    after_commit(session, gateway.credentials.forget_all)


def _log_and_audit(
    session: Session, caller: Caller, action: str, object_type: str, object_id: int, **details: str | int
) -> None:
    log.info("management of agents", action=action, object_id=object_id, by=caller.username)
    audit.note(session, caller, action, object_type, object_id, dict(details))


def changed(session: Session, gateway: Gateway, caller: Caller, agent: AgentMachine) -> None:
    """Record and announce that an administrator has changed an agent."""
    agent.updated_at = clock.now()
    session.flush()
    store.publish(session, agent)
    _invalidate_credentials(session, gateway)
    _log_and_audit(session, caller, "agent.changed", "agent", agent.id, name=agent.name)
