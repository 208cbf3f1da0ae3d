"""All statements on schedules, their runs, blackouts and the state shared by all processes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from backup_engine.frozen import frozen
from holdfast.agents.labels import together
from holdfast.agents.models import AgentMachine
from holdfast.kit import cursor
from holdfast.repositories.models import Repository
from holdfast.schedules.models import STATE_ROW, Blackout, Outcome, Schedule, ScheduleRun, ScheduleState, WaitingFor
from holdfast.storage.bulk import ByIds, flushed_connection, objects, plain
from holdfast.storage.inserts import conflict_aware_insert
from holdfast.storage.rows import change_rows

AT_ONCE = 500
"""Maximum number of values in one statement: SQLite accepts no more than a few thousand."""

# --- schedules ----------------------------------------------------------------------------------------------------


def get(session: Session, schedule_id: int) -> Schedule | None:
    """Return the schedule, unless it was deleted."""
    found = session.get(Schedule, schedule_id) if 0 < schedule_id < 2**63 else None
    return found if found is not None and found.deleted_at is None else None


def get_even_deleted(session: Session, schedule_id: int) -> Schedule | None:
    return session.get(Schedule, schedule_id) if 0 < schedule_id < 2**63 else None


def lock(session: Session, schedule_id: int) -> Schedule | None:
    """Return the current schedule, locked until the transaction ends: due times come before or after, never between."""
    if not 0 < schedule_id < 2**63:
        return None
    statement = select(Schedule).where(Schedule.id == schedule_id, Schedule.deleted_at.is_(None))
    return session.scalars(statement.with_for_update().execution_options(populate_existing=True)).first()


def by_name(session: Session, name: str) -> Schedule | None:
    return session.scalars(select(Schedule).where(Schedule.name == name, Schedule.deleted_at.is_(None))).first()


def has_uuid(session: Session, uuid: str) -> bool:
    """Whether a schedule has this uuid, including deleted ones."""
    return session.scalar(select(Schedule.id).where(Schedule.uuid == uuid)) is not None


def listed(session: Session) -> list[Schedule]:
    return list(session.scalars(select(Schedule).where(Schedule.deleted_at.is_(None)).order_by(Schedule.name)))


def enabled(session: Session) -> list[Schedule]:
    """Return the schedules that have due times."""
    statement = select(Schedule).where(Schedule.deleted_at.is_(None), Schedule.enabled.is_(True))
    return list(session.scalars(statement.order_by(Schedule.id)))


def enabled_as_values(session: Session) -> Sequence[Schedule]:
    """The same as read-only values in no order: targets, steps and next due times."""
    return cast("Sequence[Schedule]", objects(flushed_connection(session).execute(_ENABLED)))


_ENABLED = select(
    *plain(
        Schedule.id,
        Schedule.targets,
        Schedule.exclude_repository_ids,
        Schedule.steps,
        Schedule.spread_minutes,
        Schedule.longest_gap_seconds,
        Schedule.next_due_at,
    )
).where(Schedule.deleted_at.is_(None), Schedule.enabled.is_(True))


def script_steps(session: Session) -> list[tuple[Schedule, dict[str, Any]]]:
    """Return all steps of schedules that run a script."""
    return [(schedule, step) for schedule in listed(session) for step in schedule.steps if step.get("kind") == "script"]


def by_ids(session: Session, ids: Iterable[int]) -> dict[int, Schedule]:
    """Return schedules by id, including deleted ones."""
    found: dict[int, Schedule] = {}
    wanted = sorted(set(ids))
    for first in range(0, len(wanted), AT_ONCE):
        statement = select(Schedule).where(Schedule.id.in_(wanted[first : first + AT_ONCE]))
        found |= {schedule.id: schedule for schedule in session.scalars(statement)}
    return found


def insert(session: Session, schedule: Schedule) -> Schedule:
    session.add(schedule)
    session.flush()
    return schedule


# --- the state that processes share ---------------------------------------------------------------------------------


def state(session: Session) -> ScheduleState:
    """Return the single row of the state. Before the first tick or pause, it has only defaults."""
    found = session.get(ScheduleState, STATE_ROW, populate_existing=True)
    return found or ScheduleState(id=STATE_ROW, paused=False)


def change_state(session: Session, **values: Any) -> None:
    statement = conflict_aware_insert(session, ScheduleState).values(id=STATE_ROW, **{"paused": False, **values})
    session.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))


def last_tick_at(session: Session) -> datetime | None:
    return session.scalar(select(ScheduleState.last_tick_at).where(ScheduleState.id == STATE_ROW))


def note_tick(session: Session, now: datetime, milliseconds: int) -> None:
    """Record a tick, unless another process has recorded a later one."""
    values = {"last_tick_at": now, "last_tick_milliseconds": milliseconds}
    statement = conflict_aware_insert(session, ScheduleState).values(id=STATE_ROW, paused=False, **values)
    is_later = or_(ScheduleState.last_tick_at.is_(None), ScheduleState.last_tick_at < now)
    session.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values, where=is_later))


def is_paused(session: Session) -> bool:
    return bool(flushed_connection(session).scalar(_PAUSED))


_PAUSED = select(ScheduleState.paused).where(ScheduleState.id == STATE_ROW)


# --- blackouts --------------------------------------------------------------------------------------------------------


def blackouts(session: Session) -> list[Blackout]:
    return list(session.scalars(_BLACKOUTS))


def blackouts_as_values(session: Session) -> Sequence[Blackout]:
    """The same as read-only values."""
    return cast("Sequence[Blackout]", flushed_connection(session).execute(_BLACKOUT_ROWS).all())


_BLACKOUT_ROWS = select(Blackout.__table__).order_by(Blackout.first_day, Blackout.id)
_BLACKOUTS = select(Blackout).order_by(Blackout.first_day, Blackout.id)


def blackout(session: Session, blackout_id: int) -> Blackout | None:
    return session.get(Blackout, blackout_id) if 0 < blackout_id < 2**63 else None


# --- targets ----------------------------------------------------------------------------------------------------------


@frozen
class Target:
    """A repository as a possible target: its labels are its own plus its agent's."""

    id: int
    uuid: str
    name: str
    labels: dict[str, str]
    execution_target: str = "local"


