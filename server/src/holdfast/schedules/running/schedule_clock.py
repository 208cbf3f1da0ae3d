"""The current time for schedules, and recovery from a wrong clock."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from holdfast.kit import clock, zones
from holdfast.operations import outbox
from holdfast.schedules.calendar import plan
from holdfast.schedules.models import STATE_ROW, Mode, Origin, Outcome, Schedule, ScheduleRun, ScheduleState
from holdfast.schedules.running.plans import calendar_of

log = structlog.get_logger("holdfast.schedules")

JUMP = timedelta(minutes=1)
"""A clock that goes back by more than this was wrong before, or is wrong now."""
CLOCK_JUMPED: Final = "schedule.clock_jumped"


def now_of(session: Session) -> datetime:
    """Return the time of the store's own clock if it has one, so that all processes agree."""
    if session.get_bind().dialect.name == "postgresql":
        found: datetime = session.execute(text("SELECT clock_timestamp()")).scalar_one()
        return found.astimezone(UTC)
    return clock.now()


def went_back(last_tick_at: datetime | None, now: datetime) -> bool:
    return last_tick_at is not None and now < last_tick_at - JUMP


def repair(session: Session, read_clock: Callable[[], datetime]) -> bool:
    """After the clock went back, void rows whose due time has not come yet, and recompute all calendars.

    Return whether this process did it. The clock is read under the lock, because another process may have ticked while
    this one waited for it.
    """
    state = session.scalars(select(ScheduleState).where(ScheduleState.id == STATE_ROW).with_for_update()).first()
    now = read_clock()
    if state is None or not went_back(state.last_tick_at, now):
        return False
    assert state.last_tick_at is not None
    seconds = int((state.last_tick_at - now).total_seconds())
    log.warning("the clock went back", seconds=seconds)
    session.execute(
        update(ScheduleRun)
        .where(
            func.coalesce(ScheduleRun.due_until, ScheduleRun.due_at) > now,
            ScheduleRun.voided_at.is_(None),
            ScheduleRun.origin != Origin.MANUAL,
        )
        .values(voided_at=now)
        .execution_options(synchronize_session=False)
    )
    session.execute(
        update(ScheduleRun)
        .where(ScheduleRun.voided_at == now, ScheduleRun.outcome == Outcome.WAITING)
        .values(look_at=None, waiting_for=None, settled_at=now)
        .execution_options(synchronize_session=False)
    )
    for schedule in session.scalars(select(Schedule).where(Schedule.next_due_at.is_not(None)).with_for_update()):
        recompute(session, schedule, now)
    session.execute(
        update(ScheduleState)
        .where(ScheduleState.id == STATE_ROW)
        .values(last_tick_at=now, clock_jumped_at=now, clock_jumped_seconds=seconds)
    )
    outbox.publish(session, CLOCK_JUMPED, {"seconds": seconds}, repository_id=None)
    return True


def recompute(session: Session, schedule: Schedule, now: datetime) -> None:
    """Find the next due time without a row: after the last one that has a row, or after the last change."""
    schedule.tz_version = zones.VERSION
    if schedule.schedule_mode == Mode.AVAILABILITY:
        schedule.next_due_at = now
        return
    last = session.scalar(
        select(func.max(func.coalesce(ScheduleRun.due_until, ScheduleRun.due_at))).where(
            ScheduleRun.schedule_id == schedule.id,
            ScheduleRun.origin == Origin.CALENDAR,
            ScheduleRun.voided_at.is_(None),
        )
    )
    counted = [moment for moment in (last, schedule.updated_at) if moment is not None and moment <= now]
    try:
        schedule.next_due_at = plan.next_due(calendar_of(schedule), max(counted, default=now))
    except ValueError:
        log.exception("the calendar of a schedule cannot be read", schedule_id=schedule.id)


def adopt_zones(session: Session, now: datetime, most: int = 200) -> int:
    """Recompute due times that were computed with other time zone data; return the number of schedules."""
    stale = (
        select(Schedule)
        .where(Schedule.next_due_at.is_not(None), func.coalesce(Schedule.tz_version, "") != zones.VERSION)
        .order_by(Schedule.id)
        .limit(most)
        .with_for_update()
    )
    found = session.scalars(stale).all()
    for schedule in found:
        recompute(session, schedule, now)
    return len(found)
