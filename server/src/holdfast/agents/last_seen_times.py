"""Stores when agents last connected, in a few rows for all of them.

As a column, the times of ten thousand agents and their index entries were rewritten every minute: half a megabyte per
second for an idle fleet. Here a time takes four bytes, and a thousand agents share a row. Times only move forward, so
several processes may write independently; times of the future, recorded while the clock was ahead, are replaced.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from holdfast.agents.models import AgentMachine, AgentTimes
from holdfast.kit import clock
from holdfast.storage.inserts import conflict_aware_insert

AGENTS_IN_A_ROW = 1024
TIMES = struct.Struct(f"<{AGENTS_IN_A_ROW}I")
NEVER = TIMES.pack(*[0] * AGENTS_IN_A_ROW)

_ALL = select(AgentTimes.number, AgentTimes.seconds)
_ONE = select(AgentTimes.seconds).where(AgentTimes.number == bindparam("wanted"))
_LOCKED = _ONE.with_for_update()
_WRITE = update(AgentTimes).where(AgentTimes.number == bindparam("wanted")).values(seconds=bindparam("times"))


def store_times(session: Session, heard: Mapping[int, datetime]) -> None:
    """Store when agents last connected, by agent id. Later times already in the store are kept."""
    rows: dict[int, dict[int, int]] = defaultdict(dict)
    for agent_id, moment in heard.items():
        number, place = divmod(agent_id, AGENTS_IN_A_ROW)
        rows[number][place] = int(moment.timestamp())
    for number, places in sorted(rows.items()):
        _forward(session, number, places)


def all_agents(session: Session) -> dict[int, datetime]:
    """When each agent last connected according to this table, to the second."""
    return {
        number * AGENTS_IN_A_ROW + place: _moment(seconds)
        for number, times in session.connection().execute(_ALL)
        for place, seconds in enumerate(TIMES.unpack(times))
        if seconds
    }


def one(session: Session, agent_id: int) -> datetime | None:
    number, place = divmod(agent_id, AGENTS_IN_A_ROW)
    times = session.connection().execute(_ONE, {"wanted": number}).scalar_one_or_none()
    seconds = TIMES.unpack(times)[place] if times is not None else 0
    return _moment(seconds) if seconds else None


def latest(moments: Iterable[datetime | None]) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)


def is_any_ahead(session: Session, recorded: Mapping[int, datetime], now: datetime) -> bool:
    """Whether a time in an agent's row, or one of those recorded here, is of the future."""
    latest = now + clock.WENT_BACK
    if any(moment > latest for moment in recorded.values()):
        return True
    return session.scalar(select(AgentMachine.id).where(AgentMachine.last_seen_at > latest).limit(1)) is not None


def clip(session: Session, now: datetime) -> None:
    """Replace times of the future with the current one, from which on silence counts."""
    latest = now + clock.WENT_BACK
    session.execute(update(AgentMachine).where(AgentMachine.last_seen_at > latest).values(last_seen_at=now))
    ahead = [agent_id for agent_id, moment in all_agents(session).items() if moment > latest]
    store_times(session, dict.fromkeys(ahead, now))


def _forward(session: Session, number: int, places: Mapping[int, int]) -> None:
    connection = session.connection()
    connection.execute(
        conflict_aware_insert(session, AgentTimes).values(number=number, seconds=NEVER).on_conflict_do_nothing()
    )
    times = list(TIMES.unpack(connection.execute(_LOCKED, {"wanted": number}).scalar_one()))
    latest = int((clock.now() + clock.WENT_BACK).timestamp())
    for place, seconds in places.items():
        times[place] = seconds if times[place] > latest else max(times[place], seconds)
    connection.execute(_WRITE, {"wanted": number, "times": TIMES.pack(*times)})


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