def all_targets(session: Session, ids: Iterable[int] | None = None) -> list[Target]:
    """Return every repository with its labels, or those with these ids, ordered by id."""
    if ids is None:
        return _targets(session, None)
    wanted = sorted(set(ids))
    found: list[Target] = []
    for first in range(0, len(wanted), AT_ONCE):
        found += _targets(session, wanted[first : first + AT_ONCE])
    return found


def _targets(session: Session, ids: Sequence[int] | None) -> list[Target]:
    read = flushed_connection(session).execute(_TARGETS) if ids is None else _SOME_TARGETS.run(session, ids)
    found: Sequence[Any] = read.all()
    return [
        Target(number, uuid, name, together(labels, by_agent), target)
        for number, uuid, name, labels, by_agent, target in found
    ]


_OF_TARGET = plain(
    Repository.id,
    Repository.uuid,
    Repository.name,
    Repository.labels,
    AgentMachine.labels,
    Repository.execution_target,
)
_TARGETS = (
    select(*_OF_TARGET).outerjoin(AgentMachine, AgentMachine.id == Repository.agent_machine_id).order_by(Repository.id)
)
_SOME_TARGETS = ByIds(_TARGETS, Repository.id)


TargetsById = Mapping[int, Target]
"""Repositories by id, in the order of their ids."""


def every_target(session: Session, ids: Iterable[int] | None = None) -> TargetsById:
    return {target.id: target for target in all_targets(session, ids)}


