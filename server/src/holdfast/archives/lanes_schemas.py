"""Shapes of a folder through time."""

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
    changed_here: bool = Field(description="Whether a name on this page came, changed or went with this archive.")


class LanePiece(Schema):
    first: int = Field(description="The first archive that holds this version, as its place in `archives`.")
    last: int = Field(description="The last one of an unbroken run.")
    size: int | None
    mtime: Timestamp | None


class Lane(Schema):
    path: str
    path_b64: str | None
    name: str
    name_b64: str | None
    type: str = Field(description="As it was last seen.")
    pieces: list[LanePiece] = Field(
        description="Oldest first. A name that is gone has none that reaches the last archive."
    )


class Lanes(Schema):
    path: str
    path_b64: str | None
    archives: list[LaneArchive] = Field(description="Indexed archives, oldest first.")
    entries: list[Lane] = Field(description="Every name that was ever in the folder, in the order of its bytes.")
    total: int = Field(description="How many names the folder ever had.")
    next_cursor: str | None
    coverage: Coverage
