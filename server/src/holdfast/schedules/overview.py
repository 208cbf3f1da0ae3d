"""Reads the values from which the calendar of all schedules is computed."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from holdfast.repositories import store as repositories
from holdfast.schedules import present, store
from holdfast.schedules.calendar import entries
from holdfast.schedules.calendar.entries import MOST_ENTRIES, Named, Past, Planned, Span, Stored
from holdfast.schedules.calendar.preview import Place
from holdfast.schedules.models import Mode
from holdfast.schedules.store import RunFilter, Target
from holdfast.schedules.visible_schedules import VisibleSchedules

MOST_DAYS = 62


def read_stored(
    session: Session, seen: VisibleSchedules, span: Span, now: datetime, repository_id: int | None
) -> Stored:
    past = _past(session, seen, span, now, repository_id)
    run_by = store.by_ids(session, {row.schedule_id for row in past})
    return Stored(
        span,
        now,
        past,
        repositories.names(session, {row.repository_id for row in past if row.repository_id}),
        {each.id: Named(each.name, each.timezone, present.step_names(each.steps)) for each in run_by.values()},
        _planned(session, seen, repository_id),
        [present.blackout_answer(each).model_dump(mode="json") for each in store.blackouts(session)],
        store.is_paused(session),
    )


def planned(session: Session, seen: VisibleSchedules, span: Span, most: int) -> list[tuple[datetime, str, int]]:
    """Return the future starts of the due times in the span, at most `most`: time, kind and repository of each."""
    return entries.starts(_planned(session, seen, None), span, most)


def _past(
    session: Session, seen: VisibleSchedules, span: Span, now: datetime, repository_id: int | None
) -> Sequence[Past]:
    if span.since > now:
        return ()
    visible = seen.visible if repository_id is None else frozenset({repository_id})
    wanted = RunFilter(repository_ids=visible, since=span.since, until=span.until)
    return [Past(*row) for row in store.in_span(session, wanted, Past._fields, MOST_ENTRIES)]


def _planned(session: Session, seen: VisibleSchedules, repository_id: int | None) -> list[Planned]:
    """Return the schedules with due times from a calendar, each with the targets that the caller may see."""
    found = []
    days = present.days_of(store.blackouts(session))
    known: dict[int, list[Place]] = {}
    """By target list. Several schedules share one, so it is sent only once to the computing process."""
    places: dict[int, Place] = {}

    def placed(targets: Sequence[Target]) -> list[Place]:
        return [places.get(each.id) or places.setdefault(each.id, present.place(each)) for each in targets]

    for schedule in store.listed(session):
        if schedule.enabled and schedule.schedule_mode != Mode.AVAILABILITY and seen.sees(schedule):
            every = seen.targets(schedule)
            if repository_id is None:
                its = known.get(id(every)) or known.setdefault(id(every), placed(every))
            else:
                its = placed([each for each in every if each.id == repository_id])
            if its or repository_id is None:
                found.append(present.planned(schedule, its, days))
    return found
