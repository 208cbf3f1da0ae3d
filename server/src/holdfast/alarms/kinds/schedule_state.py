"""The state stored by the schedules' tick. To avoid a dependency, its table is referenced only by name."""

from datetime import datetime

from sqlalchemy import column, select, table
from sqlalchemy.orm import Session

from holdfast.storage.types import UtcDateTime

_state = table(
    "schedule_state",
    column("last_tick_at", UtcDateTime),
    column("clock_jumped_at", UtcDateTime),
    column("clock_jumped_seconds"),
)


def last_tick(session: Session) -> datetime | None:
    """When the service last checked for due schedules; None if never."""
    return session.execute(select(_state.c.last_tick_at)).scalars().first()


def clock_jump(session: Session) -> tuple[datetime | None, int | None]:
    """When the clock was last found to have been set back, and by how many seconds."""
    row = session.execute(select(_state.c.clock_jumped_at, _state.c.clock_jumped_seconds)).first()
    return (row.clock_jumped_at, row.clock_jumped_seconds) if row is not None else (None, None)
