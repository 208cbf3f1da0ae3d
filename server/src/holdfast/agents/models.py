"""Tables for agents."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    exists,
)
from sqlalchemy.orm import Mapped, aliased, mapped_column

from backup_protocol import AgentStatus
from holdfast.operations import agent_presence
from holdfast.storage.base import NEVER_REUSED, Base, NumberedRow
from holdfast.storage.json_list import lists
from holdfast.storage.types import Identifier, JsonValue

PREFIX_LENGTH = 16


class AgentMachine(NumberedRow):
    """A machine with an agent. Only a hash of its credential is stored."""

    __tablename__ = "agent_machines"

    machine_id: Mapped[int | None] = mapped_column(Identifier)
    name: Mapped[str] = mapped_column(String(200))
    agent_id: Mapped[str] = mapped_column(String(32), unique=True)
    token_hash: Mapped[str] = mapped_column(String(64), unique=True)
    token_prefix: Mapped[str] = mapped_column(String(PREFIX_LENGTH))
    hostname: Mapped[str] = mapped_column(String(255))
    os: Mapped[str] = mapped_column(String(60))
    arch: Mapped[str] = mapped_column(String(60))
    agent_version: Mapped[str] = mapped_column(String(60))
    engine_versions: Mapped[list[dict[str, Any]]]
    capabilities: Mapped[list[str]]
    labels: Mapped[dict[str, str]] = mapped_column(JsonValue)
    status: Mapped[str] = mapped_column(String(10))
    last_seen_at: Mapped[datetime | None]
    """When the agent was last seen as of the last change of its state or facts; later times are in `agent_times`."""
    last_error: Mapped[str | None]
    unstarted_services: Mapped[list[dict[str, str]]] = mapped_column(JsonValue, default=list, server_default="[]")
    """Services on its machine that backups stopped and that fail to start again, each as `{"name", "error"}`."""
    clock_skew_seconds: Mapped[float | None] = mapped_column(Float)
    """How far the agent's clock was ahead of ours at its last report."""
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]

    __table_args__ = (
        CheckConstraint(f"status IN ({', '.join(repr(str(status)) for status in AgentStatus)})", name="status"),
        Index("ix_agent_machines_status", "status", "last_seen_at"),
        NEVER_REUSED,
    )


class _Agents(agent_presence.Presence):
    """Tells the kernel, from the table above, whether an agent can take an operation."""

    def is_online(self, machine_id: Any) -> ColumnElement[bool]:
        agent = aliased(AgentMachine)
        return exists().where(agent.id == machine_id, agent.status == AgentStatus.ONLINE)

    def can(self, machine_id: Any, job_kind: Any) -> ColumnElement[bool]:
        agent = aliased(AgentMachine)
        online = (agent.id == machine_id, agent.status == AgentStatus.ONLINE)
        return exists().where(*online, lists(agent.capabilities, job_kind))


agent_presence.answered_by(_Agents())


class EnrollmentToken(NumberedRow):
    """A one-time token that turns a machine into an agent."""

    __tablename__ = "agent_enrollment_tokens"

    name: Mapped[str] = mapped_column(String(200))
    token_hash: Mapped[str] = mapped_column(String(64), unique=True)
    token_prefix: Mapped[str] = mapped_column(String(PREFIX_LENGTH))
    created_by_user_id: Mapped[int | None] = mapped_column(Identifier)
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]
    used_by_agent_id: Mapped[int | None] = mapped_column(Identifier)
    revoked_at: Mapped[datetime | None]
    created_at: Mapped[datetime]


class AgentJob(Base):
    """The record of an operation as an agent's job, created when it is first handed out."""

    __tablename__ = "agent_jobs"

    operation_id: Mapped[int] = mapped_column(
        Identifier, ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    agent_machine_id: Mapped[int] = mapped_column(Identifier)
    job_kind: Mapped[str] = mapped_column(String(40))
    payload: Mapped[dict[str, Any]]
    """Secret values are omitted."""
    claimed_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]
    report: Mapped[dict[str, Any] | None]
    log_ranges: Mapped[list[list[int]]] = mapped_column(JsonValue, default=list)
    """The sequence numbers of the lines in the log file, as inclusive ranges."""
    log_lines: Mapped[int] = mapped_column(Integer, default=0)
    """The number of lines in the log file that belong to them; later lines were never acknowledged."""
    part_bytes: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    """The size of the result's parts, as measured by `bounded_json.weight`."""
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class AgentJobPart(Base):
    """One part of a long result, kept until the job ends."""

    __tablename__ = "agent_job_parts"

    operation_id: Mapped[int] = mapped_column(
        Identifier, ForeignKey("agent_jobs.operation_id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    part: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    items: Mapped[list[dict[str, Any]]]


class AgentTimes(Base):
    """When the agents of 1,024 consecutive ids last connected; see `last_seen_times`."""

    __tablename__ = "agent_times"

    number: Mapped[int] = mapped_column(Identifier, primary_key=True, autoincrement=False)
    seconds: Mapped[bytes] = mapped_column(LargeBinary)


class AgentFleet(Base):
    """A single row with a number that increases with every change that invalidates cached credentials."""

    __tablename__ = "agent_fleet"

    id: Mapped[int] = mapped_column(Identifier, primary_key=True, autoincrement=False)
    generation: Mapped[int]
