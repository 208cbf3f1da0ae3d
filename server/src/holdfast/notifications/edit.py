"""Adds, changes and deletes destinations, rules and reports, each recorded in the audit log."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sqlalchemy import column, func, select, table
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.errors import Conflict, NotFound, Unprocessable
from holdfast.kit import clock, zones
from holdfast.notifications import errors
from holdfast.notifications.deliver import queue
from holdfast.notifications.destinations import Destinations
from holdfast.notifications.events import deleted_subjects
from holdfast.notifications.events.from_outbox import failing_key
from holdfast.notifications.events.quiet import DAYS
from holdfast.notifications.events.text import FIELDS, unknown_fields
from holdfast.notifications.models import Delivery, DeliveryState, Destination, Incident, Report, Rule, Severity
from holdfast.notifications.reports.times import next_time
from holdfast.notifications.schemas import DestinationChange, DestinationOptions, NewDestination, ReportBody, RuleBody
from holdfast.operations import outbox
from holdfast.storage.rows import require_row

MOST_DESTINATIONS, MOST_RULES, MOST_REPORTS = 50, 100, 50
Row = TypeVar("Row", Rule, Report)
Body = TypeVar("Body", RuleBody, ReportBody)
DEFAULT_RULE = "Failures, warnings and recoveries"


def add_destination(
    session: Session, caller: Caller, destinations: Destinations, wanted: NewDestination
) -> tuple[Destination, str | None]:
    _room(session, Destination, MOST_DESTINATIONS, "destinations")
    _name_free(session, Destination, wanted.name)
    _schedule_exists(session, wanted.options)
    destination, created = destinations.new(wanted)
    session.add(destination)
    session.flush()
    _record(session, caller, "notification_destination.created", destination, kind=destination.kind)
    return destination, created


def change_destination(
    session: Session, caller: Caller, destinations: Destinations, destination_id: int, wanted: DestinationChange
) -> tuple[Destination, str | None]:
    destination = require_destination(session, destination_id)
    created = None
    if wanted.name is not None:
        _name_free(session, Destination, wanted.name, destination_id)
        destination.name = wanted.name
    if wanted.options is not None:
        _schedule_exists(session, wanted.options)
        created = destinations.change(destination, wanted.options)
    if wanted.enabled is not None:
        destination.enabled = wanted.enabled
        destination.disabled_reason = None
    destination.updated_at = clock.now()
    changed = sorted(
        (wanted.options.model_fields_set if wanted.options else set()) | (wanted.model_fields_set - {"options"})
    )
    _record(session, caller, "notification_destination.changed", destination, changed=changed)
    return destination, created


def delete_destination(session: Session, caller: Caller, destination_id: int) -> None:
    destination = require_destination(session, destination_id)
    cancelled = queue.cancel_all(session, destination_id, clock.now())
    _record(session, caller, "notification_destination.deleted", destination, cancelled=cancelled)
    deleted_subjects.close(session, Incident.key == failing_key(destination_id), clock.now())
    session.delete(destination)


def add_default_rule(session: Session) -> None:
    """Add the rule of the first start: all changes of state, to every destination."""
    now = clock.now()
    session.add(
        Rule(
            name=DEFAULT_RULE,
            enabled=True,
            events=[],
            least_severity=int(Severity.WARNING),
            scope={},
            send="change",
            remind_hours=24,
            group_seconds=30,
            created_at=now,
            updated_at=now,
        )
    )


def retry(session: Session, caller: Caller, delivery_id: int) -> Delivery:
    """Send a failed delivery again, with the same id and the same text."""
    delivery = session.get(Delivery, delivery_id, with_for_update=True)
    if delivery is None:
        raise NotFound("notifications.no_such_delivery", "Delivery not found.", delivery_id=delivery_id)
    if delivery.state != DeliveryState.FAILED:
        raise Conflict(
            "notifications.not_failed",
            "Only failed deliveries can be retried. Nothing was changed.",
            state=delivery.state,
        )
    now = clock.now()
    delivery.state, delivery.ended_at = DeliveryState.WAITING, None
    delivery.next_attempt_at, delivery.first_attempt_at = now, None
    audit.note(session, caller, "notification_delivery.retried", "delivery", delivery_id)
    return delivery


def require_destination(session: Session, destination_id: int) -> Destination:
    found = session.get(Destination, destination_id)
    if found is None:
        raise NotFound("notifications.no_such_destination", "Destination not found.", destination_id=destination_id)
    return found


def _rule_values(session: Session, wanted: RuleBody) -> dict[str, Any]:
    _destinations_exist(session, wanted.destination_ids)
    template = wanted.template.model_dump(exclude_none=True) if wanted.template else None
    for text in (template or {}).values():
        if unknown := unknown_fields(text):
            raise errors.unknown_field(unknown[0], list(FIELDS))
    if wanted.quiet is not None:
        _timezone_exists(wanted.quiet.timezone)
    return {
        **wanted.model_dump(include={"name", "enabled", "events", "send", "remind_hours", "group_seconds"}),
        "least_severity": int(Severity.of(wanted.least_severity)),
        "scope": wanted.scope.stored(),
        "quiet": wanted.quiet.model_dump(by_alias=True) if wanted.quiet else None,
        "destination_ids": wanted.destination_ids,
        "template": template,
    }


def _report_values(session: Session, wanted: ReportBody) -> dict[str, Any]:
    _destinations_exist(session, wanted.destination_ids)
    _timezone_exists(wanted.timezone)
    weekday = DAYS.index(wanted.weekday or "mon") + 1 if wanted.period == "weekly" else None
    return {
        **wanted.model_dump(include={"name", "enabled", "period", "at", "timezone", "destination_ids"}),
        "weekday": weekday,
        "scope": wanted.scope.stored(),
        "next_at": next_time(wanted.at, wanted.timezone, weekday, clock.now()),
    }


@frozen
class Editor(Generic[Row, Body]):
    """Adds, replaces and deletes rows of one table whose fields the caller provides all at once."""

    table: type[Row]
    word: str
    most: int
    values: Callable[[Session, Body], dict[str, Any]]
    unknown: Callable[[int], NotFound]

    def add(self, session: Session, caller: Caller, wanted: Body) -> Row:
        _room(session, self.table, self.most, f"{self.word}s")
        values = self.values(session, wanted)
        _name_free(session, self.table, values["name"])
        now = clock.now()
        row = self.table(created_at=now, updated_at=now, **values)
        session.add(row)
        session.flush()
        self._record(session, caller, "created", row)
        return row

    def replace(self, session: Session, caller: Caller, row_id: int, wanted: Body) -> Row:
        row = require_row(session, self.table, row_id, self.unknown)
        values = self.values(session, wanted)
        _name_free(session, self.table, values["name"], row.id)
        for name, value in values.items():
            setattr(row, name, value)
        row.updated_at = clock.now()
        self._record(session, caller, "changed", row)
        return row

    def delete(self, session: Session, caller: Caller, row_id: int) -> None:
        row = require_row(session, self.table, row_id, self.unknown)
        self._record(session, caller, "deleted", row)
        session.delete(row)

    def _record(self, session: Session, caller: Caller, act: str, row: Row) -> None:
        _record(session, caller, f"notification_{self.word}.{act}", row)


def _destinations_exist(session: Session, wanted: list[int] | None) -> None:
    if wanted is None:
        return
    known = set(session.scalars(select(Destination.id)))
    if unknown := [each for each in wanted if each not in known]:
        raise Unprocessable(
            "notifications.unknown_destinations",
            "Some of these destinations do not exist. Nothing was changed.",
            destination_ids=unknown,
        )


def _schedule_exists(session: Session, options: DestinationOptions) -> None:
    if options.schedule_id is None:
        return
    known = select(_schedules.c.id).where(_schedules.c.id == options.schedule_id, _schedules.c.deleted_at.is_(None))
    if session.scalar(known) is None:
        raise errors.bad_option("schedule_id", "Schedule not found.")


_schedules = table("schedules", column("id"), column("deleted_at"))
"""Known here only by name."""


def _timezone_exists(name: str) -> None:
    if name not in zones.known():
        raise Unprocessable(
            "notifications.unknown_timezone",
            "Unknown time zone. Use an IANA name such as Europe/Berlin.",
            timezone=name,
        )


def _name_free(session: Session, table: Any, name: str, own_id: int | None = None) -> None:
    taken = session.scalar(select(table.id).where(table.name == name))
    if taken is not None and taken != own_id:
        raise Conflict(
            "notifications.name_taken",
            "This name is already taken. Nothing was changed; choose another name.",
            name=name,
        )


def _room(session: Session, table: Any, most: int, what: str) -> None:
    if (session.scalar(select(func.count()).select_from(table)) or 0) >= most:
        raise Conflict(
            "notifications.too_many", f"The limit of {most} {what} has been reached. Delete one first.", most=most
        )


def _record(session: Session, caller: Caller, action: str, row: Any, **details: Any) -> None:
    what = action.split(".")[0]
    audit.note(session, caller, action, what, row.id, {"name": row.name, **details})
    outbox.publish_for_admins(
        session, "notification.updated", [{"what": what.removeprefix("notification_"), "id": row.id}]
    )


def _no_rule(rule_id: int) -> NotFound:
    return NotFound("notifications.no_such_rule", "Rule not found.", rule_id=rule_id)


def _no_report(report_id: int) -> NotFound:
    return NotFound("notifications.no_such_report", "Report not found.", report_id=report_id)


RULES = Editor(Rule, "rule", MOST_RULES, _rule_values, _no_rule)
REPORTS = Editor(Report, "report", MOST_REPORTS, _report_values, _no_report)
