"""Reads the outbox and queues messages in the transaction that moves its position: none is lost or sent twice."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from holdfast.kit import clock
from holdfast.notifications.deliver import ping
from holdfast.notifications.events import deleted_subjects, grouping, incidents, rules
from holdfast.notifications.events.event import Event
from holdfast.notifications.events.from_outbox import TOPICS, events_of
from holdfast.notifications.events.incidents import Change
from holdfast.notifications.events.rules import ActiveRules, Facts
from holdfast.notifications.models import Delivery, DeliveryState, Destination, Incident, Rule
from holdfast.operations.models import OutboxEntry
from holdfast.operations.readers import Reader

NAME = "notifications"
MOST_REMINDED = 200
DELIVERED = (DeliveryState.SENT, DeliveryState.SENDING, DeliveryState.WAITING)


def reader() -> Reader:
    return Reader(
        NAME, handle, topics=TOPICS | deleted_subjects.TOPICS, ends_only=lambda session: not ping.is_used(session)
    )


def handle(session: Session, rows: Sequence[OutboxEntry]) -> None:
    now = clock.now()
    active = rules.read_active(session)
    for event in events_of(session, rows):
        labels = rules.labels_of(session, event.repository_id)
        for change in incidents.note(session, event):
            for rule in active.rules:
                for destination in active.destinations_of(rule.destination_ids):
                    if destination.id != event.not_to:
                        _RuleDispatcher(session, rule, destination, now).handle(event, change, labels)
            _plan_reminder(change.incident, active, now)
    deleted_subjects.close_incidents(session, rows, now)
    ping.queue(session, rows, now)


def is_reminder_due(session: Session, now: datetime) -> bool:
    return session.scalar(_due(session, now).with_only_columns(Incident.id).limit(1)) is not None


def remind(session: Session) -> int:
    """Send reminders of long-open incidents; return how many incidents were examined."""
    now = clock.now()
    found = session.scalars(_due(session, now).limit(MOST_REMINDED).with_for_update(skip_locked=True)).all()
    active = rules.read_active(session)
    for incident in found:
        for rule in active.rules:
            for destination in active.destinations_of(rule.destination_ids):
                _RuleDispatcher(session, rule, destination, now).remind(incident)
        _plan_reminder(incident, active, now)
    return len(found)


def _due(session: Session, now: datetime) -> Select[Incident]:
    """Select the incidents with a due reminder, including those planned while the clock was ahead."""
    longest = timedelta(hours=session.scalar(select(func.max(Rule.remind_hours)).where(Rule.enabled)) or 0)
    is_due = or_(Incident.remind_at <= now, Incident.remind_at > now + longest + clock.WENT_BACK)
    return select(Incident).where(Incident.closed_at.is_(None), is_due)


class _RuleDispatcher:
    """Queues the messages of one rule for one destination."""

    def __init__(self, session: Session, rule: Rule, destination: Destination, now: datetime) -> None:
        self._session, self._rule, self._destination, self._now = session, rule, destination, now
        self._key = f"{rule.id}:{destination.id}"

    def handle(self, event: Event, change: Change, labels: Any) -> None:
        if change.kind == "recovered" and change.incident is not None and self._key in change.incident.notices:
            self._recovered(change.incident, event.at)
            return
        facts = Facts(event.type, int(event.severity), event.repository_id, event.schedule_id, labels)
        if not rules.matches(self._rule, facts):
            return
        if not self._is_wanted(event, change):
            return
        if change.incident is not None and change.kind != "recovered":
            self._say(change.incident, change.kind)
        else:
            grouping.put(self._session, self._rule, self._destination, event.as_item(), self._now)

    def remind(self, incident: Incident) -> None:
        notice = incident.notices.get(self._key)
        if notice is None or self._rule.send != "change" or not self._rule.remind_hours:
            return
        if incidents.is_one_off(incident):
            return
        interval = timedelta(hours=self._rule.remind_hours)
        if clock.is_due(datetime.fromisoformat(notice["at"]) + interval, self._now, interval):
            self._say(incident, "reminder")

    def _is_wanted(self, event: Event, change: Change) -> bool:
        is_change = change.kind in ("opened", "changed")
        if event.type.startswith("agent."):
            return is_change or change.kind == "recovered"
        if self._rule.send == "every":
            return True
        # Also repeated failures if they are new to this destination: it or the rule was added after the incident
        # opened.
        return is_change or (change.kind == "again" and self._key not in (change.incident or Incident()).notices)

    def _say(self, incident: Incident, kind: str) -> None:
        item = incidents.item_of(incident, kind, self._now)
        delivery = grouping.put(self._session, self._rule, self._destination, item, self._now)
        note = {"delivery": delivery.id, "at": self._now.isoformat()}
        incident.notices = {**incident.notices, self._key: note}

    def _recovered(self, incident: Incident, at: datetime) -> None:
        """Report a recovery if the failure was reported. If that message is still waiting, it will report both."""
        item = incidents.item_of(incident, "recovered", at)
        delivery_id = incident.notices[self._key]["delivery"]
        is_merged = self._rule.send == "change" and grouping.replace(self._session, delivery_id, incident.id, item)
        if is_merged:
            return
        state = self._session.scalar(select(Delivery.state).where(Delivery.id == delivery_id))
        if state in DELIVERED or state is None:
            grouping.put(self._session, self._rule, self._destination, item, self._now)


def _plan_reminder(incident: Incident | None, active: ActiveRules, now: datetime) -> None:
    """Set when the incident is next examined: the earliest reminder of any rule that has reported it."""
    if incident is None or incident.closed_at is not None:
        return
    if incidents.is_one_off(incident):
        incident.remind_at = None
        return
    hours = {str(rule.id): rule.remind_hours for rule in active.rules if rule.send == "change" and rule.remind_hours}
    times = [
        min(datetime.fromisoformat(notice["at"]), now) + timedelta(hours=hours[key.split(":")[0]])
        for key, notice in incident.notices.items()
        if key.split(":")[0] in hours
    ]
    incident.remind_at = min(times, default=None)
