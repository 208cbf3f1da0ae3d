"""What would be lost, as clients see it."""

from typing import Annotated

from pydantic import Field

from holdfast.archives.schemas import Coverage
from holdfast.kit.fields import PlainText, RowId, Timestamp
from holdfast.kit.schema import Closed, Schema


class LossesRequest(Closed):
    archive_ids: list[RowId] = Field(min_length=1, max_length=10_000, description="Archives that would be deleted.")
    limit: int = Field(100, ge=1, le=1000, description="Lost paths at most.")
    cursor: Annotated[str, PlainText(1, 2000)] | None = None


class LostPath(Schema):
    path: str
    path_b64: str | None
    type: str
    size: int | None = Field(description="Of files, as they were last.")
    mtime: Timestamp | None
    last_archive_id: int = Field(description="The newest archive that has it.")
    last_archive_start: Timestamp


class Losses(Schema):
    archives: int = Field(description="How many archives would go.")
    archives_left: int
    paths_lost: int = Field(description="Files and folders that no remaining archive has.")
    versions_lost: int = Field(
        description="States of files and folders that no remaining archive has, those of lost paths included."
    )
    freed_bytes_at_most: int | None = Field(
        description="Size of the lost files before compression and deduplication; null where there are over a million."
    )
    sample: list[LostPath] = Field(description="A page of the lost paths.")
    next_cursor: str | None
    going: Coverage = Field(description="What of the going archives is indexed. The rest would be lost in addition.")
    staying: Coverage = Field(
        description="What of the others is indexed. The rest may hold some of what is called lost."
    )
