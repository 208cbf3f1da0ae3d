"""Incidents: what is failing, since when and how often, and what has recovered."""

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.notifications.events.event import Event
from holdfast.notifications.models import Incident

Kind = Literal["opened", "changed", "again", "recovered", "none"]


@frozen
class Change:
    """The effect of an event on its incident."""

    kind: Kind
    incident: Incident | None = None


def note(session: Session, event: Event) -> list[Change]:
    """Record an event; return the changes it caused."""
    if event.key is None or event.state == "news":
        return [Change("none")]
    incident = session.scalar(
        select(Incident).where(Incident.key == event.key, Incident.closed_at.is_(None)).with_for_update()
    )
    if event.state == "acknowledged":
        if incident is not None:
            incident.remind_at = None  # planned again by what follows: it gets worse, or the silence ends
        return []
    if event.state == "good":
        return [Change("none")] if incident is None else [_close(incident, event)]
    if incident is None:
        return [_open(session, event)]
    if event.type.endswith(".warning") and incident.event.endswith(".failed"):
        # It worked again, though with warnings: the failure is over, and the warnings are a new incident.
        return [_close(incident, event), _open(session, event)]
    return [_go_on(incident, event)]


def _open(session: Session, event: Event) -> Change:
    incident = Incident(
        key=event.key,
        event=event.type,
        severity=int(event.severity),
        repository_id=event.repository_id,
        item=event.as_item(),
        error_key=event.error_key,
        opened_at=event.at,
        last_at=event.at,
        count=1,
        notices={},
    )
    session.add(incident)
    session.flush()
    return Change("opened", incident)


def _go_on(incident: Incident, event: Event) -> Change:
    is_other = event.error_key != incident.error_key or int(event.severity) > incident.severity
    incident.event, incident.error_key = event.type, event.error_key
    incident.severity, incident.item = int(event.severity), event.as_item()
    incident.last_at = event.at
    incident.count += 1
    return Change("changed" if is_other else "again", incident)


def _close(incident: Incident, event: Event) -> Change:
    incident.closed_at = event.at
    incident.remind_at = None
    return Change("recovered", incident)


def is_one_off(incident: Incident) -> bool:
    """Whether nothing will repeat the failed work: a restore, or a script that was not started by a schedule."""
    work = incident.event.split(".")[0]
    return work == "restore" or (work == "script" and incident.item.get("schedule_id") is None)


def item_of(incident: Incident, kind: str, at: datetime) -> dict[str, Any]:
    """Return an incident as an item of a message."""
    about = {
        "id": incident.id,
        "state": kind,
        "since": incident.opened_at.isoformat(),
        "count": incident.count,
    }
    if kind != "recovered":
        return {**incident.item, "incident": about}
    times = "once" if incident.count == 1 else f"{incident.count} times"
    return {
        **incident.item,
        "event": incident.event,
        "severity": "info",
        "at": at.isoformat(),
        "title": f"Recovered: {incident.item.get('title', '')}",
        "text": f"Failing since {shown(incident.opened_at)}, {times}; recovered at {shown(at)}.",
        "incident": {**about, "recovered_at": at.isoformat()},
    }


def shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
