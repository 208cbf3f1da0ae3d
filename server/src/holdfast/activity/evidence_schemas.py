"""Schemas for the first page of the web UI: the verdict, what needs attention, and the evidence per repository."""

from typing import Literal

from pydantic import Field

from holdfast.activity.schemas import ActiveOperation
from holdfast.activity.verdict import Severity, Verdict
from holdfast.kit.fields import Timestamp
from holdfast.kit.schema import Schema

ActName = Literal["back_up", "prove", "check", "open", "log"]


class EvidenceCell(Schema):
    cell: Literal["backup", "check", "restore_check", "mirror"]
    state: Literal["ok", "warned", "overdue", "failed", "never", "running"]
    at: Timestamp | None = Field(description="Time of the last success, or of the failure if the state is `failed`.")
    operation_id: int | None
    threshold_days: int | None


class EvidenceDay(Schema):
    date: str
    archives: int
    new_bytes: int | None = Field(description="Null if the engine did not report it.")
    failed: int


class RepositoryEvidence(Schema):
    id: int
    name: str
    path: str
    verdict: Verdict
    reason: str = Field(description="Empty for a proven repository.")
    machine: str | None = Field(description="The machine that runs the backups; null for the service's own.")
    cells: list[EvidenceCell]
    days: list[EvidenceDay] = Field(description="The last 42 days, oldest first.")
    archive_count: int | None
    total_size: int | None
    unique_size: int | None
    last_backup: Timestamp | None
    running_operation_id: int | None


class Attention(Schema):
    key: str
    severity: Severity
    reason: str
    repository_id: int
    repository: str
    path: str
    since: Timestamp | None
    operation_id: int | None
    error_key: str | None
    message: str | None
    threshold_days: int | None
    last_backup: Timestamp | None
    act: ActName = Field(description="What helps most.")


class Proof(Schema):
    operation_id: int
    repository_id: int
    at: Timestamp
    files: int | None
    bytes: int | None


class DataAge(Schema):
    newest: Timestamp | None
    oldest: Timestamp | None


class OverviewAnswer(Schema):
    judged_at: Timestamp
    verdict: Literal["proven", "needs_you", "empty"]
    counts: dict[Verdict, int]
    archives: int
    newest_proof: Proof | None
    data_age: DataAge = Field(description="Times of the newest and the oldest of the latest backups.")
    attention: list[Attention]
    running: list[ActiveOperation]
    waiting: list[ActiveOperation]
    repositories: list[RepositoryEvidence] = Field(description="Repositories that need attention come first.")


class EvidencePage(Schema):
    repositories: list[RepositoryEvidence]
    counts: dict[Verdict, int] = Field(description="Number of matches of the text, per state.")
    total: int
    next_cursor: str | None
