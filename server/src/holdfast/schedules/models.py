"""The tables of schedules: what is planned, the outcome of each due time, and when nothing is to run."""

from datetime import date, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Boolean, CheckConstraint, Index, Integer, String, text
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import NEVER_REUSED, Base, NumberedRow, partial_index
from holdfast.storage.types import Identifier, JsonValue, RowUuid

NO_REPOSITORY = 0
"""The repository id in a run row whose schedule had no target."""
STATE_ROW = 1

NOT_DELETED = text("deleted_at IS NULL")
HAS_DUE_TIME = text("next_due_at IS NOT NULL")
NOT_VOIDED = text("voided_at IS NULL")
TO_LOOK_AT = text("look_at IS NOT NULL")
OPEN_ROW = text("settled_at IS NULL")


class Mode(StrEnum):
    CRON = "cron"
    INTERVAL = "interval"
    AVAILABILITY = "availability"


class Origin(StrEnum):
    CALENDAR = "calendar"
    AVAILABILITY = "availability"
    MANUAL = "manual"


class Outcome(StrEnum):
    WAITING = "waiting"
    RAN = "ran"
    SKIPPED = "skipped"
    MISSED = "missed"


class Reason(StrEnum):
    """Why a due time did not run. `cancelled`: a person cancelled the run while it was waiting."""

    DISABLED = "disabled"
    DELETED = "deleted"
    SNOOZED = "snoozed"
    PAUSED = "paused"
    BLACKOUT = "blackout"
    OVERLAP = "overlap"
    TOO_SOON = "too_soon"
    SCRIPT_DECLINED = "script_declined"
    NO_TARGETS = "no_targets"
    NOTHING_DUE = "nothing_due"
    OBSERVE_ONLY = "observe_only"
    SETUP_PENDING = "setup_pending"
    REPOSITORY_GONE = "repository_gone"
    CANCELLED = "cancelled"
    MACHINE_OFFLINE = "machine_offline"
    SERVICE_DOWN = "service_down"
    WINDOW_CLOSED = "window_closed"
    OVERTAKEN = "overtaken"
    REFUSED = "refused"


class WaitingFor(StrEnum):
    """What a waiting run row waits for."""

    START = "start"
    WINDOW = "window"
    MACHINE = "machine"
    CONNECTION = "connection"
    """A machine that does not report to the service, so it is contacted from time to time."""
    EARLIER_RUN = "earlier_run"
    RETRY = "retry"


class CatchUp(StrEnum):
    ONCE = "once"
    SKIP = "skip"


class Overlap(StrEnum):
    SKIP = "skip"
    QUEUE = "queue"


class OnWindowClose(StrEnum):
    FINISH = "finish"
    STOP = "stop"


def _words(column: str, words: type[StrEnum]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(str(word)) for word in words)})", name=column)


class Schedule(NumberedRow):
    """What runs, where, when and under which conditions."""

    __tablename__ = "schedules"

    uuid: Mapped[RowUuid]
    name: Mapped[str] = mapped_column(String(200))
    description: Mapped[str | None]
    enabled: Mapped[bool] = mapped_column(Boolean, default=True)

    schedule_mode: Mapped[str] = mapped_column(String(20), default=Mode.CRON)
    cron_expression: Mapped[str | None] = mapped_column(String(200))
    timezone: Mapped[str] = mapped_column(String(64), default="UTC")
    interval_minutes: Mapped[int | None]
    starts_at: Mapped[datetime | None]
    availability_check_interval_minutes: Mapped[int | None]
    min_success_interval_minutes: Mapped[int | None]

    targets: Mapped[dict[str, Any]]
    """`{"repository_ids": [1, 2]}`, `{"labels": {"site": "north"}}` or `{"all": true}`."""
    exclude_repository_ids: Mapped[list[int]] = mapped_column(JsonValue, default=list)
    steps: Mapped[list[dict[str, Any]]]
    """In execution order, each `{"kind": "backup" | "prune" | …, …}`; see running.steps."""
    windows: Mapped[list[dict[str, Any]]] = mapped_column(JsonValue, default=list)
    """Each `{"days": […], "from": "22:00", "to": "06:00", "upload_kib": 500}`, in the schedule's time zone."""
    on_window_close: Mapped[str] = mapped_column(String(10), default=OnWindowClose.FINISH)
    catch_up: Mapped[str] = mapped_column(String(10), default=CatchUp.ONCE)
    start_within_minutes: Mapped[int] = mapped_column(Integer, default=60)
    overlap: Mapped[str] = mapped_column(String(10), default=Overlap.SKIP)
    spread_minutes: Mapped[int] = mapped_column(Integer, default=0)
    retries: Mapped[int] = mapped_column(Integer, default=3)
    archive_name_template: Mapped[str | None] = mapped_column(String(200))
    """Used instead of the repository's template."""

    snoozed_until: Mapped[datetime | None]
    next_due_at: Mapped[datetime | None]
    """The next due time without a run row. None: there is none, or the schedule is disabled or deleted."""
    longest_gap_seconds: Mapped[int | None]
    """The longest time between two due times in the coming year."""
    tz_version: Mapped[str | None] = mapped_column(String(20))
    """The version of the time zone data with which `next_due_at` was computed."""
    revision: Mapped[int] = mapped_column(Integer, default=1)
    created_by: Mapped[str | None] = mapped_column(String(200))
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]

    __table_args__ = (
        _words("schedule_mode", Mode),
        _words("on_window_close", OnWindowClose),
        _words("catch_up", CatchUp),
        _words("overlap", Overlap),
        partial_index("uq_schedules_name", "name", where=NOT_DELETED, unique=True),
        partial_index("ix_schedules_next_due_at", "next_due_at", where=HAS_DUE_TIME),
        NEVER_REUSED,
    )