def matching(schedule: Schedule, known: TargetsById) -> list[Target]:
    """Return which of the known repositories the schedule works on. If it names them, only those are examined."""
    left_out = set(schedule.exclude_repository_ids or ())
    targets = schedule.targets or {}
    if targets.get("all"):
        chosen: Iterable[Target] = known.values()
    elif (labels := targets.get("labels")) is not None:
        wanted = labels.items()
        chosen = (target for target in known.values() if wanted and wanted <= target.labels.items())
    else:
        named = sorted(set(targets.get("repository_ids") or ()))
        chosen = (known[number] for number in named if number in known)
    return [target for target in chosen if target.id not in left_out]


def targets_of(session: Session, schedule: Schedule) -> list[Target]:
    """Return the current targets of a schedule. If it names them, no others are read."""
    return matching(schedule, every_target(session, (schedule.targets or {}).get("repository_ids")))


# --- runs -------------------------------------------------------------------------------------------------------------


def run(session: Session, run_row_id: int) -> ScheduleRun | None:
    return session.get(ScheduleRun, run_row_id) if 0 < run_row_id < 2**63 else None


@frozen
class RunFilter:
    """The restrictions on a list of runs. None or empty means: no restriction."""

    schedule_ids: tuple[int, ...] = ()
    repository_ids: frozenset[int] | None = None
    outcomes: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        conditions: list[ColumnElement[bool]] = [ScheduleRun.voided_at.is_(None)]
        if self.schedule_ids:
            conditions.append(ScheduleRun.schedule_id.in_(self.schedule_ids))
        if self.repository_ids is not None:
            conditions.append(ScheduleRun.repository_id.in_(sorted(self.repository_ids)))
        if self.outcomes:
            conditions.append(ScheduleRun.outcome.in_(self.outcomes))
        if self.since is not None:
            conditions.append(func.coalesce(ScheduleRun.due_until, ScheduleRun.due_at) >= self.since)
        if self.until is not None:
            conditions.append(ScheduleRun.due_at < self.until)
        return conditions


def page(session: Session, narrowed: RunFilter, limit: int, after: str | None) -> tuple[list[ScheduleRun], str | None]:
    """Return the newest matching runs, and the cursor of the next page."""
    statement = select(ScheduleRun).where(*narrowed.conditions()).order_by(ScheduleRun.id.desc()).limit(limit + 1)
    if after:
        statement = statement.where(ScheduleRun.id < int(cursor.decode(after, int)[0]))
    rows = list(session.scalars(statement))
    following = cursor.encode(rows[limit - 1].id) if len(rows) > limit else None
    return rows[:limit], following


def in_span(session: Session, narrowed: RunFilter, columns: Sequence[str], most: int) -> Sequence[Any]:
    """Return these columns of runs by due time, oldest first."""
    statement = select(*(getattr(ScheduleRun, name) for name in columns)).where(*narrowed.conditions())
    ordered = statement.order_by(ScheduleRun.due_at, ScheduleRun.id).limit(most)
    return flushed_connection(session).execute(ordered).all()


def waiting_of(session: Session, schedule_id: int) -> list[ScheduleRun]:
    """Return the runs of a schedule that have not been released yet, oldest due time first."""
    statement = select(ScheduleRun).where(
        ScheduleRun.schedule_id == schedule_id,
        ScheduleRun.settled_at.is_(None),
        ScheduleRun.outcome == Outcome.WAITING,
    )
    return list(session.scalars(statement.order_by(ScheduleRun.due_at, ScheduleRun.id)))


def open_repositories(session: Session, schedule_id: int) -> list[int]:
    """Return the repositories for which a run of a schedule is waiting or has not ended."""
    statement = select(ScheduleRun.repository_id).where(
        ScheduleRun.schedule_id == schedule_id, ScheduleRun.settled_at.is_(None)
    )
    return list(session.scalars(statement))


