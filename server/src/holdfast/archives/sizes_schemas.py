"""The growth of a repository, as clients see it."""

from datetime import date

from pydantic import Field

from holdfast.kit.fields import Timestamp
from holdfast.kit.schema import Schema


class SizePoint(Schema):
    """What a repository needed on a day."""

    at: Timestamp = Field(description="Time of the last measurement of the day.")
    total_size: int = Field(description="All archives together, before compression and deduplication.")
    unique_size: int = Field(description="Bytes that are stored.")
    archive_count: int


class DataPoint(Schema):
    """What was backed up until a day."""

    at: Timestamp = Field(description="Start of the last archive of the day.")
    original_size: int = Field(description="Files of the newest archive of each series, before compression.")
    new_bytes: int = Field(description="New bytes of the day's archives, as far as measured.")


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
        description="One for each day on which the repository was measured. None with engine 2, which does not tell."
    )
    data: list[DataPoint] = Field(description="One for each day with archives that are still there.")
    marks: list[Mark] = Field(description="Prunes, deletions, wipes and compactions that succeeded; the last 500.")
    storage: Storage | None = Field(description="The file system of the repository, where it can be measured.")
