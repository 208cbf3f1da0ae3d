"""The first half of the tick: writes a run row for every due time of every target."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.kit import zones
from holdfast.kit.request_priority import give_way
from holdfast.repositories.evidence_times import unless_ahead
from holdfast.repositories.models import Repository
from holdfast.schedules import store
from holdfast.schedules.calendar import availability, plan, spread
from holdfast.schedules.models import (
    NO_REPOSITORY,
    STATE_ROW,
    Mode,
    Origin,
    Outcome,
    Reason,
    Schedule,
    ScheduleRun,
    ScheduleState,
    WaitingFor,
)
from holdfast.schedules.running import final_states
from holdfast.schedules.running.plans import InBlackout, blackout_check, calendar_of, check_interval, run_id_of
from holdfast.schedules.running.row_facts import Places, places
from holdfast.schedules.running.run_decisions import End, too_late
from holdfast.schedules.running.steps import needs_backup
from holdfast.schedules.store import Target
from holdfast.storage.bulk import flushed_connection, insert_many, objects, plain, update_many

log = structlog.get_logger("holdfast.schedules")

UNREADABLE = (ValueError, KeyError, TypeError, AssertionError, OverflowError, AttributeError)
"""Errors caused by stored values that no route would accept. One such schedule must not hold up all others."""
LOOK_AGAIN = timedelta(minutes=15)
SCHEDULES_AT_ONCE = 500
ROWS_AT_ONCE = 500
MOST_PAST = 1000
"""If a schedule has more past due times than this, they become a single row for the span."""
MOST_PAST_ROWS = 50_000
"""The same applies if they would become more rows than this, over all its repositories."""


NO_STEPS: list[dict[str, Any]] = []
NO_OPTIONS: dict[str, Any] = {}
"""Shared by the written rows, so that each is converted to JSON only once."""
READ = plain(
    *(
        column
        for column in Schedule.__table__.c
        if column.name not in ("description", "tz_version", "created_by", "updated_at")
    )
)
"""The columns of a schedule that are needed here, read as plain rows."""


@dataclass(slots=True)
class Done:
    """What a transaction of the tick has done."""

    schedules: int = 0
    rows: int = 0
    more: bool = False
    """Whether there may be more to do."""


@frozen
class _Surroundings:
    """What applies to all schedules in this transaction."""

    now: datetime
    paused: bool
    in_blackout: InBlackout
    known: Mapping[int, Target]
    """Repositories by id; all of them if a schedule selects by labels."""
    places: Places | None
    """More about these repositories; None if `known` includes all of them."""
    calendars: dict[tuple[Any, ...], plan.Calendar] = field(default_factory=dict)
    next_times: dict[tuple[int, datetime], datetime | None] = field(default_factory=dict)

    def targets_of(self, schedule: Schedule) -> list[Target]:
        return store.matching(schedule, self.known)

    def calendar_of(self, schedule: Schedule) -> plan.Calendar:
        """Return the calendar of a schedule; schedules with the same pattern share it."""
        pattern = schedule.schedule_mode, schedule.cron_expression, schedule.timezone, schedule.interval_minutes
        key = (*pattern, schedule.starts_at)
        found = self.calendars.get(key)
        if found is None:
            found = self.calendars[key] = calendar_of(schedule)
        return found

    def next_due(self, calendar: plan.Calendar, after: datetime) -> datetime | None:
        """Return the next due time; schedules with the same pattern share the result."""
        key = (id(calendar), after)
        if key not in self.next_times:
            self.next_times[key] = plan.next_due(calendar, after)
        return self.next_times[key]


class AlreadyWritten(Exception):
    """A row that was to be written as released already exists."""


@frozen
class Due:
    """What a transaction is about to write: rows of schedules without an open run."""

    schedules: Mapping[int, Schedule]
    """With their next due times already set."""
    rows: list[dict[str, Any]]
    paused: bool
    in_blackout: InBlackout
    places: Places | None
    now: datetime


ReleaseImmediately = Callable[[Session, Due], list[dict[str, Any]]]
"""Queues the rows that may run; returns all rows as they are to be written, each with an id."""


def write_due_rows(
    session: Session,
    now: datetime,
    most: int = SCHEDULES_AT_ONCE,
    release_immediately: ReleaseImmediately | None = None,
) -> Done:
    """Write rows for due times of some schedules that have come, and set when those are due next, in one transaction.

    `most` limits the number of schedules and, beyond the first, of rows. Raise AlreadyWritten if rows that were
    released at once already exist; the caller must then not commit.
    """
    statement = (
        select(*READ)
        .where(Schedule.next_due_at <= now)
        .order_by(Schedule.next_due_at)  # the index order; with the id, PostgreSQL would sort all that are due
        .limit(min(most, SCHEDULES_AT_ONCE))
        .with_for_update(skip_locked=True)
    )
    schedules: Sequence[Schedule] = objects(flushed_connection(session).execute(statement))
    if not schedules:
        return Done()
    around = _surroundings(session, schedules, now)
    done = Done(more=len(schedules) == min(most, SCHEDULES_AT_ONCE))
    rows: list[dict[str, Any]] = []
    following: list[dict[str, Any]] = []
    for schedule in schedules:
        give_way()
        room = ROWS_AT_ONCE - len(rows)
        if room <= 0:
            done.more = True
            break
        try:
            missing, next_due_at = _rows_of(session, schedule, around)
        except UNREADABLE:
            log.exception("the calendar of a schedule cannot be read", schedule_id=schedule.id)
            missing, next_due_at = [], now + LOOK_AGAIN
        if len(missing) > ROWS_AT_ONCE:
            missing = _not_there(session, schedule.id, missing)
        rows += missing[:room]
        done.schedules += 1
        if len(missing) > room:
            done.more = True
            break
        following.append({"id": schedule.id, "next_due_at": next_due_at, "tz_version": zones.VERSION})
    done.rows = len(rows)
    has_open_runs = _supersede(session, schedules, rows, now)
    if rows:
        final_states.publish(session, {schedule.id: schedule.name for schedule in schedules}, rows)
        if release_immediately is not None and not has_open_runs:
            coming = {each["id"]: each["next_due_at"] for each in following}
            for schedule in schedules:
                schedule.next_due_at = coming.get(schedule.id, schedule.next_due_at)
            by_id = {schedule.id: schedule for schedule in schedules}
            rows = release_immediately(session, Due(by_id, rows, around.paused, around.in_blackout, around.places, now))
        written = insert_many(session, ScheduleRun, rows, unless_there=True)
        if written != len(rows) and any(row["outcome"] == Outcome.RAN for row in rows):
            raise AlreadyWritten
    update_many(session, Schedule, following)
    session.expire_all()
    return done


def _surroundings(session: Session, schedules: Sequence[Schedule], now: datetime) -> _Surroundings:
    ids: set[int] = set()
    for schedule in schedules:
        chosen = (schedule.targets or {}).get("repository_ids") or ()
        ids.update(number for number in chosen if isinstance(number, int))
    by_label = any("repository_ids" not in (schedule.targets or {}) for schedule in schedules)
    found = None if by_label else places(session, ids)
    known = found.targets if found is not None else store.every_target(session)
    in_blackout = blackout_check(store.blackouts_as_values(session))
    return _Surroundings(now, store.is_paused(session), in_blackout, known, found)


def _rows_of(
    session: Session, schedule: Schedule, around: _Surroundings
) -> tuple[list[dict[str, Any]], datetime | None]:
    """Return the rows of a schedule for all due times up to now, and the next due time after that."""
    targets = around.targets_of(schedule)
    if schedule.schedule_mode == Mode.AVAILABILITY:
        return _availability_rows(session, schedule, targets, around)
    calendar = around.calendar_of(schedule)
    first = schedule.next_due_at
    assert first is not None
    rows: list[dict[str, Any]] = []
    newest = first
    places: Sequence[Target | None] = targets or [None]
    following = around.next_due(calendar, first)
    if following is not None and following <= around.now:
        newest, rows = _past(schedule, calendar, first, targets, around)
        following = around.next_due(calendar, newest)
    rows += [_row(schedule, target, newest, around) for target in places]
    return rows, following


def _past(
    schedule: Schedule, calendar: plan.Calendar, first: datetime, targets: Sequence[Target], around: _Surroundings
) -> tuple[datetime, list[dict[str, Any]]]:
    """Several due times passed unnoticed: return the newest, and rows for the others."""
    past = [first, *plan.due_between(calendar, first, around.now, MOST_PAST + 1)]
    places: Sequence[Target | None] = targets or [None]
    if len(past) <= MOST_PAST + 1 and len(past) * len(places) <= MOST_PAST_ROWS:
        newest = past.pop()
        return newest, [_past_row(schedule, target, due, around) for due in past for target in places]
    newest = _newest_before(calendar, first, around.now)
    count = plan.count_between(calendar, first, newest)  # with the first, without the newest
    last = _newest_before(calendar, first, newest - timedelta(microseconds=1))
    return newest, [
        {**_past_row(schedule, target, first, around), "due_until": last, "due_count": count} for target in places
    ]


def _newest_before(calendar: plan.Calendar, first: datetime, until: datetime) -> datetime:
    """Return the last due time up to an instant, given that `first` is one."""
    back = timedelta(hours=1)
    while until - back > first:
        found = plan.due_between(calendar, until - back, until, MOST_PAST)
        if found:
            return found[-1]
        back *= 2
    return (plan.due_between(calendar, first, until, MOST_PAST) or [first])[-1]


def _row(schedule: Schedule, target: Target | None, due: datetime, around: _Surroundings) -> dict[str, Any]:
    """Return the row of a due time that is to run, or that a rule has already ended."""
    if target is None:
        return _ended_row(schedule, None, due, Outcome.SKIPPED, Reason.NO_TARGETS, around.now)
    if reason := _rule_against(schedule, target, due, around):
        return _ended_row(schedule, target, due, Outcome.SKIPPED, reason, around.now)
    return _waiting_row(schedule, target, due, Origin.CALENDAR)


def _past_row(schedule: Schedule, target: Target | None, due: datetime, around: _Surroundings) -> dict[str, Any]:
    if target is None:
        return _ended_row(schedule, None, due, Outcome.SKIPPED, Reason.NO_TARGETS, around.now)
    if reason := _rule_against(schedule, target, due, around):
        return _ended_row(schedule, target, due, Outcome.SKIPPED, reason, around.now)
    return _ended_row(schedule, target, due, Outcome.MISSED, Reason.SERVICE_DOWN, around.now)


def _rule_against(schedule: Schedule, target: Target, due: datetime, around: _Surroundings) -> Reason | None:
    if schedule.snoozed_until is not None and due < schedule.snoozed_until:
        return Reason.SNOOZED
    if around.paused:
        return Reason.PAUSED
    return Reason.BLACKOUT if around.in_blackout(due, target.labels) else None


def _waiting_row(schedule: Schedule, target: Target, due: datetime, origin: Origin) -> dict[str, Any]:
    start_at = due + spread.offset(schedule.uuid, target.uuid, schedule.spread_minutes)
    return {
        **_plain(schedule, target, due),
        "origin": origin,
        "start_at": start_at,
        "look_at": start_at,
        "waiting_for": WaitingFor.CONNECTION if _is_to_be_tried(target, origin) else WaitingFor.START,
        "outcome": Outcome.WAITING,
        "reason": None,
        "settled_at": None,
    }


def _is_to_be_tried(target: Target, origin: Origin) -> bool:
    return origin is Origin.AVAILABILITY and target.execution_target == "ssh"


def _ended_row(
    schedule: Schedule, target: Target | None, due: datetime, outcome: Outcome, reason: Reason, now: datetime
) -> dict[str, Any]:
    return {
        **_plain(schedule, target, due),
        "origin": Origin.CALENDAR,
        "start_at": due,
        "look_at": None,
        "waiting_for": None,
        "outcome": outcome,
        "reason": reason,
        "settled_at": now,
    }


def _plain(schedule: Schedule, target: Target | None, due: datetime) -> dict[str, Any]:
    return {
        "schedule_id": schedule.id,
        "repository_id": target.id if target else NO_REPOSITORY,
        "due_at": due,
        "due_until": None,
        "due_count": 1,
        "revision": schedule.revision,
        "run_id": run_id_of(schedule, due),
        "tries": 0,
        "steps": NO_STEPS,
        "options": NO_OPTIONS,
        "result": None,
        "error_key": None,
        "reason_operation_id": None,
        "released_at": None,
    }


def _not_there(session: Session, schedule_id: int, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those of many rows that an earlier transaction has not written yet."""
    statement = select(ScheduleRun.repository_id, ScheduleRun.due_at).where(
        ScheduleRun.schedule_id == schedule_id,
        ScheduleRun.due_at >= min(row["due_at"] for row in rows),
        ScheduleRun.voided_at.is_(None),
    )
    there = {(row.repository_id, row.due_at) for row in session.execute(statement)}
    return [row for row in rows if (row["repository_id"], row["due_at"]) not in there]


