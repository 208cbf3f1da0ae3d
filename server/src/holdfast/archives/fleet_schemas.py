"""Answers about files of all repositories."""

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
    """As it is in the last archive that has it."""

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
        description="`unavailable`: the index could not be read now; try again."
    )


class FleetCoverage(Schema):
    repositories: int = Field(description="Repositories that were asked for and that you may see.")
    looked_at: int = Field(description="How many of them are searched to the end, up to and with this page.")
    incomplete: list[IncompleteRepository] = Field(
        description="Repositories with archives that are not indexed, at most 100: what they hold is not found."
    )
    incomplete_count: int


class FleetSearchAnswer(Schema):
    query: str
    results: list[FleetHit] = Field(description="Repository by repository, in the order of their ids.")
    next_cursor: str | None = Field(description="Null when every repository has been searched.")
    coverage: FleetCoverage


class FleetPresence(RepositoryOfHit):
    presence: Presence
    archive_count: int
    versions: int = Field(description="States of the path that differ.")
    size: int | None = Field(description="As it was last; null for a folder.")
    mtime: Timestamp | None
    first_archive_id: int
    first_seen_at: Timestamp
    last_archive_id: int
    last_seen_at: Timestamp


class FleetHistory(PathAnswer):
    repositories: list[FleetPresence] = Field(description="Repositories that have, or once had, the path.")
    next_cursor: str | None
    coverage: FleetCoverage
