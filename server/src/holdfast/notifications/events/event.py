"""An event, as rules judge it and messages show it."""

from datetime import datetime
from typing import Any, Literal

from backup_engine.frozen import frozen
from holdfast.notifications.events.text import clean
from holdfast.notifications.models import Severity

WORKS = ("backup", "dump", "restore", "check", "restore_check", "prune", "compact", "mirror", "script")
ENDS = ("completed", "warning", "failed")
EVENTS = (
    *(f"{work}.{end}" for work in WORKS for end in ENDS),
    *("schedule.missed", "schedule.skipped", "agent.offline", "agent.online", "alarm.raised", "alarm.cleared"),
    "report",
)

State = Literal["bad", "good", "news", "acknowledged"]


@frozen
class Event:
    type: str
    severity: Severity
    state: State
    """`bad` opens or continues an incident, `good` closes it, `acknowledged` ends its reminders; `news` is neutral."""
    key: str | None
    """Key of the incident."""
    at: datetime
    title: str
    text: str = ""
    repository_id: int | None = None
    repository: str | None = None
    schedule_id: int | None = None
    schedule: str | None = None
    agent: str | None = None
    operation_id: int | None = None
    run_id: str | None = None
    error_key: str | None = None
    not_to: int | None = None
    """A destination that is not notified, because it is the one that fails."""

    def as_item(self) -> dict[str, Any]:
        """Return the event as an item of a message. All external text is cleaned here, once."""
        item = {
            "event": self.type,
            "severity": self.severity.word,
            "at": self.at.isoformat(),
            "title": clean(self.title),
            "text": clean(self.text, 1000),
            "repository_id": self.repository_id,
            "repository": clean(self.repository) if self.repository else None,
            "schedule_id": self.schedule_id,
            "schedule": clean(self.schedule) if self.schedule else None,
            "agent": clean(self.agent) if self.agent else None,
            "operation_id": self.operation_id,
            "run_id": self.run_id,
            "error_key": self.error_key,
        }
        return {name: value for name, value in item.items() if value not in (None, "")}