# --- what happens to an older row when the next due time has come ---------------------------------------------------


def _supersede(
    session: Session, schedules: Iterable[Schedule], rows: Sequence[Mapping[str, Any]], now: datetime
) -> bool:
    """End older waiting runs of the same repository: one run is enough for both due times.

    Return whether any run of these schedules was open.
    """
    newest: dict[tuple[int, int], datetime] = {}
    for row in rows:
        if row["outcome"] == Outcome.WAITING:
            key = (row["schedule_id"], row["repository_id"])
            newest[key] = max(newest.get(key, row["due_at"]), row["due_at"])
    if not newest:
        return True
    by_id = {schedule.id: schedule for schedule in schedules}
    if not store.has_open(session, newest):
        return False
    found = session.scalars(
        select(ScheduleRun)
        .where(ScheduleRun.schedule_id.in_(by_id), ScheduleRun.settled_at.is_(None))
        .with_for_update()
        .execution_options(populate_existing=True)
    ).all()
    for older in found:
        due = newest.get((older.schedule_id, older.repository_id))
        if due is None or older.due_at >= due:
            continue
        if older.outcome == Outcome.RAN:
            if older.waiting_for == WaitingFor.RETRY:
                final_states.settle(session, by_id[older.schedule_id], older, now)
        elif older.waiting_for != WaitingFor.START or older.start_at < due:
            _end_older(session, by_id[older.schedule_id], older, now)
    session.flush()
    return True


