"""Schemas for simulated retention."""

from datetime import date
from typing import Annotated, Literal

from pydantic import Field

from holdfast.archives.losses_schemas import Losses
from holdfast.archives.retention.expected_backups import Origin
from holdfast.archives.retention.simulate import Band
from holdfast.archives.retention.size_forecast import NoForecast
from holdfast.kit.fields import PlainText, Timestamp
from holdfast.kit.schema import Closed, Schema
from holdfast.repositories.schemas import Retention


class SimulationRequest(Closed):
    policy: Retention | None = Field(None, description="Default: the repository's retention.")
    compare_with: Retention | None = Field(None, description="A second policy, simulated over the same backups.")
    until: date | None = Field(
        None,
        description="Last day (UTC), at most 731 days ahead. Default: 90 days ahead, or fewer if there are too many "
        "backups.",
    )
    every_minutes: int | None = Field(
        None,
        ge=5,
        le=525_600,
        description="Interval of future backups. Default: from the repository's schedules, otherwise the past "
        "frequency.",
    )
    series: Annotated[str, PlainText(0, 4096)] | None = Field(
        None, description="Only archives of this series. Default: all."
    )


class Backups(Schema):
    """Expected backups."""

    origin: Origin = Field(
        description="`request`, `schedule`, `past` (as often as so far) or `assumed` (daily, where nothing is known)."
    )
    every_minutes: int | None = Field(description="Null if schedules determine the times.")
    count: int


class Judged(Schema):
    archive_id: int
    name: str
    start: Timestamp
    rule: str | None = Field(
        description="The engine's rule that keeps it, such as `daily`; `protected` if only its protection does; null "
        "if it is removed."
    )


class PointsOfDay(Schema):
    day: date
    restore_points: int


class Gap(Schema):
    age: Band
    worst_seconds: int = Field(description="Longest gap between two restore points of that age.")


class ForecastPoint(Schema):
    """The bytes that a repository needs at the end of a day, after a compaction."""

    day: date
    bytes: int | None = Field(description="Null for days more than 30 ahead, where only the range is known.")
    low: int = Field(description="With 90 % probability, the size is between `low` and `high`.")
    high: int


class Forecast(Schema):
    now: int | None = Field(description="Size of all archives today, in bytes; null without a forecast.")
    basis: Literal["chunks", "sizes"] | None = Field(
        description="`chunks`: computed from the file history; `sizes`: from recorded sizes only."
    )
    points: list[ForecastPoint] = Field(description="For 7, 30 and 90 days ahead, up to the last day.")
    reason: NoForecast | None = Field(
        description="Why there is no forecast: fewer than 7 backups of known size in 7 days in a series, no measured "
        "size, or more than 20 series (`several_series`; also if the sizes of several series are not known separately)."
    )


class Simulated(Schema):
    """The effect of one policy."""

    policy: Retention
    archives: list[Judged] = Field(description="What a prune would do today, newest archive first.")
    kept_now: int
    removed_now: int
    counts: list[PointsOfDay] = Field(description="Number of restore points at the end of each day, from today.")
    days: list[PointsOfDay] = Field(description="Restore points remaining on the last day, by the day they were made.")
    oldest: Timestamp | None = Field(description="The oldest restore point on the last day.")
    gaps: list[Gap] = Field(description="On the last day.")
    losses: Losses | None = Field(
        description="What a prune today would lose; null if nothing would be removed, or without an index."
    )
    forecast: Forecast


class Simulation(Schema):
    until: date
    is_shortened: bool = Field(
        description="Whether `until` was moved closer than the default of 90 days because there are too many backups."
    )
    archives: int = Field(description="Number of archives restorable.")
    backups: Backups
    simulated: Simulated
    compared: Simulated | None


class PastPoint(Schema):
    """An archive that existed at the end of at least one of the days."""

    archive_id: int | None = Field(description="Null for a removed archive.")
    name: str
    series: str
    start: Timestamp
    gone_at: Timestamp | None = Field(description="When it was removed or lost; null if it still exists.")


class Past(Schema):
    since: date
    until: date = Field(description="Today (UTC).")
    recorded_since: Timestamp = Field(
        description="Time since which every removal is recorded. Before it, only prunes by the service are known."
    )
    counts: list[PointsOfDay] = Field(description="Number of restore points at the end of each day.")
    points: list[PastPoint] = Field(description="Newest first, at most 5,000.")
    points_count: int
