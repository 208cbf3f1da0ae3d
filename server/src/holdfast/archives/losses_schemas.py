"""Schemas for what a deletion would lose."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from holdfast.archives.schemas import Coverage
from holdfast.kit.fields import PlainText, RowId, Timestamp
from holdfast.kit.schema import Closed, Schema
from holdfast.repositories.schemas import Retention


class LossesRequest(Closed):
    archive_ids: list[RowId] | None = Field(
        None, min_length=1, max_length=10_000, description="Archives to delete. Specify either these or `policy`."
    )
    policy: Retention | None = Field(
        None,
        description="Archives that a prune with this policy would remove now, as computed by `…/retention/simulate`.",
    )
    limit: int = Field(100, ge=1, le=1000, description="Maximum number of lost paths.")
    cursor: Annotated[str, PlainText(1, 2000)] | None = None

    @model_validator(mode="after")
    def _names_archives_once(self) -> Self:
        if (self.archive_ids is None) == (self.policy is None):
            raise ValueError("give either archive_ids or policy")
        return self


class LostPath(Schema):
    path: str
    path_b64: str | None
    type: str
    size: int | None = Field(description="Last known size; files only.")
    mtime: Timestamp | None
    last_archive_id: int = Field(description="The newest archive that contains it.")
    last_archive_start: Timestamp


class Losses(Schema):
    archives: int = Field(description="Number of archives that would be removed.")
    archives_left: int
    paths_lost: int = Field(description="Files and folders that no remaining archive would contain.")
    versions_lost: int = Field(
        description="Versions of files and folders that no remaining archive would contain, including those of lost "
        "paths."
    )
    freed_bytes_at_most: int | None = Field(
        description="Size of the lost files before compression and deduplication; null if there are over a million."
    )
    sample: list[LostPath] = Field(description="One page of lost paths.")
    next_cursor: str | None
    going: Coverage = Field(
        description="Index coverage of the removed archives. Losses in unindexed ones are not counted."
    )
    staying: Coverage = Field(
        description="Index coverage of the remaining archives. Unindexed ones may still contain files reported as lost."
    )
