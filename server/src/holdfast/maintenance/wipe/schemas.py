"""Request and response schemas for wipes."""

from typing import Annotated, Any

from pydantic import Field, StrictBool

from holdfast.kit.fields import PlainText, RowId, Timestamp
from holdfast.kit.schema import Closed, Schema


class WipePreviewBody(Closed):
    run_compact: StrictBool = Field(True, description="Reclaim the space after removing the archives.")


class WipeStartBody(Closed):
    preview_id: RowId
    preview_fingerprint: Annotated[str, PlainText(1, 200)]
    confirmation_phrase: Annotated[str, PlainText(0, 400)] = Field("", description="`WIPE <repository name>`.")
    understood: StrictBool = False
    run_compact: StrictBool | None = Field(None, description="Default: as in the preview.")


class WipeParams(Closed):
    preview_id: int
    archive_fingerprint: str
    run_compact: bool


class WipedArchive(Schema):
    id: str = Field(description="The engine's id.")
    name: str
    start: Timestamp


class WipeJob(Schema):
    """A preview or a wipe. `id` shows which: ids of previews start at 1,000,000,001."""

    id: int
    repository_id: int
    repository: str | None = Field(description="Path of the repository.")
    repository_name: str | None
    status: str
    phase: str
    preview_id: int | None
    operation_id: int | None
    run_compact: bool
    archive_count: int
    archive_fingerprint: str
    archives: list[WipedArchive]
    confirmation_phrase: str | None = Field(None, description="Phrase to confirm a wipe from this preview.")
    protected_count: int = Field(
        0, description="Protected archives, for a preview. A wipe is refused while there are any (`wipe.protected`)."
    )
    blocked: bool = Field(
        description="Other operations of the repository are running or waiting; a wipe would wait for them."
    )
    blocking_reason: str | None
    deleted_count: int | None = Field(None, description="Null while unknown.")
    remaining_count: int | None = None
    deleted: list[str] = []
    remaining: list[str] = []
    freed_bytes: int | None = None
    created_at: Timestamp
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    progress: float = 0.0
    progress_message: str | None = None
    error_message: str | None = None
    error_key: str | None = None
    logs: str | None = None
    has_logs: bool = False
    attempt: int | None = None
    cancel_requested: bool = False
    queued_reason: str | None = None
    queued_behind_id: int | None = None
    warnings: list[dict[str, Any]] = []
