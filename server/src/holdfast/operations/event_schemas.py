"""The events of the stream, and the schema of each event's data."""

from typing import Any, Literal

from pydantic import Field

from holdfast.kit.fields import Timestamp
from holdfast.kit.schema import Schema
from holdfast.operations.schemas import OperationItem

RepositoryPart = Literal["settings", "archives", "sizes", "history", "evidence"]


class HelloEvent(Schema):
    """The first event of every stream."""

    id: int = Field(
        description="The newest event when the stream began. To resume from here, send it as Last-Event-ID."
    )


class ResetEvent(Schema):
    """The missed events are no longer stored, or are too many. Read everything again."""


class SessionEndedEvent(Schema):
    """The credential of this stream is no longer valid. The service closes the stream."""

    reason: str = Field(
        description="Error key that requests with this credential now receive, such as auth.session_ended."
    )


class OperationUpdatedEvent(Schema):
    """An operation was queued, started or ended, or was requested to stop."""

    id: int
    status: str
    cancel_requested: bool | None = Field(None, description="True if cancellation was requested.")
    job_status: str | None = Field(None, description="State of the job, if reported by an agent.")
    operation: OperationItem = Field(description="Current state of the operation.")


class OperationProgressEvent(Schema):
    """Progress of a running operation, at most once a second. Not stored: it has no id and is not sent again."""

    id: int
    progress: dict[str, Any]


class OperationsProgressEvent(Schema):
    """Progress of all running operations in one event. Only for streams whose `topics` name it."""

    operations: list[OperationProgressEvent]


class OverviewUpdatedEvent(Schema):
    """`GET /api/overview` may have changed: sent once after each group of events that it depends on."""


class QueueUpdatedEvent(Schema):
    """`GET /api/operations/queue` has changed."""

    repository_id: int | None = Field(
        description="The repository whose operations have changed; null for operations without one, and for `settings`."
    )
    change: Literal["operations", "settings"] = Field(description="`settings`: the limits or the pause.")


class RepositoryUpdatedEvent(Schema):
    """A repository was created, changed or removed, or more is known about it."""

    id: int
    change: Literal["created", "changed", "evidence", "deleted"]
    changed: list[RepositoryPart] = Field(
        default_factory=list,
        description="The parts that have changed: `settings`, the list of `archives`, the `sizes` of repository and "
        "disk, the `history` of files, or other `evidence`, such as times of backups and checks. All of them if it "
        "was created or deleted. Missing only in events of earlier releases.",
    )


class EventArchive(Schema):
    id: int
    engine_id: str
    name: str
    start: Timestamp


class ArchivesChangedEvent(Schema):
    repository_id: int
    count: int = Field(description="Number of archives.")
    archives: list[EventArchive] = Field(description="The newest ones, at most 100.")


class ArchiveAddedEvent(ArchivesChangedEvent):
    """Archives were added to the list: made by a backup, or found in the repository."""


class ArchiveRemovedEvent(ArchivesChangedEvent):
    """Archives were removed from the list. Deleting a repository sends no such event."""


class AgentUpdatedEvent(Schema):
    """An agent has changed, has come online or has gone offline. For admins."""

    id: int
    agent_id: str
    name: str | None = Field(None, description="Missing for a deleted agent.")
    status: str | None = Field(None, description="Missing for a deleted agent.")
    deleted: bool = False


class ScheduleRunEvent(Schema):
    """A due time of a schedule has reached its final outcome."""

    id: int | None
    schedule_id: int
    schedule_name: str | None
    repository_id: int
    due_at: Timestamp
    due_until: Timestamp | None
    due_count: int | None
    origin: str | None
    outcome: str
    reason: str | None
    result: str | None
    error_key: str | None
    run_id: str | None
    tries: int | None
    settled_at: Timestamp


class ScheduleClockJumpedEvent(Schema):
    """The clock went back, and due times were recomputed. For admins."""

    seconds: float


class ScheduleUpdatedEvent(Schema):
    """A schedule, a blackout or the pause of all schedules was changed.

    The event does not name it, because everyone receives it.
    """


class AlarmSubject(Schema):
    type: str
    id: int
    name: str | None


class AlarmEvent(Schema):
    id: int
    kind: str
    severity: str
    subject: AlarmSubject
    since: Timestamp
    message: str
    evidence: dict[str, Any]
    reason: str | None = None


class AlarmRaisedEvent(AlarmEvent):
    """An alarm was raised."""


class AlarmChangedEvent(AlarmEvent):
    """An open alarm has changed, such as its severity, or was acknowledged."""


class AlarmClearedEvent(AlarmEvent):
    """An alarm has ended."""


class NotificationDeliveryEvent(Schema):
    """A message was sent or abandoned. For admins."""

    kind: str
    state: str


class DestinationEvent(Schema):
    destination_id: int
    name: str
    reason: str | None


class NotificationFailedEvent(DestinationEvent):
    """Messages to a destination are failing. For admins."""


class NotificationRecoveredEvent(DestinationEvent):
    """A failing destination works again. For admins."""


class NotificationUpdatedEvent(Schema):
    """A destination, a rule or a report of notifications was added, changed or deleted. For admins."""

    what: Literal["destination", "rule", "report"]
    id: int


class UserUpdatedEvent(Schema):
    """A user was created, changed or deleted, or their rights, invitation, second factor or tokens have changed.

    For admins.
    """

    id: int
    change: Literal["created", "changed", "deleted"]


class LiveEvents(Schema):
    """The events of the stream: the name of each, and the schema of its `data`."""

    hello: HelloEvent
    reset: ResetEvent
    session_ended: SessionEndedEvent = Field(alias="session.ended")
    operation_updated: OperationUpdatedEvent = Field(alias="operation.updated")
    operation_progress: OperationProgressEvent = Field(alias="operation.progress")
    operations_progress: OperationsProgressEvent = Field(alias="operations.progress")
    overview_updated: OverviewUpdatedEvent = Field(alias="overview.updated")
    queue_updated: QueueUpdatedEvent = Field(alias="queue.updated")
    repository_updated: RepositoryUpdatedEvent = Field(alias="repository.updated")
    archive_added: ArchiveAddedEvent = Field(alias="archive.added")
    archive_removed: ArchiveRemovedEvent = Field(alias="archive.removed")
    agent_updated: AgentUpdatedEvent = Field(alias="agent.updated")
    schedule_run: ScheduleRunEvent = Field(alias="schedule.run")
    schedule_clock_jumped: ScheduleClockJumpedEvent = Field(alias="schedule.clock_jumped")
    schedule_updated: ScheduleUpdatedEvent = Field(alias="schedule.updated")
    alarm_raised: AlarmRaisedEvent = Field(alias="alarm.raised")
    alarm_changed: AlarmChangedEvent = Field(alias="alarm.changed")
    alarm_cleared: AlarmClearedEvent = Field(alias="alarm.cleared")
    notification_delivery: NotificationDeliveryEvent = Field(alias="notification.delivery")
    notification_failed: NotificationFailedEvent = Field(alias="notification.failed")
    notification_recovered: NotificationRecoveredEvent = Field(alias="notification.recovered")
    notification_updated: NotificationUpdatedEvent = Field(alias="notification.updated")
    user_updated: UserUpdatedEvent = Field(alias="user.updated")


EVENTS: dict[str, type[Schema]] = {
    field.alias or name: field.annotation  # type: ignore[misc]
    for name, field in LiveEvents.model_fields.items()
}
"""The schema of each event's data, by the event's name."""
