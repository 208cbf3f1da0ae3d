"""All statements on agents and their tokens. No other module writes an agent's status."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, case, delete, select, update
from sqlalchemy.orm import Session

from backup_protocol import AgentStatus
from holdfast.agents import errors
from holdfast.agents.models import AgentFleet, AgentJob, AgentJobPart, AgentMachine, EnrollmentToken
from holdfast.kit import clock
from holdfast.operations import outbox
from holdfast.storage.inserts import conflict_aware_insert
from holdfast.storage.rows import change_rows, find_row, require_row

SHUT_OUT = frozenset({AgentStatus.DISABLED, AgentStatus.REVOKED})
THE_FLEET = 1


# --- agents ------------------------------------------------------------------------------------------------------


def get(session: Session, agent_id: int) -> AgentMachine | None:
    return find_row(session, AgentMachine, agent_id)


def require(session: Session, word: str) -> AgentMachine:
    """Return the agent with this id or public `agent_id`. Raise NotFound."""
    if word.isascii() and word.isdigit() and len(word) < 20:
        found = get(session, int(word))
    else:
        found = session.scalars(select(AgentMachine).where(AgentMachine.agent_id == word)).first()
    if found is None:
        raise errors.unknown_agent(word)
    return found


def active(session: Session, agent_id: int, *, to_change: bool = False) -> AgentMachine:
    """Return the agent's current row, locked against changes by others. Raise if the agent may no longer act."""
    statement = select(AgentMachine).where(AgentMachine.id == agent_id).with_for_update(read=not to_change)
    return not_shut_out(session.scalars(statement).first())


def by_id(session: Session, ids: Iterable[int], *, to_change: bool = False) -> dict[int, AgentMachine]:
    statement = select(AgentMachine).where(AgentMachine.id.in_(set(ids)))
    if to_change:
        statement = statement.order_by(AgentMachine.id).with_for_update()
    return {agent.id: agent for agent in session.scalars(statement)}


def require_admitted(session: Session, agent_id: int) -> AgentMachine:
    """Return the agent's current row. Raise if the agent may no longer act."""
    return not_shut_out(get(session, agent_id))


def not_shut_out(agent: AgentMachine | None) -> AgentMachine:
    if agent is None:
        raise errors.credential_invalid()
    if agent.status in SHUT_OUT:
        raise errors.revoked(agent.status)
    return agent


def every(session: Session) -> list[AgentMachine]:
    return list(session.scalars(select(AgentMachine).order_by(AgentMachine.name, AgentMachine.id)))


def by_credential(session: Session, token_hash: str) -> AgentMachine | None:
    return session.scalars(_BY_CREDENTIAL, {"hash": token_hash}).first()


def identities(session: Session, most: int) -> list[tuple[str, int, str, str, str]]:
    """Credential hash, id, public id, name and status of the first `most` agents."""
    columns = (AgentMachine.token_hash, AgentMachine.id, AgentMachine.agent_id, AgentMachine.name, AgentMachine.status)
    return [(*row,) for row in session.execute(select(*columns).order_by(AgentMachine.id).limit(most))]


def admitted(session: Session) -> frozenset[int]:
    """Ids of all agents that are not shut out."""
    return frozenset(session.scalars(select(AgentMachine.id).where(AgentMachine.status.not_in(sorted(SHUT_OUT)))))


def add(session: Session, **values: Any) -> AgentMachine:
    now = clock.now()
    agent = AgentMachine(**values, labels={}, created_at=now, updated_at=now, status=AgentStatus.PENDING)
    session.add(agent)
    session.flush()
    publish(session, agent)
    return agent


def set_status(session: Session, agent: AgentMachine, status: AgentStatus) -> None:
    agent.status = status
    agent.updated_at = clock.now()
    session.flush()
    publish(session, agent)


def set_online(session: Session, agents: Iterable[AgentMachine]) -> None:
    now = clock.now()
    for agent in agents:
        agent.status = AgentStatus.ONLINE
        agent.updated_at = now
    session.flush()


def went_silent(session: Session, agent: AgentMachine, last_seen: datetime | None) -> bool:
    """Set an agent offline unless it has connected since. Return whether it was set offline."""
    changed = change_rows(
        session,
        AgentMachine,
        AgentMachine.id == agent.id,
        AgentMachine.status == AgentStatus.ONLINE,
        AgentMachine.last_seen_at == last_seen,
        status=AgentStatus.OFFLINE,
        updated_at=clock.now(),
    )
    if changed:
        session.refresh(agent)
        publish(session, agent)
    return bool(changed)


