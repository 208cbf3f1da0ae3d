"""Schemas for the growth of a repository."""

from datetime import date

from pydantic import Field

from holdfast.kit.fields import Timestamp
from holdfast.kit.schema import Schema


class SizePoint(Schema):
    """Size of a repository on a day."""

    at: Timestamp = Field(description="Time of the last measurement of the day.")
    total_size: int = Field(description="Size of all archives, before compression and deduplication.")
    unique_size: int = Field(description="Bytes stored.")
    archive_count: int


class DataPoint(Schema):
    """Data backed up until a day."""

    at: Timestamp = Field(description="Start of the last archive of the day.")
    original_size: int = Field(
        description="Size of the files in the newest archive of each series, before compression."
    )
    new_bytes: int = Field(description="New bytes of the day's archives, if measured.")


class Mark(Schema):
    """An operation that can make a repository smaller."""

    operation_id: int
    kind: str
    at: Timestamp


class Storage(Schema):
    free_bytes: int
    total_bytes: int
    measured_at: Timestamp


class Sizes(Schema):
    since: date
    until: date
    points: list[SizePoint] = Field(
        description="One per day on which the repository was measured. Empty with engine 2, which does not report "
        "sizes."
    )
    data: list[DataPoint] = Field(description="One per day with archives that still exist.")
    marks: list[Mark] = Field(description="Last 500 successful prunes, deletions, wipes and compactions.")
    storage: Storage | None = Field(description="The repository's file system, if it can be measured.")
