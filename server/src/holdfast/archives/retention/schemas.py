"""A simulated retention, as clients see it."""

from datetime import date
from typing import Annotated, Literal

from pydantic import Field

from holdfast.archives.losses_schemas import Losses
from holdfast.archives.retention.coming import Origin
from holdfast.archives.retention.simulate import Band
from holdfast.archives.retention.sizes_ahead import NoForecast
from holdfast.kit.fields import PlainText, Timestamp
from holdfast.kit.schema import Closed, Schema
from holdfast.repositories.schemas import Retention


class SimulationRequest(Closed):
    policy: Retention | None = Field(None, description="Default: the repository's retention.")
    compare_with: Retention | None = Field(None, description="A second policy, simulated over the same backups.")
    until: date | None = Field(
        None,
        description="Last day (UTC), at most 731 days ahead. Default: 90 days ahead, or as far as there are not too "
        "many backups.",
    )
    every_minutes: int | None = Field(
        None,
        ge=5,
        le=525_600,
        description="Time between backups to come. Default: as the schedules of the repository say, else as often as "
        "so far.",
    )
    series: Annotated[str, PlainText(0, 4096)] | None = Field(
        None, description="Only the archives of this series. Default: all."
    )


class Backups(Schema):
    """The backups that are expected."""

    origin: Origin = Field(
        description="`request`, `schedule`, `past` (as often as so far) or `assumed` (daily, where nothing is known)."
    )
    every_minutes: int | None = Field(description="Null where a schedule's calendar tells.")
    count: int


class Judged(Schema):
    archive_id: int
    name: str
    start: Timestamp
    rule: str | None = Field(
        description="The engine's rule that keeps it, such as `daily`; `protected` where only its protection does; "
        "null: it is removed."
    )


class PointsOfDay(Schema):
    day: date
    restore_points: int


class Gap(Schema):
    age: Band
    worst_seconds: int = Field(description="Longest time between two restore points of that age.")


class ForecastPoint(Schema):
    """The bytes that a repository needs at the end of a day, after a compaction."""

    day: date
    bytes: int | None = Field(description="Null more than 30 days ahead: only the range is known.")
    low: int = Field(description="Nine times of ten it is between `low` and `high`.")
    high: int


class Forecast(Schema):
    now: int | None = Field(description="Bytes of all archives today; null without a forecast.")
    basis: Literal["chunks", "sizes"] | None = Field(
        description="`chunks`: what stays was added up from the file history; `sizes`: from recorded sizes alone."
    )
    points: list[ForecastPoint] = Field(description="For 7, 30 and 90 days ahead, as far as the last day.")
    reason: NoForecast | None = Field(
        description="Why there is none: fewer than 7 backups of known size in 7 days in a series, no measured size, or "
        "more"
        " than 20 series (`several_series`; also where the sizes of several are not known apart)."
    )


class Simulated(Schema):
    """What one policy does."""

    policy: Retention
    archives: list[Judged] = Field(description="What a prune would do today, newest first.")
    kept_now: int
    removed_now: int
    counts: list[PointsOfDay] = Field(description="Restore points in all at the end of each day, from today on.")
    days: list[PointsOfDay] = Field(
        description="Restore points that are left on the last day, by the day they are from."
    )
    oldest: Timestamp | None = Field(description="The oldest restore point on the last day.")
    gaps: list[Gap] = Field(description="On the last day.")
    losses: Losses | None = Field(
        description="What would exist nowhere after a prune today; null if nothing would go, or without an index."
    )
    forecast: Forecast


class Simulation(Schema):
    until: date
    is_shortened: bool = Field(
        description="Whether `until` is less than the default of 90 days ahead, because there are too many backups."
    )
    archives: int = Field(description="Archives that were considered.")
    backups: Backups
    simulated: Simulated
    compared: Simulated | None


class PastPoint(Schema):
    """An archive that there was at the end of at least one of the days."""

    archive_id: int | None = Field(description="Null for an archive that is gone.")
    name: str
    series: str
    start: Timestamp
    gone_at: Timestamp | None = Field(description="When it was removed or lost; null: it is there.")


class Past(Schema):
    since: date
    until: date = Field(description="Today (UTC).")
    recorded_since: Timestamp = Field(
        description="Since when every removal of an archive is recorded. Before it only prunes of the service are "
        "known."
    )
    counts: list[PointsOfDay] = Field(description="Restore points in all at the end of each day.")
    points: list[PastPoint] = Field(description="Newest first, at most 5,000.")
    points_count: int
