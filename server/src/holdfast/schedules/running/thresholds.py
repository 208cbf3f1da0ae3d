"""What other features read from schedules: when work is overdue, and which days were missed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import partial
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from holdfast.kit.request_priority import give_way
from holdfast.operations.models import Operation
from holdfast.operations.status import SUCCEEDED
from holdfast.repositories.cadence import DueBetween, MissedRuns, Threshold
from holdfast.repositories.models import Repository
from holdfast.schedules import store
from holdfast.schedules.calendar.plan import due_of_all
from holdfast.schedules.models import Outcome, Reason, Schedule, ScheduleRun
from holdfast.schedules.running import final_states
from holdfast.schedules.running.plans import calendar_of, gap_of
from holdfast.schedules.running.steps import needs_backup

DAY = timedelta(days=1)
SHORTEST_GRACE, LONGEST_GRACE = timedelta(hours=1), timedelta(hours=24)
BACKUP = "backup"


def overdue_after(schedule: Schedule, step: Mapping[str, Any]) -> timedelta | None:
    """Return the age of the last success beyond which a step is overdue; None if the calendar does not determine it."""
    gap = gap_of(schedule)
    if gap is None:
        return None
    grace = min(max(gap / 4, SHORTEST_GRACE), LONGEST_GRACE)
    every = timedelta(days=step.get("every_days") or 0)
    return every + gap + timedelta(minutes=schedule.spread_minutes) + grace


class ScheduleCadence:
    """Implements the `Cadence` interface of `repositories` with schedules."""

    def thresholds(self, session: Session, repository: Repository) -> dict[str, Threshold]:
        known = store.every_target(session, [repository.id])
        return _shortest(store.enabled(session), known).get(repository.id, {})

    def of_all(self, session: Session) -> dict[int, dict[str, Threshold]]:
        """Return the thresholds of every repository that a schedule works on."""
        return _shortest(store.enabled_as_values(session), store.every_target(session))

    def missed_runs(
        self, session: Session, repository: Repository, zone: tzinfo, first: date, last: date
    ) -> MissedRuns:
        begin = datetime.combine(first, time(), zone).astimezone(UTC)
        end = datetime.combine(last + DAY, time(), zone).astimezone(UTC)
        rows = session.scalars(
            select(ScheduleRun).where(
                ScheduleRun.repository_id == repository.id,
                ScheduleRun.due_at < end,
                func.coalesce(ScheduleRun.due_until, ScheduleRun.due_at) >= begin,
                ScheduleRun.voided_at.is_(None),
            )
        ).all()
        schedules = store.by_ids(session, {row.schedule_id for row in rows})
        backups = [row for row in rows if _has_backup(row, schedules[row.schedule_id])]
        good = {_day(row.due_at, zone) for row in backups if _backup_status(row) in final_states.GOOD}
        good |= {_day(moment, zone) for moment in _successes(session, repository.id, begin, end)}
        missed: dict[date, list[str | None]] = defaultdict(list)
        for row in backups:
            for day in _days(row, zone, first, last) if _is_missed(row) else ():
                if day not in good:
                    missed[day].append(schedules[row.schedule_id].archive_name_template)
        return MissedRuns(is_known=bool(backups), days=missed)

    def backups_to_come(self, session: Session, repository: Repository) -> DueBetween | None:
        known = store.every_target(session, [repository.id])
        making = [
            calendar_of(schedule)
            for schedule in store.enabled(session)
            if needs_backup(schedule.steps) and store.matching(schedule, known)
        ]
        return partial(due_of_all, making) if making else None


def missed_since(session: Session, since: datetime) -> dict[int, int]:
    """Return how many due times of each repository were missed."""
    missed = ScheduleRun.outcome == Outcome.MISSED, ScheduleRun.due_at >= since, ScheduleRun.voided_at.is_(None)
    counted = (
        select(ScheduleRun.repository_id, func.sum(ScheduleRun.due_count).label("number"))
        .where(*missed)
        .group_by(ScheduleRun.repository_id)
    )
    return {row.repository_id: int(row.number) for row in session.execute(counted)}


def targets_of(session: Session, schedule_ids: Sequence[int]) -> frozenset[int]:
    """Return the repositories that these schedules work on."""
    known, found = store.every_target(session), store.by_ids(session, schedule_ids).values()
    existing = (schedule for schedule in found if schedule.deleted_at is None)
    return frozenset(target.id for schedule in existing for target in store.matching(schedule, known))


def next_due(session: Session) -> dict[int, datetime]:
    """Return when each repository is next due, by any schedule whose next due time is known."""
    known, found = store.every_target(session), dict[int, datetime]()
    for schedule in store.enabled_as_values(session):
        if schedule.next_due_at is None:
            continue
        for target in store.matching(schedule, known):
            found[target.id] = min(found.get(target.id, schedule.next_due_at), schedule.next_due_at)
    return found


def _shortest(schedules: Iterable[Schedule], known: store.TargetsById) -> dict[int, dict[str, Threshold]]:
    """Return the thresholds; if several schedules apply, the one that allows the least time counts."""
    found: dict[int, dict[str, Threshold]] = defaultdict(dict)
    for schedule in schedules:
        give_way()
        limits = {str(step["kind"]): overdue_after(schedule, step) for step in schedule.steps}
        for target in store.matching(schedule, known):
            cells = found[target.id]
            for cell, limit in limits.items():
                if limit is not None and (cell not in cells or limit.total_seconds() < cells[cell].seconds):
                    cells[cell] = Threshold(limit.total_seconds(), schedule.id, schedule.next_due_at)
    return dict(found)


def _successes(session: Session, repository_id: int, begin: datetime, end: datetime) -> list[datetime]:
    statement = select(Operation.completed_at).where(
        Operation.repository_id == repository_id,
        Operation.kind == BACKUP,
        Operation.status.in_(sorted(SUCCEEDED)),
        Operation.completed_at >= begin,
        Operation.completed_at < end,
    )
    return [moment for moment in session.scalars(statement) if moment is not None]


def _has_backup(row: ScheduleRun, schedule: Schedule) -> bool:
    """Whether the row was to make a backup, according to its queued steps, or to the schedule's if none were queued."""
    steps = [step for step in row.steps or () if step.get("operation_id")]
    return needs_backup(steps or schedule.steps)


def _backup_status(row: ScheduleRun) -> str | None:
    return next((step.get("status") for step in row.steps or () if step.get("kind") == BACKUP), None)


def _is_missed(row: ScheduleRun) -> bool:
    """Whether a backup was missed. Rows skipped by a person's rule, and those that have not ended, are not missed."""
    if row.settled_at is None:
        return False
    if row.outcome == Outcome.SKIPPED:
        return row.reason == Reason.OVERLAP
    return row.outcome == Outcome.MISSED or _backup_status(row) not in final_states.GOOD


def _days(row: ScheduleRun, zone: tzinfo, first: date, last: date) -> list[date]:
    """Return the requested days on which the row was due."""
    day, end = max(_day(row.due_at, zone), first), min(_day(row.due_until or row.due_at, zone), last)
    return [day + number * DAY for number in range((end - day).days + 1)]


def _day(moment: datetime, zone: tzinfo) -> date:
    return moment.astimezone(zone).date()
