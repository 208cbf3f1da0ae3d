"""Schemas for a folder through time."""

from pydantic import Field

from holdfast.archives.schemas import Coverage
from holdfast.kit.fields import Timestamp
from holdfast.kit.schema import Schema


class LaneArchive(Schema):
    id: int
    name: str
    series: str
    start: Timestamp
    deduplicated_size: int | None
    changed_here: bool = Field(description="Whether a name on this page was added, changed or removed in this archive.")


class LanePiece(Schema):
    first: int = Field(description="Index in `archives` of the first archive with this version.")
    last: int = Field(description="Index of the last archive of an uninterrupted run.")
    size: int | None
    mtime: Timestamp | None


class Lane(Schema):
    path: str
    path_b64: str | None
    name: str
    name_b64: str | None
    type: str = Field(description="Last known state.")
    pieces: list[LanePiece] = Field(description="Oldest first. For a removed name, none reaches the last archive.")


class Lanes(Schema):
    path: str
    path_b64: str | None
    archives: list[LaneArchive] = Field(description="Indexed archives, oldest first.")
    entries: list[Lane] = Field(description="All names that were ever in the folder, in byte order.")
    total: int = Field(description="Number of names the folder ever had.")
    next_cursor: str | None
    coverage: Coverage