def _end_older(session: Session, schedule: Schedule, row: ScheduleRun, now: datetime) -> None:
    decision = too_late(WaitingFor(row.waiting_for) if row.waiting_for else None)
    if decision.reason is Reason.OVERLAP:
        decision = End(decision.outcome, decision.reason, row.reason_operation_id)
    final_states.end(session, schedule, row, decision, now)


# --- availability -----------------------------------------------------------------------------------------------------


def _availability_rows(
    session: Session, schedule: Schedule, targets: Sequence[Target], around: _Surroundings
) -> tuple[list[dict[str, Any]], datetime]:
    """Return rows for repositories whose last success is too old and that are not waiting; and when to check again."""
    latest = around.now + check_interval(schedule)
    gap = timedelta(minutes=schedule.min_success_interval_minutes or 0)
    ids = [target.id for target in targets]
    waiting = set(store.open_repositories(session, schedule.id))
    history = _history(session, schedule, ids, around.now)
    rows, coming = [], [latest]
    for target in targets:
        if target.id in waiting:
            continue
        known = history.get(target.id, _History())
        due = availability.next_due_after(known.last_success, known.failures, known.last_try, gap)
        due = max(due, schedule.created_at)
        if known.last_refusal is not None:
            due = max(due, known.last_refusal + check_interval(schedule))
        if due > around.now:
            coming.append(due)
        elif reason := _rule_against(schedule, target, around.now, around):
            rows.append(
                {
                    **_ended_row(schedule, target, due, Outcome.SKIPPED, reason, around.now),
                    "origin": Origin.AVAILABILITY,
                }
            )
        else:
            rows.append(_waiting_row(schedule, target, due, Origin.AVAILABILITY))
    return rows, max(min(coming), around.now + timedelta(seconds=1))


