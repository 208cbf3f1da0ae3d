"""The responses for notifications."""

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
    return DestinationAnswer.from_row(
        destination,
        options=destinations.shown(destination),
        secret_options=destinations.secret_names(destination),
        waiting=session.scalar(waiting) or 0,
        new_secret=new_secret,
    )


def rule_answer(rule: Rule) -> RuleAnswer:
    return RuleAnswer(**{**_columns(rule), "least_severity": Severity(rule.least_severity).word})


def report_answer(report: Report) -> ReportAnswer:
    weekday = DAYS[report.weekday - 1] if report.weekday else None
    return ReportAnswer(**{**_columns(report), "weekday": weekday})


def delivery_answer(delivery: Delivery, destination: str | None) -> DeliveryAnswer:
    is_over = delivery.state not in WAITING
    return DeliveryAnswer.from_row(
        delivery,
        destination=destination,
        severity=Severity(delivery.severity).word,
        subject=(delivery.body or {}).get("subject"),
        next_attempt_at=None if is_over else delivery.next_attempt_at,
    )


def _columns(row: Any) -> dict[str, Any]:
    return {column.name: getattr(row, column.name) for column in row.__table__.columns}
