"""Operations as clients see them."""

from typing import Any

from pydantic import Field

from holdfast.kit.fields import Timestamp
from holdfast.kit.schema import Schema
from holdfast.operations.limits import Limits


class OperationItem(Schema):
    id: int
    activity_key: str
    kind: str
    type: str
    category: str
    status: str
    trigger: str
    priority: int
    run_id: str
    parent_id: int | None
    depends_on_id: int | None
    retry_of: int | None
    repository_id: int | None
    repository: str | None
    repository_path: str | None
    machine_id: int | None
    created_at: Timestamp
    queued_reason: str | None
    queued_behind_id: int | None
    started_at: Timestamp | None
    completed_at: Timestamp | None
    cancel_requested: bool
    duration_seconds: float | None
    error_message: str | None
    error_key: str | None
    error_params: dict[str, Any] | None = Field(None, description="Details of the error; fields depend on its key.")
    skip_reason: str | None
    triggered_by: str | None
    schedule_id: int | None
    schedule_name: str | None
    archive_name: str | None
    package_name: str | None
    attempt: int
    progress_percent: float | None
    progress_current: int | None
    progress_total: int | None
    progress_message: str | None
    has_logs: bool
    log_file_path: str | None
    params: dict[str, Any]
    result: dict[str, Any] | None
    warnings: list[dict[str, Any]]
    followups: list["OperationItem"] = Field(default_factory=list)


class OperationDetail(OperationItem):
    run: list[OperationItem] = Field(description="All operations of the same run, oldest first.")
    detail: dict[str, Any] = Field(description="Kind-specific details.")
    actions: list[str] = Field(description="Actions currently available to you on this operation.")
    refusals: dict[str, str] = Field(description="Unavailable actions, each with the error key that explains why.")
    progress_details: dict[str, Any] = Field(
        description="Known progress, such as files, bytes, speed and current file; empty once the operation has ended."
    )


class OperationPage(Schema):
    items: list[OperationItem]
    next_cursor: str | None
    total: int | None = Field(
        description="Total number of matching operations on all pages, at most 10,000. Null if a search has not "
        "covered all operations."
    )

    @property
    def is_cacheable(self) -> bool:
        """Whether nothing in it changes as time passes.

        A running operation grows older; a waiting one may be waiting for a point in time.
        """
        return all(item.completed_at is not None for item in self.items)


class LimitsInForce(Limits):
    running: dict[str, int]


class LaneOperation(Schema):
    """The operation that holds a lane."""

    id: int
    kind: str
    status: str
    started_at: Timestamp | None


class LaneQueue(Schema):
    repository_id: int | None
    repository_name: str | None
    lane_busy: bool
    lane_holder: LaneOperation | None
    lane_holders: list[LaneOperation]
    operations: list[OperationItem]


class RunnerItem(Schema):
    id: str
    host: str
    heartbeat_at: Timestamp
    running: int


class Queue(Schema):
    repositories: list[LaneQueue]
    limits: LimitsInForce
    paused: bool
    runners: list[RunnerItem]


class Paused(Schema):
    paused: bool


class Reconciled(Schema):
    repositories: int
    enqueued: int


class StartAnswer(Schema):
    job_id: int = Field(description="Operation id.")
    status: str
    message: str


class RetryAnswer(StartAnswer):
    retry_of: int = Field(description="The operation being retried.")


class CancelAnswer(Schema):
    id: int
    status: str
    cancel_requested: bool
    message: str


class LogLine(Schema):
    line_number: int
    content: str


class LogAnswer(Schema):
    job_id: int
    status: str
    lines: list[LogLine]
    total_lines: int = Field(description="Position reached; pass it as the next offset.")
    log_lines: int = Field(description="Current number of lines in the log.")
    has_more: bool


class OperationLog(LogAnswer):
    next_match: int | None = Field(
        None, description="With `find`: number of the first line that contains the text; `lines` starts there."
    )
    searched_to: int | None = Field(
        None, description="With `find`: lines searched so far. If there is no match, continue with this offset."
    )


class HistoryCounts(Schema):
    indexed: int = 0
    pending: int = 0
    failed: int = 0
    skipped: int = 0
    truncated: int = 0
    rows: int = 0
    bytes: int = 0


class DerivedData(Schema):
    repository_id: int
    repository_name: str
    index_mode: str
    sync_state: str
    last_synced_at: Timestamp | None
    last_stats_at: Timestamp | None
    last_history_at: Timestamp | None
    archives: int
    history: HistoryCounts


class DerivedDataList(Schema):
    repositories: list[DerivedData]
    totals: HistoryCounts
    last_reconcile_at: Timestamp | None
    reconcile_interval_minutes: int


class TroubledArchives(Schema):
    repository_id: int
    failed_archives: list[dict[str, Any]]
    truncated_archives: list[dict[str, Any]]