@dataclass(slots=True)
class _History:
    """What is known about a repository under a schedule in availability mode."""

    last_success: datetime | None = None
    failures: int = 0
    last_try: datetime | None = None
    last_refusal: datetime | None = None

    def note(self, outcome: str, result: str | None, ended_at: datetime) -> None:
        """Take into account how a run ended; the newest must come first."""
        if outcome != Outcome.RAN:
            self.last_refusal = max(self.last_refusal or ended_at, ended_at)
        elif result in final_states.GOOD:
            self.last_success = max(self.last_success or ended_at, ended_at)
        elif self.last_success is None or ended_at > self.last_success:
            self.failures += 1
            self.last_try = max(self.last_try or ended_at, ended_at)


def _history(session: Session, schedule: Schedule, ids: Sequence[int], now: datetime) -> dict[int, _History]:
    found = {number: _History() for number in ids}
    if needs_backup(schedule.steps):
        for first in range(0, len(ids), store.AT_ONCE):
            statement = select(Repository.id, Repository.last_backup).where(
                Repository.id.in_(ids[first : first + store.AT_ONCE])
            )
            for row in session.execute(statement):
                found[row.id].last_success = unless_ahead(row.last_backup, now)
    runs = (
        select(
            ScheduleRun.repository_id,
            ScheduleRun.outcome,
            ScheduleRun.result,
            ScheduleRun.due_at,
            ScheduleRun.settled_at,
        )
        .where(
            ScheduleRun.schedule_id == schedule.id,
            ScheduleRun.settled_at.is_not(None),
            ScheduleRun.voided_at.is_(None),
        )
        .order_by(ScheduleRun.settled_at.desc())
        .limit(20 * max(len(ids), 10))
    )
    for run in session.execute(runs):
        ended_at = unless_ahead(run.settled_at, now) or run.due_at  # the clock was ahead when it ended
        if run.repository_id in found:
            found[run.repository_id].note(run.outcome, run.result, ended_at)
    return found


@frozen
class TickState:
    """The result of one query for the tick."""

    last_tick_at: datetime | None
    next_moment: datetime | None
    """When the next row is due or is to be judged."""


def read_tick_state(session: Session) -> TickState:
    ticked, due, row = session.execute(_TICK_STATE).one()
    return TickState(ticked, min((moment for moment in (due, row) if moment is not None), default=None))


_TICK_STATE = select(
    select(ScheduleState.last_tick_at).where(ScheduleState.id == STATE_ROW).scalar_subquery(),
    # The condition that it is not null lets SQLite use the partial index.
    select(func.min(Schedule.next_due_at)).where(Schedule.next_due_at.is_not(None)).scalar_subquery(),
    select(func.min(ScheduleRun.look_at)).where(ScheduleRun.look_at.is_not(None)).scalar_subquery(),
)
