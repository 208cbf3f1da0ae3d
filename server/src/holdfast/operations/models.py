"""The kernel's tables."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ColumnElement, Float, Index, Integer, String, and_, literal_column, text
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.operations.status import Needs, Status
from holdfast.storage.base import NEVER_REUSED, Base, NumberedRow, partial_index
from holdfast.storage.types import Identifier, JsonValue, RowUuid, UtcDateTime

ACTIVE_CLAUSE = text("status IN ('pending', 'running')")
EXCLUSIVE_RUNNING = text("status = 'running' AND lock_mode = 'exclusive'")
AGENT_CLAUSE = text("executor = 'agent'")
DEPENDENT_CLAUSE = text("depends_on_id IS NOT NULL")
DAMAGED_CLAUSE = text("error_key = 'engine.damaged'")
WAITING_HERE = text("status = 'pending' AND executor = 'runner'")
WAITING_IN_A_GROUP = text("status = 'pending' AND limit_group IS NOT NULL")


class Operation(NumberedRow):
    """One piece of work, from its request to its actual end."""

    __tablename__ = "operations"

    uuid: Mapped[RowUuid]
    kind: Mapped[str] = mapped_column(String(40))
    category: Mapped[str] = mapped_column(String(20))
    status: Mapped[str] = mapped_column(String(30), default=Status.PENDING)
    trigger: Mapped[str] = mapped_column(String(20))
    priority: Mapped[int]
    queue_rank: Mapped[float] = mapped_column(Float)
    """created_at plus one minute per point of priority: sorting by it means sorting by priority with ageing."""

    run_id: Mapped[str] = mapped_column(String(32), index=True)
    parent_id: Mapped[int | None] = mapped_column(Identifier)
    depends_on_id: Mapped[int | None] = mapped_column(Identifier)
    depends_needs: Mapped[str] = mapped_column(String(10), default=Needs.SUCCEEDED, server_default=Needs.SUCCEEDED)
    """How the operation that it depends on must end."""
    retry_of: Mapped[int | None] = mapped_column(Identifier)

    repository_id: Mapped[int | None] = mapped_column(Identifier)
    repository_name: Mapped[str | None] = mapped_column(String(200))
    repository_path: Mapped[str | None]
    machine_id: Mapped[int | None] = mapped_column(Identifier)
    executor: Mapped[str] = mapped_column(String(10), default="runner")
    """Where it runs: `runner`, `inline` (the process that created it) or `agent`."""

    job_kind: Mapped[str | None] = mapped_column(String(40))
    """The capability that an agent needs to execute it."""

    lock_key: Mapped[str | None] = mapped_column(String(120))
    lock_mode: Mapped[str | None] = mapped_column(String(10))
    limit_group: Mapped[str | None] = mapped_column(String(20))

    created_at: Mapped[datetime]
    available_at: Mapped[datetime | None]
    """Earliest start (back-off)."""
    started_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]

    attempt: Mapped[int] = mapped_column(Integer, default=1)
    runner_id: Mapped[str | None] = mapped_column(String(32))
    spool: Mapped[str | None]
    """Folder with the spools of the current attempt; set by the claim."""
    log_file: Mapped[str | None]
    log_base_line: Mapped[int] = mapped_column(Integer, default=0)
    """Number of lines that earlier attempts left in the log."""

    error_key: Mapped[str | None] = mapped_column(String(80))
    error_message: Mapped[str | None]
    skip_reason: Mapped[str | None] = mapped_column(String(80))
    triggered_by_id: Mapped[int | None] = mapped_column(Identifier)
    triggered_by: Mapped[str | None] = mapped_column(String(200))
    schedule_id: Mapped[int | None] = mapped_column(Identifier)
    schedule_name: Mapped[str | None] = mapped_column(String(200))
    archive_name: Mapped[str | None]
    package_name: Mapped[str | None] = mapped_column(String(200))

    params: Mapped[dict[str, Any]] = mapped_column(JsonValue, default=dict)
    result: Mapped[dict[str, Any] | None]
    warnings: Mapped[list[dict[str, Any]] | None]
    progress: Mapped[dict[str, Any] | None]

    __table_args__ = (
        CheckConstraint(f"status IN ({', '.join(repr(str(status)) for status in Status)})", name="status"),
        partial_index("uq_operations_one_exclusive_per_lane", "lock_key", where=EXCLUSIVE_RUNNING, unique=True),
        partial_index("ix_operations_active", "status", "queue_rank", "id", where=ACTIVE_CLAUSE),
        partial_index("ix_operations_active_lane", "lock_key", "status", "queue_rank", "id", where=ACTIVE_CLAUSE),
        partial_index(
            "ix_operations_waiting_group", "status", "limit_group", "queue_rank", "id", where=WAITING_IN_A_GROUP
        ),
        partial_index("ix_operations_waiting_here", "status", "queue_rank", "id", where=WAITING_HERE),
        partial_index("ix_operations_dependent", "depends_on_id", where=DEPENDENT_CLAUSE),
        partial_index("ix_operations_damaged", "repository_id", "id", where=DAMAGED_CLAUSE),
        partial_index("ix_operations_agent", "machine_id", "id", where=AGENT_CLAUSE),
        # One for each set of axes of a filter: see newest.py.
        Index("ix_operations_repository", "repository_id", "id"),
        Index("ix_operations_repository_kind", "repository_id", "kind", "id"),
        Index("ix_operations_repository_status_trigger", "repository_id", "status", "trigger", "id"),
        Index("ix_operations_repository_kind_status_trigger", "repository_id", "kind", "status", "trigger", "id"),
        Index("ix_operations_kind", "kind", "id"),
        Index("ix_operations_kind_status_trigger", "kind", "status", "trigger", "id"),
        Index("ix_operations_status_trigger", "status", "trigger", "id"),
        Index("ix_operations_created_at", "created_at", "id"),
        Index("ix_operations_parent", "parent_id"),
        NEVER_REUSED,
    )


def waits_here(operation: Any) -> ColumnElement[bool]:
    """Whether an operation waits for a runner, phrased so that the partial index on such operations applies."""
    return and_(has_status(operation, Status.PENDING), operation.executor == literal_column("'runner'"))


def has_status(operation: Any, status: Status) -> ColumnElement[bool]:
    """Whether an operation waits or runs, phrased so that the partial indexes on such operations apply.

    SQLite uses such an index only if the query repeats its condition; it does not infer it from `pending`.
    """
    statuses: list[ColumnElement[str]] = [literal_column(f"'{one}'") for one in (Status.PENDING, Status.RUNNING)]
    return and_(operation.status == literal_column(f"'{status}'"), operation.status.in_(statuses))


class Runner(Base):
    """A process that executes operations. It holds `lock_file` with flock for as long as it lives."""

    __tablename__ = "runners"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    host: Mapped[str] = mapped_column(String(255))
    host_id: Mapped[str] = mapped_column(String(64))
    pid: Mapped[int]
    role: Mapped[str] = mapped_column(String(10))
    lock_file: Mapped[str]
    started_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime]


class OutboxEntry(NumberedRow):
    """An event, written in the transaction that caused it and read by its subscribers."""

    __tablename__ = "outbox"

    created_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    topic: Mapped[str] = mapped_column(String(60))
    operation_id: Mapped[int | None] = mapped_column(Identifier)
    repository_id: Mapped[int | None] = mapped_column(Identifier)
    payload: Mapped[dict[str, Any]]


class OutboxReader(Base):
    """The position of a durable reader of the outbox."""

    __tablename__ = "outbox_readers"

    name: Mapped[str] = mapped_column(String(60), primary_key=True)
    position: Mapped[int] = mapped_column(Identifier)
    seen_at: Mapped[datetime]
    """When a process last had this reader registered. Rows are not kept indefinitely for an abandoned reader."""


class KernelSetting(Base):
    """Kernel settings that change while it runs: limits, pause, last reconcile."""

    __tablename__ = "kernel_settings"

    name: Mapped[str] = mapped_column(String(60), primary_key=True)
    value: Mapped[Any] = mapped_column(JsonValue)
