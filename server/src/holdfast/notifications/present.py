"""Notifications as answers."""

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from holdfast.notifications.destinations import Destinations
from holdfast.notifications.events.quiet import DAYS
from holdfast.notifications.models import Delivery, DeliveryState, Destination, Report, Rule, Severity
from holdfast.notifications.schemas import DeliveryAnswer, DestinationAnswer, ReportAnswer, RuleAnswer

WAITING = (DeliveryState.WAITING, DeliveryState.SENDING)


def destination_answer(
    session: Session, destinations: Destinations, destination: Destination, new_secret: str | None = None
) -> DestinationAnswer:
    waiting = select(func.count()).where(Delivery.destination_id == destination.id, Delivery.state.in_(WAITING))
    return DestinationAnswer(
        id=destination.id,
        name=destination.name,
        kind=destination.kind,
        enabled=destination.enabled,
        disabled_reason=destination.disabled_reason,
        options=destinations.shown(destination),
        secret_options=destinations.secret_names(destination),
        waiting=session.scalar(waiting) or 0,
        last_sent_at=destination.last_sent_at,
        failing_since=destination.failing_since,
        last_error=destination.last_error,
        created_at=destination.created_at,
        updated_at=destination.updated_at,
        new_secret=new_secret,
    )


def rule_answer(rule: Rule) -> RuleAnswer:
    return RuleAnswer(**{**_columns(rule), "least_severity": Severity(rule.least_severity).word})


def report_answer(report: Report) -> ReportAnswer:
    weekday = DAYS[report.weekday - 1] if report.weekday else None
    return ReportAnswer(**{**_columns(report), "weekday": weekday})


def delivery_answer(delivery: Delivery, destination: str | None) -> DeliveryAnswer:
    is_over = delivery.state not in WAITING
    return DeliveryAnswer(
        id=delivery.id,
        uuid=delivery.uuid,
        destination_id=delivery.destination_id,
        destination=destination,
        rule_id=delivery.rule_id,
        type=delivery.type,
        severity=Severity(delivery.severity).word,
        subject=(delivery.body or {}).get("subject"),
        items=delivery.items,
        more=delivery.more,
        state=delivery.state,
        attempts=delivery.attempts,
        created_at=delivery.created_at,
        next_attempt_at=None if is_over else delivery.next_attempt_at,
        ended_at=delivery.ended_at,
        last_error=delivery.last_error,
    )


def _columns(row: Any) -> dict[str, Any]:
    return {column.name: getattr(row, column.name) for column in row.__table__.columns}
