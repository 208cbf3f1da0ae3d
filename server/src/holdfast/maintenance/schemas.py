"""Request and response schemas for maintenance jobs."""

from typing import Annotated, Any

from pydantic import Field, StrictBool

from holdfast.kit.fields import PlainText, RowId, Timestamp
from holdfast.kit.schema import Closed, Schema
from holdfast.repositories.schemas import Retention

DAY_SECONDS = 24 * 3600


class CheckBody(Closed):
    max_duration: Annotated[int, Field(ge=1, le=30 * DAY_SECONDS)] | None = Field(
        None, description="Time limit in seconds for checking the repository's segments; the next check resumes there."
    )
    verify_data: StrictBool = Field(False, description="Read and verify the content of every file too.")
    repair: StrictBool = Field(False, description="Repair damage; content may be lost. Administrators only.")


class PruneBody(Retention):
    """Missing values come from the repository's retention."""

    dry_run: StrictBool = False

    def policy(self) -> dict[str, Any]:
        return self.model_dump(include=set(Retention.model_fields), exclude_none=True)


class CompactBody(Closed):
    threshold: Annotated[int, Field(ge=0, le=100)] | None = Field(
        None, description="Minimum unused percentage for a segment to be rewritten."
    )


class DeleteParams(Closed):
    """The archive to delete. With `engine_id`, only the archive with this id."""

    archive: str
    engine_id: str | None = None


EngineId = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class UndeleteParams(Closed):
    engine_id: EngineId


class DeletedArchive(Schema):
    engine_id: str = Field(description="The engine's archive id, used to undelete it.")
    name: str
    start: Timestamp
    end: Timestamp | None


class DeletedArchives(Schema):
    repository_id: int
    archives: list[DeletedArchive]


class ArchiveTime(Schema):
    archive: str
    time: Timestamp


class KeptArchive(ArchiveTime):
    rule: str = Field(description="The rule that keeps it: `daily`, `weekly[oldest]`, `within` …, or `protected`.")


class Refusal(Schema):
    key: str
    message: str


class PruneResult(Schema):
    keep: list[KeptArchive]
    prune: list[ArchiveTime]
    kept_count: int
    pruned_count: int
    stdout: str
    stderr: str
    refusal: Refusal | None = Field(None, description="Why a prune with this policy would currently be refused.")


class PruneDryRun(Schema):
    dry_run: bool = True
    prune_result: PruneResult


class MaintenanceJob(Schema):
    id: int
    kind: str
    repository: str | None = Field(description="Path of the repository.")
    repository_id: int | None
    repository_name: str | None
    status: str
    started_at: Timestamp | None
    completed_at: Timestamp | None
    created_at: Timestamp
    progress: float
    progress_message: str | None
    error_message: str | None
    error_key: str | None
    logs: str | None = Field(description="The last lines of the log; null in lists.")
    has_logs: bool
    archive_name: str | None
    trigger: str
    triggered_by: str | None
    run_id: str
    attempt: int
    queue_position: int | None
    queued_reason: str | None
    queued_behind_id: int | None
    cancel_requested: bool
    params: dict[str, Any]
    result: dict[str, Any] | None
    warnings: list[dict[str, Any]]


class MaintenanceJobs(Schema):
    jobs: list[MaintenanceJob]


class ExactCheckPath(Closed):
    path_b64: Annotated[str, Field(min_length=1, max_length=8192)] = Field(
        description="The path in base64, if it is not valid UTF-8."
    )


class Canary(Closed):
    path: Annotated[str, PlainText(1, 4096)] = Field(description="Path inside the archive.")
    sha256: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")] | None = Field(
        None, description="Expected hash of its content (default: the hash of the file on this machine)."
    )


class RestoreCheckBody(Closed):
    """At most one of `paths`, `full_archive`, `sample` and `canary`; without any, a sample of 100 files."""

    archive_id: RowId | None = None
    archive: Annotated[str, PlainText(1, 255)] | None = Field(
        None, description="Its name (default: the newest archive)."
    )
    paths: (
        Annotated[list[Annotated[str, PlainText(1, 4096)] | ExactCheckPath], Field(min_length=1, max_length=1000)]
        | None
    ) = None
    full_archive: StrictBool = False
    sample: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Number of random files (default: 100)."
    )
    canary: Canary | None = Field(None, description="File with known content.")
