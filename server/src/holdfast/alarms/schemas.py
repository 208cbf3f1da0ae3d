"""Request and response schemas of the alarm routes."""

from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.alarms.models import Severity
from holdfast.alarms.thresholds import AlarmThresholds, RepositoryThresholds
from holdfast.kit.fields import Moment, PlainText, RowId, Timestamp
from holdfast.kit.schema import Closed, Schema

AlarmState = Literal["open", "acknowledged", "cleared"]


class AlarmSubject(Schema):
    type: Literal["repository", "agent", "service", "ssh_machine", "destination"]
    id: int
    name: str | None = Field(description="Its current name; null if it no longer exists.")


class AlarmItem(Schema):
    id: int
    kind: str
    severity: Severity
    state: AlarmState
    subject: AlarmSubject
    repository_id: int | None
    since: Timestamp
    seen_at: Timestamp = Field(description="When the evidence last confirmed the alarm.")
    evidence_known: bool = Field(description="False while evidence is missing: the alarm may no longer apply.")
    cleared_at: Timestamp | None
    evidence: dict[str, Any]
    message: str
    acknowledged_by: str | None
    acknowledged_at: Timestamp | None
    acknowledged_until: Timestamp | None = Field(description="Null: until the alarm gets worse or clears.")
    comment: str | None


class Alarms(Schema):
    alarms: list[AlarmItem]
    next_cursor: str | None


class AlarmAcknowledgement(Closed):
    until: Moment | None = Field(
        None, description="Silent until this time; null: until the alarm gets worse or clears."
    )
    comment: Annotated[str, PlainText(0, 1000)] | None = None


class RepositoryOverride(Schema):
    repository_id: int
    thresholds: RepositoryThresholds


class AlarmSettings(Schema):
    thresholds: AlarmThresholds
    repositories: list[RepositoryOverride] = Field(description="Repositories with their own thresholds.")
    kinds: list[str] = Field(description="All kinds of alarms.")


class RepositoryOverrideChange(Closed):
    repository_id: RowId
    thresholds: RepositoryThresholds | None = Field(description="Null: use the general thresholds again.")


class AlarmSettingsChange(Closed):
    """Omitted fields are left unchanged."""

    thresholds: AlarmThresholds | None = None
    repositories: Annotated[list[RepositoryOverrideChange], Field(max_length=10_000)] = Field(default_factory=list)