def oldest_waiting(
    session: Session, schedule_ids: Sequence[int], repositories: frozenset[int] | None, most: int
) -> list[ScheduleRun]:
    """Return the oldest unreleased runs of each schedule, for repositories that the caller may see."""
    found: list[ScheduleRun] = []
    place = func.row_number().over(partition_by=ScheduleRun.schedule_id, order_by=(ScheduleRun.due_at, ScheduleRun.id))
    for conditions in _waiting(schedule_ids, repositories):
        placed = select(ScheduleRun.id, place.label("place")).where(*conditions).subquery()
        statement = select(ScheduleRun).join(placed, placed.c.id == ScheduleRun.id).where(placed.c.place <= most)
        found += session.scalars(statement.order_by(ScheduleRun.due_at, ScheduleRun.id))
    return found


def count_waiting(session: Session, schedule_ids: Sequence[int], repositories: frozenset[int] | None) -> dict[int, int]:
    """Return how many runs of each schedule have not been released yet."""
    found: dict[int, int] = {}
    for conditions in _waiting(schedule_ids, repositories):
        counted = select(ScheduleRun.schedule_id, func.count()).where(*conditions).group_by(ScheduleRun.schedule_id)
        found |= {row[0]: row[1] for row in session.execute(counted)}
    return found


def _waiting(schedule_ids: Sequence[int], repositories: frozenset[int] | None) -> Iterable[list[Any]]:
    for first in range(0, len(schedule_ids), AT_ONCE):
        conditions = [
            ScheduleRun.schedule_id.in_(schedule_ids[first : first + AT_ONCE]),
            ScheduleRun.settled_at.is_(None),
            ScheduleRun.outcome == Outcome.WAITING,
        ]
        if repositories is not None:
            conditions.append(ScheduleRun.repository_id.in_(sorted(repositories)))
        yield conditions


def unended_of(session: Session, schedule_id: int) -> list[ScheduleRun]:
    """Return the runs of a schedule that were released and have not ended."""
    statement = select(ScheduleRun).where(
        ScheduleRun.schedule_id == schedule_id,
        ScheduleRun.settled_at.is_(None),
        ScheduleRun.outcome == Outcome.RAN,
    )
    return list(session.scalars(statement.order_by(ScheduleRun.id)))


def unended_beside(session: Session, row_ids: Sequence[int]) -> dict[tuple[int, int], ScheduleRun]:
    """Return released runs that have not ended, of the same schedules and repositories as these rows, by both ids.

    Each row is looked up separately: for a join, or two lists of ids, the store would read all open rows or try every
    pair of ids.
    """
    found = _NEWEST_BESIDE.run(session, row_ids).scalars()
    if not (ids := {number for number in found if number is not None}):
        return {}
    runs = session.scalars(select(ScheduleRun).where(ScheduleRun.id.in_(ids)))
    return {(run.schedule_id, run.repository_id): run for run in runs}


_row = aliased(ScheduleRun)
_newest = select(func.max(ScheduleRun.id)).where(
    ScheduleRun.schedule_id == _row.schedule_id,
    ScheduleRun.repository_id == _row.repository_id,
    ScheduleRun.settled_at.is_(None),
    ScheduleRun.outcome == Outcome.RAN,
)
_NEWEST_BESIDE = ByIds(select(_newest.correlate(_row).scalar_subquery()), _row.id)


def has_open(session: Session, places: Collection[tuple[int, int]]) -> bool:
    """Whether any run of these pairs of schedule and repository is waiting or has not ended."""
    connection = flushed_connection(session)
    if connection.dialect.name == "sqlite":
        ids = [schedule_id for schedule_id, _ in places]
        return any(found is not None for found in _OPEN_ONES.run(session, ids).scalars())
    schedules, repositories = ("{" + ",".join(map(str, ids)) + "}" for ids in zip(*places, strict=True))
    return connection.exec_driver_sql(_ANY_OPEN, (schedules, repositories)).first() is not None


