"""Closes, without a message, the incidents of subjects that were deleted: they can no longer recover."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, and_, column, exists, or_, select, table, update
from sqlalchemy.orm import Session

from holdfast.notifications.events.from_outbox import AGENT
from holdfast.notifications.models import Incident
from holdfast.operations.models import OutboxEntry
from holdfast.repositories.models import Repository

REPOSITORY, SCHEDULE = "repository.updated", "schedule.updated"
TOPICS = frozenset({REPOSITORY, SCHEDULE, AGENT})

_schedules = table("schedules", column("id"), column("deleted_at"))
"""Known here only by name."""
_OF_NO_REPOSITORY = and_(Incident.repository_id.is_not(None), ~exists().where(Repository.id == Incident.repository_id))


def close_incidents(session: Session, rows: Sequence[OutboxEntry], now: datetime) -> None:
    """Close the incidents of repositories, schedules and agents, if any of the rows reports a deletion."""
    topics = {row.topic for row in rows}
    agents = [f"agent:{row.payload.get('id')}" for row in rows if row.topic == AGENT and row.payload.get("deleted")]
    which: list[ColumnElement[bool]] = [Incident.key.in_(agents)] if agents else []
    if REPOSITORY in topics:
        which.append(_OF_NO_REPOSITORY)
    if SCHEDULE in topics:  # its rows do not name the schedule
        which += [Incident.key.startswith(f"schedule:{number}:") for number in _deleted_schedules(session)]
    if which:
        close(session, or_(*which), now)


def close(session: Session, which: ColumnElement[bool], now: datetime) -> None:
    closing = update(Incident).where(Incident.closed_at.is_(None), which).values(closed_at=now, remind_at=None)
    session.execute(closing.execution_options(synchronize_session=False))


def _deleted_schedules(session: Session) -> Sequence[int]:
    """Return the deleted schedules that have an open incident."""
    keys = session.scalars(
        select(Incident.key).where(Incident.closed_at.is_(None), Incident.key.startswith("schedule:"))
    )
    numbers = {int(number) for key in keys if (number := key.split(":")[1]).isdigit()}
    deleted = select(_schedules.c.id).where(_schedules.c.id.in_(numbers), _schedules.c.deleted_at.is_not(None))
    return session.scalars(deleted).all() if numbers else []
