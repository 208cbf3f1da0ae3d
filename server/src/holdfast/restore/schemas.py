"""Restores as clients see them."""

from typing import Annotated, Any, Literal

from pydantic import Field

from backup_jobs.paths import for_engine, from_json
from holdfast.kit.fields import PlainText, RowId, Timestamp
from holdfast.kit.schema import Closed, Schema
from holdfast.repositories.archived_paths import Paths, PathText, PathValue

Layout = Literal["preserve_path", "contents_only"]
Overwrite = Literal["skip", "replace", "fail"]
DestinationType = Literal["local", "ssh", "agent"]


class RestoreParams(Closed):
    """The parameters of a restore operation."""

    archive: str
    archive_id: int | None = None
    engine_id: str | None = None
    """The engine's own id of the archive, if known."""
    paths: list[str | dict[str, str]] = []
    destination: str | dict[str, str]
    destination_type: DestinationType = "local"
    destination_machine_id: int | None = None
    restore_layout: Layout = "preserve_path"
    overwrite: Overwrite = "skip"
    dry_run: bool = False
    without: list[str | dict[str, str]] | None = None
    """Archived folders that the requesting user may not read; they are left out with everything below them."""

    @property
    def excluded_trees(self) -> tuple[str, ...]:
        """The folders to leave out, in the form that the engine expects."""
        return tuple(for_engine(from_json(name)) for name in self.without or ())


class RestoreRequest(Closed):
    """Unknown fields are refused: a misspelt `overwrite` must not fall back to something else."""

    repository_id: RowId | None = None
    repository: PathText | None = Field(None, description="Path of a registered repository, instead of its id.")
    archive_id: RowId | None = None
    archive: Annotated[str, PlainText(1, 4096)] | None = Field(
        None, description="Name of the archive, instead of its id."
    )
    paths: Paths = Field([], description="What to restore: files, or folders with their contents. Empty: everything.")
    destination: PathValue = Field(description="Absolute path of a folder; created if missing.")
    destination_type: DestinationType = "local"
    destination_machine_id: RowId | None = Field(
        None,
        description="For `ssh` the ssh connection, for `agent` the agent (default: the one that opens the repository).",
    )
    restore_layout: Layout = Field(
        "preserve_path",
        description="preserve_path: the whole archived path below the destination. "
        "contents_only: each given folder's contents, or file, directly in the destination.",
    )
    overwrite: Overwrite = Field(
        "skip",
        description="skip: keep existing files. replace: replace files, each atomically. "
        "fail: write nothing if any file already exists.",
    )
    dry_run: bool = Field(False, description="Report what would be restored; write nothing.")


class RestoreProgress(Schema):
    nfiles: int | None = None
    current_file: str = ""
    progress_percent: float = 0.0
    restored_size: int | None = None
    original_size: int | None = None
    restore_speed: int | None = None
    estimated_time_remaining: int | None = None


class RestoreStatus(Schema):
    id: int
    repository: str | None
    archive: str | None
    destination: str
    status: str
    started_at: Timestamp | None
    completed_at: Timestamp | None
    progress: float
    error_message: str | None
    error_key: str | None
    logs: str | None
    progress_details: RestoreProgress
    restore_layout: str
    overwrite: str
    dry_run: bool
    trigger: str
    triggered_by: str | None
    run_id: str
    attempt: int
    queue_position: int | None
    queued_reason: str | None
    queued_behind_id: int | None
    cancel_requested: bool
    warnings: list[dict[str, Any]]
    result: dict[str, Any] | None = Field(description="What was restored, skipped and not restored.")


class RestoreJobs(Schema):
    jobs: list[RestoreStatus]
    next_cursor: str | None


class ShownPath(Schema):
    path: str
    path_b64: str | None = Field(None, description="Exact path in base64, if it is not valid UTF-8.")


class ShownConflict(ShownPath):
    reason: str


class ShownFile(ShownPath):
    type: str
    size: int


class RestorePreview(Schema):
    files: int = Field(description="Number of entries that are not folders.")
    bytes: int
    conflicts: list[ShownConflict] = Field(description="Existing files; the first 1,000.")
    conflict_count: int
    conflicts_known: bool = Field(
        description="False for callers who may not restore, and for agent machines: existing files at the destination "
        "are then unknown."
    )
    would_write: int | None = Field(description="Files that would be new. Null if conflicts are unknown.")
    would_replace: int | None = Field(description="Existing files that would be replaced.")
    would_keep: int | None = Field(description="Existing files that would stay unchanged.")
    seconds_estimate: float | None = Field(
        description="Estimated duration, based on this repository's recent restores; null without any."
    )
    free_bytes: int | None = Field(description="Free space at the destination; null if unknown.")
    files_passed_over: int = Field(
        description="Files that would be restored into the service's own data or a repository."
    )
    sample: list[ShownFile]
