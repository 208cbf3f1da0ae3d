"""Past and planned work within a time span, as compact rows for a chart of days or weeks."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from holdfast.kit.clock import with_offset
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.operations.transitions import INLINE_EXECUTOR
from holdfast.schedules import overview as schedules
from holdfast.schedules.calendar.entries import Span
from holdfast.schedules.visible_schedules import VisibleSchedules

MOST_ROWS = 10_000
MOST_DAYS = 62
LONGEST = timedelta(days=14)
"""Ended operations are found by their creation time; none is expected to take longer than this."""
PLANNED = "planned"

Row = list[int | str | None]
"""An operation: id, kind, repository, status, start, end. A planned run has no id and no end."""


def read(
    session: Session,
    seen: VisibleSchedules,
    span: Span,
    now: datetime,
    categories: Iterable[str],
    *,
    of_repositories_only: bool,
) -> tuple[list[Row], bool]:
    """Return the rows of the span, oldest start first, and whether some were omitted."""
    operations = select(
        Operation.id,
        Operation.kind,
        Operation.repository_id,
        Operation.status,
        Operation.started_at,
        Operation.completed_at,
    ).where(*_within(span, seen, list(categories), of_repositories_only=of_repositories_only))
    newest = operations.order_by(Operation.created_at.desc(), Operation.id.desc()).limit(MOST_ROWS + 1)
    ran: list[Row] = [
        [number, kind, repository, status, *(with_offset(each) if each else None for each in (start, end))]
        for number, kind, repository, status, start, end in session.execute(newest)
    ]
    ran.sort(key=lambda row: str(row[4]))
    to_come = Span(max(span.since, now), span.until)
    planned: list[Row] = [
        [None, kind, repository, PLANNED, with_offset(start), None]
        for start, kind, repository in schedules.planned(session, seen, to_come, MOST_ROWS + 1)
    ]
    rows = [*ran[-MOST_ROWS:], *planned]
    return rows[:MOST_ROWS], len(ran) > MOST_ROWS or len(rows) > MOST_ROWS


def _within(
    span: Span, seen: VisibleSchedules, categories: list[str], *, of_repositories_only: bool
) -> Iterable[ColumnElement[bool]]:
    yield Operation.created_at >= span.since - LONGEST
    yield Operation.created_at <= span.until
    yield Operation.started_at <= span.until
    yield or_(Operation.completed_at >= span.since, Operation.status == Status.RUNNING)
    yield Operation.executor != INLINE_EXECUTOR
    yield Operation.category.in_(categories) if categories else Operation.category != "index"
    if seen.visible is not None:
        yield Operation.repository_id.in_(seen.visible)
    elif of_repositories_only:
        yield Operation.repository_id.is_not(None)
