"""Responses about schedules."""

from datetime import date
from typing import Any, Literal

from pydantic import Field

from holdfast.kit.fields import Timestamp
from holdfast.kit.schema import Schema
from holdfast.operations.schemas import OperationItem
from holdfast.schedules.step_schemas import Targets

FireReason = Literal[
    "on_time", "moved_by_dst", "first_of_two", "window_opens", "window_closed", "blackout", "snoozed", "paused"
]
Outcome = Literal["waiting", "ran", "skipped", "missed"]


class ScheduleTarget(Schema):
    id: int
    name: str


class FireTarget(Schema):
    repository_id: int
    name: str
    start_at: Timestamp | None = Field(description="Start time including the spread; null if it will not start.")


class Fire(Schema):
    """A due time, and what happens then."""

    due_at: Timestamp
    local: str = Field(description="Due time as local time in the schedule's zone.")
    start_at: Timestamp | None = Field(description="When the first target starts; null if none does.")
    targets: list[FireTarget] = Field(description="Targets visible to you; at most 20 in the calendar.")
    target_count: int
    reason: FireReason
    steps: list[str]


class Fires(Schema):
    fires: list[Fire]


class Warned(Schema):
    key: str
    message: str


class Preview(Schema):
    uuid: str = Field(description="Pass it when creating the schedule to keep this spread.")
    explained: str
    fires: list[Fire]
    warnings: list[Warned]


class CalendarEntry(Fire):
    schedule_id: int
    name: str
    outcome: Outcome | None = Field(description="Null for future due times.")
    outcome_reason: str | None
    result: str | None
    due_count: int = Field(description="If greater than 1, the entry represents a span of missed due times.")


class BlackoutAnswer(Schema):
    id: int
    name: str
    first_day: date
    last_day: date
    timezone: str
    yearly: bool
    labels: dict[str, str]


class Blackouts(Schema):
    blackouts: list[BlackoutAnswer]


class CalendarAnswer(Schema):
    since: Timestamp
    until: Timestamp
    entries: list[CalendarEntry]
    blackouts: list[BlackoutAnswer]
    paused: bool
    truncated: bool


class RunSummary(Schema):
    """The outcome of one due time for one repository."""

    id: int
    schedule_id: int
    schedule_name: str
    repository_id: int | None = Field(description="Null: no repository matched the targets.")
    repository: str | None
    due_at: Timestamp
    due_until: Timestamp | None
    due_count: int
    origin: str
    revision: int
    start_at: Timestamp
    look_at: Timestamp | None
    waiting_for: str | None
    outcome: Outcome
    reason: str | None
    reason_operation_id: int | None
    run_id: str | None
    tries: int
    steps: list[dict[str, Any]]
    result: str | None
    error_key: str | None
    released_at: Timestamp | None
    settled_at: Timestamp | None


class RunDetail(RunSummary):
    operations: list[OperationItem]


class Runs(Schema):
    runs: list[RunSummary]
    next_cursor: str | None


class ScheduleAnswer(Schema):
    id: int
    uuid: str
    name: str
    description: str | None
    enabled: bool
    schedule_mode: str
    cron_expression: str | None
    timezone: str
    interval_minutes: int | None
    starts_at: Timestamp | None
    availability_check_interval_minutes: int | None
    min_success_interval_minutes: int | None
    explained: str = Field(description="The schedule's times as text.")
    targets: Targets
    exclude_repository_ids: list[int]
    repositories: list[ScheduleTarget] = Field(description="Current targets that are visible to you.")
    steps: list[dict[str, Any]]
    windows: list[dict[str, Any]]
    on_window_close: str
    catch_up: str
    start_within_minutes: int
    overlap: str
    spread_minutes: int
    retries: int
    archive_name_template: str | None
    snoozed_until: Timestamp | None
    next_due_at: Timestamp | None
    longest_gap_seconds: int | None
    next_run: Timestamp | None = Field(description="Next due time that will start work.")
    last_run: Timestamp | None
    last_result: str | None = Field(
        description="Worst result so far among the repositories of the last due time or manual start."
    )
    waiting: list[RunSummary] = Field(description="The 20 oldest runs that are due but not started.")
    waiting_count: int = Field(description="Total number of waiting runs.")
    revision: int
    created_by: str | None
    created_at: Timestamp
    updated_at: Timestamp


class Schedules(Schema):
    schedules: list[ScheduleAnswer]
    paused: bool


class StartedRow(Schema):
    id: int
    repository_id: int
    outcome: Outcome
    reason: str | None
    operations: list[int]


class StartedRun(Schema):
    run_id: str
    runs: list[StartedRow]


class PausedAnswer(Schema):
    paused: bool


class Preset(Schema):
    name: str
    expression: str
    description: str


class Presets(Schema):
    success: bool = True
    presets: list[Preset]


class ValidatedCron(Schema):
    success: bool = True
    valid: bool
    cron_expression: str
    description: str | None
    next_runs: list[Timestamp]
    error: Warned | None


class UpcomingJob(Schema):
    id: int
    name: str
    repository: str | None = Field(description="Path of the repository, if there is exactly one.")
    repository_ids: list[int]
    next_run: Timestamp
    cron_expression: str | None


class UpcomingJobs(Schema):
    success: bool = True
    upcoming_jobs: list[UpcomingJob]
    hours_ahead: int
