"""Schemas of answers about files of all repositories."""

from typing import Literal

from pydantic import Field

from holdfast.archives.schemas import PathAnswer, Presence
from holdfast.kit.fields import Timestamp
from holdfast.kit.schema import Schema


class RepositoryOfHit(Schema):
    repository_id: int
    repository_name: str
    execution_target: str
    agent_machine_id: int | None
    ssh_connection_id: int | None


class FleetHit(PathAnswer, RepositoryOfHit):
    """State in the last archive that contains it."""

    size: int | None = Field(description="Null for a folder.")
    mtime: Timestamp | None
    first_archive_id: int
    first_seen_at: Timestamp
    last_archive_id: int
    last_seen_at: Timestamp
    archive_count: int
    present_in_latest: bool


class IncompleteRepository(Schema):
    repository_id: int
    repository_name: str
    indexed: int = Field(description="Archives whose files are indexed.")
    total: int
    reason: Literal["not_indexed", "unavailable"] = Field(
        description="`unavailable`: the index could not be read; try again."
    )


class FleetCoverage(Schema):
    repositories: int = Field(description="Number of requested repositories that you can see.")
    looked_at: int = Field(description="How many of them have been searched completely, including this page.")
    incomplete: list[IncompleteRepository] = Field(
        description="Repositories with unindexed archives (at most 100), whose files are not found."
    )
    incomplete_count: int


class FleetSearchAnswer(Schema):
    query: str
    results: list[FleetHit] = Field(description="Grouped by repository, ordered by repository id.")
    next_cursor: str | None = Field(description="Null when every repository has been searched.")
    coverage: FleetCoverage


class FleetPresence(RepositoryOfHit):
    presence: Presence
    archive_count: int
    versions: int = Field(description="Number of distinct states of the path.")
    size: int | None = Field(description="Last known size; null for a folder.")
    mtime: Timestamp | None
    first_archive_id: int
    first_seen_at: Timestamp
    last_archive_id: int
    last_seen_at: Timestamp


class FleetHistory(PathAnswer):
    repositories: list[FleetPresence] = Field(description="Repositories that contain, or once contained, the path.")
    next_cursor: str | None
    coverage: FleetCoverage
