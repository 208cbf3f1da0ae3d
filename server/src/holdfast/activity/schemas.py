"""Schemas of the backup status and the timeline."""

from typing import Any, Literal

from pydantic import Field

from holdfast.agents.schemas import MachineItem
from holdfast.alarms.schemas import AlarmItem
from holdfast.kit.fields import Timestamp
from holdfast.kit.schema import Schema
from holdfast.operations.schemas import OperationItem

Health = Literal["ok", "warned", "overdue", "never", "failed"]


class RepositoryHealth(Schema):
    repository_id: int
    name: str
    health: Health = Field(description="`never`: never backed up; the other values describe the last backup.")
    summary: str
    last_backup: Timestamp | None
    last_operation_id: int | None = Field(description="Last backup that succeeded or failed.")
    overdue: bool | None = Field(description="Null if the plan does not include overdue flags.")


class ActiveOperation(OperationItem):
    progress_details: dict[str, Any]


class Overview(Schema):
    verdict: Literal["ok", "attention"]
    summary: str
    checked_at: Timestamp
    repositories: list[RepositoryHealth]
    running: list[ActiveOperation]
    waiting: list[ActiveOperation]
    failed: list[OperationItem] = Field(
        description="Jobs that failed and have not succeeded since; restores and other one-off jobs only for a day."
    )
    warned: list[OperationItem] = Field(description="Jobs whose last run completed with warnings.")
    alarms: list[AlarmItem] = Field(description="Open alarms that are not acknowledged.")
    machines_offline: list[MachineItem] | None = Field(description="Null for users who cannot see machines.")


class Timeline(Schema):
    since: Timestamp
    until: Timestamp
    rows: list[list[int | str | None]] = Field(
        description="`[id, kind, repository_id, status, start, end]`, oldest start first. A future run of a schedule "
        "has the status `planned` and neither id nor end."
    )
    truncated: bool = Field(
        description="The span contains more than 10,000 rows; the latest planned runs are omitted first, then the "
        "oldest operations."
    )