_open_one = select(func.min(ScheduleRun.repository_id)).where(
    ScheduleRun.schedule_id == Schedule.id, ScheduleRun.settled_at.is_(None)
)
_OPEN_ONES = ByIds(select(_open_one.correlate(Schedule).scalar_subquery()), Schedule.id)
# Each pair is looked up separately, by both columns of the index. The server has no statistics on rows that were just
# written, and would otherwise read all open ones.
_ANY_OPEN = """SELECT 1 FROM unnest(%s::bigint[], %s::bigint[]) AS given(schedule_id, repository_id)
WHERE (SELECT count(*) FROM schedule_runs AS run WHERE run.schedule_id = given.schedule_id
AND run.repository_id = given.repository_id AND run.settled_at IS NULL) > 0 LIMIT 1"""


def look_now(session: Session, places: Iterable[tuple[int, int]], waiting_for: str, now: datetime) -> None:
    """Have waiting runs of these schedules and repositories judged now, because what they waited for has happened."""
    for schedule_id, repository_id in sorted(places):
        session.execute(
            update(ScheduleRun)
            .where(
                ScheduleRun.schedule_id == schedule_id,
                ScheduleRun.repository_id == repository_id,
                ScheduleRun.settled_at.is_(None),
                ScheduleRun.waiting_for == waiting_for,
                ScheduleRun.look_at > now,
            )
            .values(look_at=now)
            .execution_options(synchronize_session=False)
        )


def agents_came_online(session: Session, agent_ids: Sequence[int], now: datetime) -> int:
    """Have runs that wait for one of these agents judged now; return how many."""
    theirs = select(Repository.id).where(Repository.agent_machine_id.in_(agent_ids))
    woken = change_rows(
        session,
        ScheduleRun,
        ScheduleRun.settled_at.is_(None),
        ScheduleRun.waiting_for == WaitingFor.MACHINE,
        ScheduleRun.repository_id.in_(theirs),
        ScheduleRun.look_at > now,
        look_at=now,
    )
    return len(woken)


def newest_of(
    session: Session, schedule_ids: Sequence[int], repositories: frozenset[int] | None
) -> dict[int, ScheduleRun]:
    """Return the newest released run of each schedule, for repositories that the caller may see."""
    newest: dict[int, ScheduleRun] = {}
    for first in range(0, len(schedule_ids), AT_ONCE):
        conditions = [
            ScheduleRun.schedule_id.in_(schedule_ids[first : first + AT_ONCE]),
            ScheduleRun.outcome == Outcome.RAN,
            ScheduleRun.voided_at.is_(None),
        ]
        if repositories is not None:
            conditions.append(ScheduleRun.repository_id.in_(sorted(repositories)))
        ids = select(func.max(ScheduleRun.id)).where(*conditions).group_by(ScheduleRun.schedule_id)
        newest |= {row.schedule_id: row for row in session.scalars(select(ScheduleRun).where(ScheduleRun.id.in_(ids)))}
    return newest


def results_of(session: Session, run_ids: Iterable[str], repositories: frozenset[int] | None) -> dict[str, set[str]]:
    """Return how the repositories of each run have ended so far, for repositories that the caller may see."""
    found: dict[str, set[str]] = {}
    wanted = sorted(set(run_ids))
    for first in range(0, len(wanted), AT_ONCE):
        statement = select(ScheduleRun.run_id, ScheduleRun.result).where(
            ScheduleRun.run_id.in_(wanted[first : first + AT_ONCE]),
            ScheduleRun.result.is_not(None),
            ScheduleRun.voided_at.is_(None),
        )
        if repositories is not None:
            statement = statement.where(ScheduleRun.repository_id.in_(sorted(repositories)))
        for run_id, result in session.execute(statement.distinct()):
            found.setdefault(run_id or "", set()).add(result or "")
    return found


def forget_old(session: Session, before: datetime) -> int:
    """Delete runs that ended before this time."""
    gone = session.execute(delete(ScheduleRun).where(ScheduleRun.settled_at < before).returning(ScheduleRun.id)).all()
    return len(gone)
