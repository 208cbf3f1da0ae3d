"""Request and response schemas of manual backups."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from holdfast.kit.fields import PlainText, Timestamp
from holdfast.kit.schema import Closed, Schema


class BackupParams(Closed):
    """Parameters of a backup operation. Those that are None are taken from the repository when the operation starts."""

    source_paths: list[str] | None = None
    archive_name: str | None = None
    comment: str | None = None
    upload_ratelimit_kib: int | None = None
    """Overrides the repository's limit: a schedule sets the limit of the window in which it starts the backup."""
    within_sources: bool | None = None
    """Restricts the backup to the repository's sources as they are when it runs."""


class BackupStart(Schema):
    model_config = ConfigDict(extra="ignore")

    repository: Annotated[str, PlainText(1, 4096)] = Field(description="Path of a registered repository.")
    source_paths: Annotated[list[Annotated[str, PlainText(1, 4096)]], Field(min_length=1, max_length=1000)] | None = (
        None
    )
    archive_name: Annotated[str, PlainText(1, 200)] | None = None
    comment: Annotated[str, PlainText(0, 2000)] | None = None


class ProgressDetails(Schema):
    progress_percent: float | None = Field(
        0.0, description="null once more data was read than the last backup contained."
    )
    more_than_expected: bool = Field(False, description="More data was read than the last backup contained.")
    current_file: str = ""
    nfiles: int | None = None
    original_size: int | None = None
    compressed_size: int | None = None
    deduplicated_size: int | None = None
    backup_speed: int | None = None
    total_expected_size: int | None = None
    estimated_time_remaining: int | None = None


class BackupStatus(Schema):
    id: int
    repository: str | None
    status: str
    started_at: Timestamp | None
    completed_at: Timestamp | None
    progress: float = Field(description="Percent; 0 if unknown.")
    error_message: str | None
    error_key: str | None
    error_params: dict[str, Any] | None = Field(None, description="Details of the error; fields depend on its key.")
    logs: str | None
    progress_details: ProgressDetails
    archive_name: str | None
    trigger: str
    triggered_by: str | None
    run_id: str
    attempt: int
    retry_of: int | None
    queue_position: int | None
    queued_reason: str | None
    queued_behind_id: int | None
    cancel_requested: bool
    warnings: list[dict[str, Any]]


class BackupJobs(Schema):
    jobs: list[BackupStatus]
    next_cursor: str | None
