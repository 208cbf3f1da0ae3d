"""Requests about schedules."""

from datetime import date
from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, model_validator

from holdfast.kit.fields import Moment, PlainText, RowId
from holdfast.kit.schema import Closed
from holdfast.repositories.schemas import Keep, Labels
from holdfast.schedules.step_schemas import MOST_FIRES, Minutes, Name, RepositoryIds, Step, Targets, Uuid, WindowShape


class FlatFields(Closed):
    """Fields of related products, accepted as shorthands for targets and steps."""

    repository: Annotated[str, PlainText(1, 4096)] | None = Field(None, description="Path of the only repository.")
    repository_id: RowId | None = Field(None, description="The one repository.")
    repository_ids: RepositoryIds | None = None
    run_prune_after: bool | None = None
    run_compact_after: bool | None = None
    run_check_after: bool | None = None
    prune_keep_hourly: Keep = None
    prune_keep_daily: Keep = None
    prune_keep_weekly: Keep = None
    prune_keep_monthly: Keep = None
    prune_keep_quarterly: Keep = None
    prune_keep_yearly: Keep = None
    pre_backup_script_id: RowId | None = None
    post_backup_script_id: RowId | None = None
    run_repository_scripts: bool | None = None


class CalendarFields(FlatFields):
    description: Annotated[str, PlainText(0, 2000)] | None = None
    cron_expression: Annotated[str, PlainText(0, 1000)] | None = Field(None, examples=["30 2 * * *"])
    interval_minutes: Annotated[int, Field(ge=1, le=5_256_000)] | None = None
    starts_at: Moment | None = Field(
        None, description="First due time of an interval; for cron, nothing runs before it."
    )
    availability_check_interval_minutes: Minutes | None = None
    min_success_interval_minutes: Minutes | None = Field(
        None, description="Skip the run if the last success is more recent than this."
    )
    archive_name_template: Annotated[str, PlainText(1, 200)] | None = Field(
        None, description="Archive name template to use instead of the repository's, for a separate series."
    )
    targets: Targets | None = None
    spread_minutes: Annotated[int, Field(ge=0, le=1440)] | None = Field(
        None, description="Starts are spread over this time. Default: 0 for one repository, 30 for several."
    )


class NewSchedule(CalendarFields):
    """A schedule. Without steps, it makes backups."""

    name: Name
    uuid: Uuid | None = Field(None, description="Value from a preview, to keep exactly the same spread.")
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
    since: Moment | None = Field(None, alias="from", description="Return due times after this time (default: now).")


class ScheduleChange(CalendarFields):
    """Any of the fields; omitted ones stay unchanged."""

    revision: int | None = Field(None, description="Refuse the change if the schedule has a different revision.")
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
    until: Moment | None = Field(description="Due times before this time are skipped; null ends the snooze.")


class Duplicate(Closed):
    name: Name | None = Field(None, description="Default: `Copy of …`.")


class RunBody(Closed):
    repository_ids: RepositoryIds | None = Field(None, description="Only these targets.")
    steps: list[str] | None = Field(None, max_length=20, description="Only steps of these kinds.")
    respect_windows: StrictBool = Field(False, description="Wait for the next window instead of starting immediately.")


class NewBlackout(Closed):
    """Days without scheduled starts."""

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
    """Either the whole expression, or its separate fields as related products send them."""

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
