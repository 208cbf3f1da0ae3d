"""Queues the reports that are due, each once."""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from holdfast.kit import clock
from holdfast.notifications.deliver.render import report_body
from holdfast.notifications.events import grouping, rules
from holdfast.notifications.models import Delivery, Report, Severity
from holdfast.notifications.reports.findings import Sources, gather
from holdfast.notifications.reports.render import html_of, text_of
from holdfast.notifications.reports.times import next_time

PERIODS = {"daily": timedelta(days=1), "weekly": timedelta(days=7)}
LONGER = timedelta(days=1)
"""By how much a wait may exceed the period, when the time of day or the clocks change."""


def is_report_due(session: Session, now: datetime) -> bool:
    return session.scalar(select(Report.id).where(Report.enabled, _is_due(now)).limit(1)) is not None


def send_due(session: Session, sources: Sources) -> int:
    """Queue the due reports and set their next times, in one transaction. Several missed ones are sent as one."""
    now = clock.now()
    due = select(Report).where(Report.enabled, _is_due(now)).with_for_update(skip_locked=True)
    reports = session.scalars(due).all()
    for report in reports:
        _queue(session, report, sources)
        report.last_at = now
        report.next_at = next_time(report.at, report.timezone, report.weekday, now)
    return len(reports)


def _is_due(now: datetime) -> ColumnElement[bool]:
    """Whether a report is due, or its next time was set while the clock was ahead."""
    too_late = (
        and_(Report.period == period, Report.next_at > now + length + LONGER) for period, length in PERIODS.items()
    )
    return or_(Report.next_at <= now, *too_late)


def _queue(session: Session, report: Report, sources: Sources) -> None:
    now = clock.now()
    since = report.last_at if report.last_at is not None and report.last_at < now else now - PERIODS[report.period]
    findings = gather(session, report.scope, since, now, sources)
    title = f"{report.period.capitalize()} report {report.name}: {findings.summary}"
    text, html = text_of(title, findings), html_of(title, findings)
    data = {
        "subject": title,
        "summary": findings.summary,
        "is_well": findings.is_well,
        "since": findings.since.isoformat(),
        "until": findings.until.isoformat(),
        "repositories": [
            {
                "name": line.repository,
                "is_well": line.is_well,
                "last_success": line.last_success.isoformat() if line.last_success else None,
                "failed": line.failed,
                "missed": line.missed,
            }
            for line in findings.lines
        ],
    }
    severity = Severity.INFO if findings.is_well else Severity.WARNING
    for destination in rules.read_active(session).destinations_of(report.destination_ids):
        once = f"report:{report.id}:{destination.id}:{min(report.next_at, now).isoformat()}"
        if session.scalar(select(Delivery.id).where(Delivery.once == once)) is not None:
            continue
        delivery = grouping.add(session, destination.id, "report", [], now, now, severity=severity, once=once)
        delivery.body = report_body(title, text, html, delivery.uuid, now, data)
