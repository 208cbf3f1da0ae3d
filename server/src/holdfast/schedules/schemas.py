"""What clients send and get about schedules."""

from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, StrictBool, Tag, model_validator

from holdfast.kit.fields import Moment, PlainText, RowId, Timestamp
from holdfast.kit.schema import Closed, Schema
from holdfast.operations.schemas import OperationItem
from holdfast.repositories.schemas import Keep, Labels, Retention

MOST_FIRES = 100
MOST_TARGETS = 10_000
DAY_SECONDS = 24 * 3600

Name = Annotated[str, PlainText(1, 200), AfterValidator(str.strip), Field(min_length=1)]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Clock = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$", examples=["22:00"])]
RepositoryIds = Annotated[list[RowId], Field(max_length=MOST_TARGETS)]
EveryDays = Annotated[int, Field(ge=1, le=3650)]
Minutes = Annotated[int, Field(ge=1, le=525_600)]
Uuid = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


# What a schedule consists of ------------------------------------------------------------------------------------------


class Targets(Closed):
    """Exactly one of the three."""

    repository_ids: RepositoryIds | None = None
    labels: Labels | None = Field(None, description="Repositories that have all of these labels, own or their agent's.")
    all: StrictBool | None = Field(None, description="Every repository, also those that are added later.")

    @model_validator(mode="after")
    def _names_one_way(self) -> Self:
        if sum((self.repository_ids is not None, self.labels is not None, bool(self.all))) > 1:
            raise ValueError("give only one of repository_ids, labels and all")
        return self

    def stored(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class DumpStep(Closed):
    """Dumps of the repository's databases, in an archive of their own."""

    kind: Literal["dump"]


class BackupStep(Closed):
    kind: Literal["backup"] = "backup"


class PruneStep(Retention):
    """Without any `keep_…` the repository's own retention decides."""

    kind: Literal["prune"]


class CompactStep(Closed):
    kind: Literal["compact"]
    every_days: EveryDays | None = None


class CheckStep(Closed):
    kind: Literal["check"]
    every_days: EveryDays | None = None
    verify_data: StrictBool = False
    max_duration: Annotated[int, Field(ge=1, le=30 * DAY_SECONDS)] | None = Field(
        None, description="Time limit in seconds; the next check resumes there."
    )


class RestoreCheckStep(Closed):
    kind: Literal["restore_check"]
    every_days: EveryDays | None = None
    sample: Annotated[int, Field(ge=1, le=1000)] | None = Field(None, description="Number of random files.")


class MirrorStep(Closed):
    kind: Literal["mirror"]


ParameterName = Annotated[str, PlainText(1, 64)]
ParameterValue = Annotated[str, PlainText(0, 4096)] | StrictBool | Annotated[int, Field(strict=True)]


class ScriptStep(Closed):
    """A script of the library; its newest version runs. The order of scripts is the one in which they are given."""

    kind: Literal["script"]
    script_id: RowId
    when: Literal["before", "after"] = Field("before", description="Before or after the backup.")
    on_failure: Literal["stop", "warn"] | None = Field(
        None, description="Before: no backup after a failure (`stop`, the default), or one all the same."
    )
    run_on: Literal["always", "success", "warning", "failure"] | None = Field(
        None, description="After: how the backup must have ended; default: `always`."
    )
    scope: Literal["each", "once"] | None = Field(
        None,
        description="One run for each repository (`each`, the default), or one for all repositories of a due time.",
    )
    parameters: Annotated[dict[ParameterName, ParameterValue], Field(max_length=50)] = Field(
        {}, description="Secret ones that are left out stay as they are."
    )
    has_secrets: StrictBool | None = Field(None, description="Shown, and ignored when sent back.")

    @model_validator(mode="after")
    def _uses_what_its_place_has(self) -> Self:
        if self.when == "before" and self.run_on not in (None, "always"):
            raise ValueError("run_on is for scripts after the backup")
        if self.when == "after" and self.on_failure not in (None, "stop"):
            raise ValueError("on_failure is for scripts before the backup")
        return self


STEP_KINDS = ("script", "dump", "backup", "prune", "compact", "check", "restore_check", "mirror")


def _step_kind(value: Any) -> str:
    kind = value.get("kind", "backup") if isinstance(value, dict) else getattr(value, "kind", None)
    return str(kind)


Step = Annotated[
    Annotated[BackupStep, Tag("backup")]
    | Annotated[DumpStep, Tag("dump")]
    | Annotated[PruneStep, Tag("prune")]
    | Annotated[CompactStep, Tag("compact")]
    | Annotated[CheckStep, Tag("check")]
    | Annotated[RestoreCheckStep, Tag("restore_check")]
    | Annotated[MirrorStep, Tag("mirror")]
    | Annotated[ScriptStep, Tag("script")],
    Discriminator(_step_kind),
]


class WindowShape(Schema):
    """Work starts only inside a window, as clocks in the schedule's zone show it."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    days: Annotated[list[Day], Field(max_length=7)] = Field([], description="Days on which it opens; empty: every day.")
    opens: Clock = Field("00:00", alias="from")
    closes: Clock = Field("24:00", alias="to", description="Not later than `from`: on the next day.")
    upload_kib: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        None, description="Upload limit in KiB/s for what starts in this window. Engine 1 only."
    )

    def stored(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude_none=True)


class FlatFields(Closed):
    """Fields of products of this family, taken as shorthands for targets and steps."""

    repository: Annotated[str, PlainText(1, 4096)] | None = Field(None, description="Path of the one repository.")
    repository_id: RowId | None = Field(None, description="The one repository.")
    repository_ids: RepositoryIds | None = None
    run_prune_after: bool | None = None
    run_compact_after: bool | None = None
    run_check_after: bool | None = None
    prune_keep_hourly: Keep | None = None
    prune_keep_daily: Keep | None = None
    prune_keep_weekly: Keep | None = None
    prune_keep_monthly: Keep | None = None
    prune_keep_quarterly: Keep | None = None
    prune_keep_yearly: Keep | None = None
    pre_backup_script_id: RowId | None = None
    post_backup_script_id: RowId | None = None
    run_repository_scripts: bool | None = None


class CalendarFields(FlatFields):
    description: Annotated[str, PlainText(0, 2000)] | None = None
    cron_expression: Annotated[str, PlainText(0, 1000)] | None = Field(None, examples=["30 2 * * *"])
    interval_minutes: Annotated[int, Field(ge=1, le=5_256_000)] | None = None
    starts_at: Moment | None = Field(None, description="First due time of an interval; of cron: nothing before it.")
    availability_check_interval_minutes: Minutes | None = None
    min_success_interval_minutes: Minutes | None = Field(
        None, description="No run while the last success is younger than this."
    )
    archive_name_template: Annotated[str, PlainText(1, 200)] | None = Field(
        None, description="Instead of the repository's: an archive series of its own."
    )
    targets: Targets | None = None
    spread_minutes: Annotated[int, Field(ge=0, le=1440)] | None = Field(
        None, description="Starts are spread over this time. Default: 0 for one repository, 30 for several."
    )


class NewSchedule(CalendarFields):
    """A schedule. Without steps it backs up."""

    name: Name
    uuid: Uuid | None = Field(None, description="As a preview answered it, to get exactly the same spread.")
    enabled: bool = True
    schedule_mode: Literal["cron", "interval", "availability"] = "cron"
    timezone: Annotated[str, PlainText(1, 64)] = Field("UTC", description="IANA name, such as Europe/Berlin.")
    exclude_repository_ids: RepositoryIds = []
    steps: Annotated[list[Step], Field(max_length=20)] = []
    windows: Annotated[list[WindowShape], Field(max_length=50)] = []
    on_window_close: Literal["finish", "stop"] = "finish"
    catch_up: Literal["once", "skip"] = "once"
    start_within_minutes: Minutes = 60
    overlap: Literal["skip", "queue"] = "skip"
    retries: Annotated[int, Field(ge=0, le=20)] = 3


class PreviewedSchedule(NewSchedule):
    name: Name = "preview"
    count: Annotated[int, Field(ge=1, le=MOST_FIRES)] = 10
    since: Moment | None = Field(None, alias="from", description="Fires after this instant; default: now.")


class ScheduleChange(CalendarFields):
    """Any of the fields; what is not given stays as it is."""

    revision: int | None = Field(None, description="Refuse the change if the schedule has another revision by now.")
    name: Name | None = None
    enabled: bool | None = None
    schedule_mode: Literal["cron", "interval", "availability"] | None = None
    timezone: Annotated[str, PlainText(1, 64)] | None = None
    exclude_repository_ids: RepositoryIds | None = None
    steps: Annotated[list[Step], Field(max_length=20)] | None = None
    windows: Annotated[list[WindowShape], Field(max_length=50)] | None = None
    on_window_close: Literal["finish", "stop"] | None = None
    catch_up: Literal["once", "skip"] | None = None
    start_within_minutes: Minutes | None = None
    overlap: Literal["skip", "queue"] | None = None
    retries: Annotated[int, Field(ge=0, le=20)] | None = None


class Snooze(Closed):
    until: Moment | None = Field(description="Due times before this instant are skipped; null ends the snooze.")


class Duplicate(Closed):
    name: Name | None = Field(None, description="Default: `Copy of …`.")


class RunBody(Closed):
    repository_ids: RepositoryIds | None = Field(None, description="Only these targets.")
    steps: list[str] | None = Field(None, max_length=20, description="Only steps of these kinds.")
    respect_windows: StrictBool = Field(False, description="Wait for the next window instead of starting at once.")


class NewBlackout(Closed):
    """Days on which nothing scheduled starts."""

    name: Name
    first_day: date
    last_day: date
    timezone: Annotated[str, PlainText(1, 64)] = "UTC"
    yearly: bool = False
    labels: Labels = {}

    @model_validator(mode="after")
    def _is_a_span(self) -> Self:
        if self.last_day < self.first_day:
            raise ValueError("last_day must not be before first_day")
        if self.yearly and (self.last_day - self.first_day).days >= 365:
            raise ValueError("a yearly blackout must be shorter than a year")
        return self


class CronToValidate(Closed):
    """Either the whole expression, or its fields as products of this family send them."""

    cron_expression: Annotated[str, PlainText(0, 1000)] | None = None
    timezone: Annotated[str, PlainText(1, 64)] = "UTC"
    minute: Annotated[str, PlainText(1, 200)] = "*"
    hour: Annotated[str, PlainText(1, 200)] = "*"
    day_of_month: Annotated[str, PlainText(1, 200)] = "*"
    month: Annotated[str, PlainText(1, 200)] = "*"
    day_of_week: Annotated[str, PlainText(1, 200)] = "*"

    def expression(self) -> str:
        fields = (self.minute, self.hour, self.day_of_month, self.month, self.day_of_week)
        return " ".join(fields) if self.cron_expression is None else self.cron_expression


# Answers --------------------------------------------------------------------------------------------------------------

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
    start_at: Timestamp | None = Field(description="With its place in the spread; null if it will not start.")


class Fire(Schema):
    """A due time, and what happens then."""

    due_at: Timestamp
    local: str = Field(description="The due time as clocks in the schedule's zone show it.")
    start_at: Timestamp | None = Field(description="When the first target starts; null if none will.")
    targets: list[FireTarget] = Field(description="Those that you may see; in the calendar at most 20.")
    target_count: int
    reason: FireReason
    steps: list[str]


class Fires(Schema):
    fires: list[Fire]


class Warned(Schema):
    key: str
    message: str


class Preview(Schema):
    uuid: str = Field(description="Send it along when creating the schedule to keep the shown spread.")
    explained: str
    fires: list[Fire]
    warnings: list[Warned]


class CalendarEntry(Fire):
    schedule_id: int
    name: str
    outcome: Outcome | None = Field(description="Null for due times to come.")
    outcome_reason: str | None
    result: str | None
    due_count: int = Field(description="More than 1: the entry stands for a span of missed due times.")


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
    """What became of one due time of one repository."""

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
    explained: str = Field(description="The calendar in words.")
    targets: Targets
    exclude_repository_ids: list[int]
    repositories: list[ScheduleTarget] = Field(description="The present targets, as far as you may see them.")
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
    next_run: Timestamp | None = Field(description="The next due time that will start work.")
    last_run: Timestamp | None
    last_result: str | None
    waiting: list[RunSummary] = Field(description="Runs that are due but not released: the oldest 20.")
    waiting_count: int = Field(description="How many runs wait in all.")
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
    repository: str | None = Field(description="Path of the repository, if there is one alone.")
    repository_ids: list[int]
    next_run: Timestamp
    cron_expression: str | None


class UpcomingJobs(Schema):
    success: bool = True
    upcoming_jobs: list[UpcomingJob]
    hours_ahead: int