class ScheduleRun(NumberedRow):
    """The outcome of one due time for one repository. A row with `due_until` represents a span of due times."""

    __tablename__ = "schedule_runs"

    schedule_id: Mapped[int] = mapped_column(Identifier)
    repository_id: Mapped[int] = mapped_column(Identifier)
    due_at: Mapped[datetime]
    due_until: Mapped[datetime | None]
    due_count: Mapped[int] = mapped_column(Integer, default=1)
    origin: Mapped[str] = mapped_column(String(20), default=Origin.CALENDAR)
    revision: Mapped[int]
    """The schedule's revision when the row was written; once released, the revision that was released."""
    start_at: Mapped[datetime]
    """The due time plus the spread."""
    look_at: Mapped[datetime | None]
    """When the row is judged next: while it waits, before a retry, or when the window in which it must stop closes."""
    waiting_for: Mapped[str | None] = mapped_column(String(20))
    outcome: Mapped[str] = mapped_column(String(10), default=Outcome.WAITING)
    reason: Mapped[str | None] = mapped_column(String(40))
    reason_operation_id: Mapped[int | None] = mapped_column(Identifier)
    run_id: Mapped[str | None] = mapped_column(String(32))
    tries: Mapped[int] = mapped_column(Integer, default=0)
    steps: Mapped[list[dict[str, Any]]] = mapped_column(JsonValue, default=list)
    """Once released, each step: `{"kind", "operation_id", "status", "error_key", "skipped", "next_at"}`."""
    options: Mapped[dict[str, Any]] = mapped_column(JsonValue, default=dict)
    """The options of a manual run: `{"steps": […], "respect_windows": true}`."""
    result: Mapped[str | None] = mapped_column(String(30))
    error_key: Mapped[str | None] = mapped_column(String(80))
    released_at: Mapped[datetime | None]
    settled_at: Mapped[datetime | None]
    """When the row reached its final state: skipped, missed, voided, or ran with all its operations ended."""
    voided_at: Mapped[datetime | None]
    """Set when the clock that caused the due time turned out to be wrong; the row no longer counts."""

    __table_args__ = (
        _words("origin", Origin),
        _words("outcome", Outcome),
        partial_index(
            "uq_schedule_runs_one_per_due_time", "schedule_id", "repository_id", "due_at", where=NOT_VOIDED, unique=True
        ),
        partial_index("ix_schedule_runs_look_at", "look_at", where=TO_LOOK_AT),
        partial_index("ix_schedule_runs_open", "schedule_id", "repository_id", where=OPEN_ROW),
        Index("ix_schedule_runs_repository", "repository_id", "due_at"),
        Index("ix_schedule_runs_schedule", "schedule_id", "id"),
        Index("ix_schedule_runs_run_id", "run_id"),
        Index("ix_schedule_runs_settled_at", "settled_at"),
        NEVER_REUSED,
    )


class Blackout(NumberedRow):
    """Days without scheduled starts, for all repositories or only those with these labels."""

    __tablename__ = "blackouts"

    name: Mapped[str] = mapped_column(String(200))
    first_day: Mapped[date]
    last_day: Mapped[date]
    timezone: Mapped[str] = mapped_column(String(64), default="UTC")
    yearly: Mapped[bool] = mapped_column(Boolean, default=False)
    labels: Mapped[dict[str, str]] = mapped_column(JsonValue, default=dict)


class ScheduleState(Base):
    """A single row: whether all schedules are paused, and the last tick of any process."""

    __tablename__ = "schedule_state"

    id: Mapped[int] = mapped_column(Identifier, primary_key=True, autoincrement=False)
    paused: Mapped[bool] = mapped_column(Boolean, default=False)
    paused_by: Mapped[str | None] = mapped_column(String(200))
    paused_at: Mapped[datetime | None]
    last_tick_at: Mapped[datetime | None]
    last_tick_milliseconds: Mapped[int | None]
    clock_jumped_at: Mapped[datetime | None]
    """When the clock was last found to have gone back by more than a minute."""
    clock_jumped_seconds: Mapped[int | None]