def online_since(session: Session) -> dict[int, datetime | None]:
    """Agents that are online, with their last connection as stored in their rows."""
    columns = select(AgentMachine.id, AgentMachine.last_seen_at).where(AgentMachine.status == AgentStatus.ONLINE)
    return {row.id: row.last_seen_at for row in session.connection().execute(columns)}


def not_online(session: Session) -> dict[int, str]:
    """Agents that are offline or shut out, with their status."""
    others = [AgentStatus.OFFLINE, *sorted(SHUT_OUT)]
    columns = select(AgentMachine.id, AgentMachine.status).where(AgentMachine.status.in_(others))
    return {row.id: row.status for row in session.connection().execute(columns)}


def note_seen(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Store when agents last connected, as rows of `{b_id, b_seen, b_skew}`. Offline agents become online."""
    session.connection().execute(_SEEN, rows)


def forget(session: Session, agent: AgentMachine) -> None:
    session.delete(agent)
    session.flush()
    outbox.publish(
        session, "agent.updated", {"id": agent.id, "agent_id": agent.agent_id, "deleted": True}, repository_id=None
    )


def publish(session: Session, *agents: AgentMachine) -> None:
    """Notify administrators of changed agents."""
    payloads = [
        {"id": agent.id, "agent_id": agent.agent_id, "name": agent.name, "status": str(agent.status)}
        for agent in agents
    ]
    outbox.publish_for_admins(session, "agent.updated", payloads)


# --- the fleet's generation ----------------------------------------------------------------------------------------


def generation(session: Session) -> int:
    return session.scalar(_GENERATION) or 0


def next_generation(session: Session) -> None:
    """Increase the generation: once committed, no process trusts its cached credentials."""
    statement = conflict_aware_insert(session, AgentFleet).values(id=THE_FLEET, generation=1)
    session.execute(
        statement.on_conflict_do_update(index_elements=["id"], set_={"generation": AgentFleet.generation + 1})
    )


# --- enrollment tokens -----------------------------------------------------------------------------------------------


def tokens(session: Session) -> list[EnrollmentToken]:
    return list(session.scalars(select(EnrollmentToken).order_by(EnrollmentToken.id.desc()).limit(1000)))


def token(session: Session, token_id: int) -> EnrollmentToken:
    return require_row(session, EnrollmentToken, token_id, errors.unknown_token)


def use_token(session: Session, token_hash: str, now: datetime) -> EnrollmentToken | None:
    """Use up a token for a registration. Of simultaneous attempts, one gets the token, the others None."""
    taken = change_rows(
        session,
        EnrollmentToken,
        EnrollmentToken.token_hash == token_hash,
        EnrollmentToken.used_at.is_(None),
        EnrollmentToken.revoked_at.is_(None),
        EnrollmentToken.expires_at > now,
        used_at=now,
    )
    return session.get(EnrollmentToken, taken[0], populate_existing=True) if len(taken) == 1 else None


_GENERATION = select(AgentFleet.generation).where(AgentFleet.id == THE_FLEET)
_BY_CREDENTIAL = select(AgentMachine).where(AgentMachine.token_hash == bindparam("hash"))
_MACHINES = AgentMachine.__table__
_SEEN = (
    update(_MACHINES)  # type: ignore[arg-type]
    # Written as separate conditions: a list cannot be bound in a statement that is executed for many rows.
    .where(_MACHINES.c.id == bindparam("b_id"), *(_MACHINES.c.status != str(word) for word in sorted(SHUT_OUT)))
    .values(
        last_seen_at=bindparam("b_seen"),
        clock_skew_seconds=bindparam("b_skew"),
        status=case(
            (_MACHINES.c.status == str(AgentStatus.OFFLINE), str(AgentStatus.ONLINE)), else_=_MACHINES.c.status
        ),
    )
)


def has_part(session: Session, job_id: int, part: int) -> bool:
    """Whether this part of a job's result is already stored."""
    statement = select(AgentJobPart.part).where(AgentJobPart.operation_id == job_id, AgentJobPart.part == part)
    return session.scalar(statement) is not None


def forget_parts(session: Session, job: AgentJob) -> None:
    """Remove the parts sent by an attempt; the next attempt cannot use them."""
    session.execute(delete(AgentJobPart).where(AgentJobPart.operation_id == job.operation_id))
    job.part_bytes = 0
