"""Adds items to the delivery queue: to a message that is still waiting, or to a new one."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from holdfast.notifications.events.quiet import quiet_until
from holdfast.notifications.models import Delivery, DeliveryState, Destination, Rule, Severity
from holdfast.storage.session import news_after_commit

MOST_ITEMS = 50
MOST_WAITING = 1000
"""Maximum number of messages waiting for one destination.

Beyond it, events are added to the last message; once that is full, they are only counted.
"""
UNFINISHED = (DeliveryState.WAITING, DeliveryState.SENDING)


def put(session: Session, rule: Rule, destination: Destination, item: dict[str, Any], now: datetime) -> Delivery:
    """Queue an item for a destination.

    The first item is sent immediately; later ones within `group_seconds` share a message.
    """
    severity = Severity.of(item.get("severity"))
    held = None if severity is Severity.CRITICAL else quiet_until(rule.quiet, now)
    waiting = session.scalar(_waiting_message(rule, destination, now, held is not None))
    if waiting is None and _is_full(session, destination):
        waiting = session.scalar(_last_message(destination))
    if waiting is not None:
        _append(waiting, item, severity)
        return waiting
    last = session.scalar(
        select(func.max(Delivery.created_at)).where(
            Delivery.rule_id == rule.id,
            Delivery.destination_id == destination.id,
            Delivery.created_at > now - timedelta(seconds=rule.group_seconds),
            Delivery.created_at <= now,  # not while the clock was ahead
        )
    )
    due = now if last is None else last + timedelta(seconds=rule.group_seconds)
    return add(session, destination.id, item["event"], [item], held or due, now, rule_id=rule.id, severity=severity)


def add(
    session: Session,
    destination_id: int,
    message_type: str,
    items: list[dict[str, Any]],
    due: datetime,
    now: datetime,
    *,
    rule_id: int | None = None,
    severity: Severity = Severity.INFO,
    once: str | None = None,
    body: dict[str, Any] | None = None,
) -> Delivery:
    delivery = Delivery(
        uuid=uuid.uuid4().hex,
        destination_id=destination_id,
        rule_id=rule_id,
        type=message_type,
        severity=int(severity),
        items=items,
        more=0,
        body=body,
        state=DeliveryState.WAITING,
        attempts=0,
        created_at=now,
        next_attempt_at=due,
        once=once,
    )
    session.add(delivery)
    session.flush()
    news_after_commit(session)  # the senders check when it is due
    return delivery


def replace(session: Session, delivery_id: int, incident_id: int, item: dict[str, Any]) -> bool:
    """Update an incident in a message that was never tried. Return whether that was possible."""
    delivery = session.scalar(_untried().where(Delivery.id == delivery_id))
    if delivery is None:
        return False
    items = [item if (each.get("incident") or {}).get("id") == incident_id else each for each in delivery.items]
    if items == delivery.items:
        return False
    delivery.items = items
    delivery.severity = max((Severity.of(each.get("severity")) for each in items), default=Severity.INFO)
    return True


def _append(delivery: Delivery, item: dict[str, Any], severity: Severity) -> None:
    delivery.severity = max(delivery.severity, int(severity))
    if len(delivery.items) < MOST_ITEMS:
        delivery.items = [*delivery.items, item]
    else:
        delivery.more += 1


def _untried() -> Select[Delivery]:
    """Select messages that were never tried, leaving out those that are just being claimed."""
    untried = select(Delivery).where(Delivery.state == DeliveryState.WAITING, Delivery.attempts == 0)
    return untried.with_for_update(skip_locked=True)


def _waiting_message(rule: Rule, destination: Destination, now: datetime, held: bool) -> Select[Delivery]:
    wanted = _untried().where(
        Delivery.rule_id == rule.id,
        Delivery.destination_id == destination.id,
        Delivery.next_attempt_at > now,
    )
    if not held:  # a critical event does not wait for the end of quiet hours
        wanted = wanted.where(Delivery.next_attempt_at <= now + timedelta(seconds=rule.group_seconds))
    return wanted.order_by(Delivery.id.desc()).limit(1)


def _is_full(session: Session, destination: Destination) -> bool:
    unfinished = select(func.count()).where(Delivery.destination_id == destination.id, Delivery.state.in_(UNFINISHED))
    return (session.scalar(unfinished) or 0) >= MOST_WAITING


def _last_message(destination: Destination) -> Select[Delivery]:
    return _untried().where(Delivery.destination_id == destination.id).order_by(Delivery.id.desc()).limit(1)
