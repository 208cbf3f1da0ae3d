"""The calendar of all schedules: what became of past due times, and what is to come."""

import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from sqlalchemy.orm import Session

from holdfast.kit.fields import with_offset
from holdfast.kit.frozen import frozen
from holdfast.repositories import store as repositories
from holdfast.schedules import store
from holdfast.schedules.calendar.plan import INSTANT
from holdfast.schedules.calendar.preview import Forecast
from holdfast.schedules.models import Mode, Schedule, ScheduleRun
from holdfast.schedules.present import blackout_answer, days_of, forecast, local_text, step_names
from holdfast.schedules.sight import Sight
from holdfast.schedules.store import RunFilter

MOST_ENTRIES = 10_000
MOST_DAYS = 62
MOST_TARGETS = 20

Entry = dict[str, Any]
"""A calendar entry as plain values. Ten thousand of them are written as they are: models would take most of the time."""


@frozen
class Span:
    since: datetime
    until: datetime


def read_calendar(session: Session, sight: Sight, span: Span, now: datetime, repository_id: int | None) -> bytes:
    """All entries of the span by due time, at most 10,000 of them: a `CalendarAnswer` as JSON."""
    past = _past(session, sight, span, now, repository_id)
    to_come = _to_come(session, sight, Span(max(span.since, now), span.until), repository_id)
    entries = list(islice(merge(past, to_come, key=_due_at), MOST_ENTRIES + 1))
    answer = {
        "since": span.since,
        "until": span.until,
        "entries": entries[:MOST_ENTRIES],
        "blackouts": [blackout_answer(each).model_dump(mode="json") for each in store.blackouts(session)],
        "paused": store.is_paused(session),
        "truncated": len(entries) > MOST_ENTRIES,
    }
    return json.dumps(answer, default=_as_text, ensure_ascii=False, separators=(",", ":")).encode()


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return with_offset(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(value)


def _due_at(entry: Entry) -> str:
    """Times of one offset and length have the order of their text."""
    due_at: str = entry["due_at"]
    return due_at


def _past(session: Session, sight: Sight, span: Span, now: datetime, repository_id: int | None) -> Iterator[Entry]:
    """Entries of rows: repositories with the same end share one."""
    if span.since > now:
        return
    visible = sight.visible if repository_id is None else frozenset({repository_id})
    rows = store.in_span(session, RunFilter(repository_ids=visible, since=span.since, until=span.until), MOST_ENTRIES)
    schedules = store.by_ids(session, {row.schedule_id for row in rows})
    names = repositories.names(session, {row.repository_id for row in rows if row.repository_id})
    for (due_at, schedule_id, *_), group in groupby(sorted(rows, key=_key), key=_key):
        schedule = schedules[schedule_id]
        of_one_end = list(group)
        yield _entry_of_rows(schedule, due_at, of_one_end, names)


def _key(row: ScheduleRun) -> tuple[datetime, int, str, str, str]:
    return (row.due_at, row.schedule_id, row.outcome, row.reason or "", row.result or "")


def _entry_of_rows(schedule: Schedule, due_at: datetime, rows: Sequence[ScheduleRun], names: dict[int, str]) -> Entry:
    first = rows[0]
    started = [row.released_at or row.start_at for row in rows if first.outcome in ("ran", "waiting")]
    targets = [
        {"repository_id": row.repository_id, "name": names.get(row.repository_id, ""), "start_at": row.released_at}
        for row in rows
        if row.repository_id
    ]
    return {
        "due_at": with_offset(due_at),
        "local": local_text(schedule.timezone, due_at),
        "start_at": min(started, default=None),
        "targets": targets[:MOST_TARGETS],
        "target_count": len(targets),
        "reason": "on_time",
        "steps": step_names(schedule.steps),
        "schedule_id": schedule.id,
        "name": schedule.name,
        "outcome": first.outcome,
        "outcome_reason": first.reason,
        "result": first.result,
        "due_count": first.due_count,
    }


def planned(session: Session, sight: Sight, span: Span, most: int) -> list[tuple[datetime, str, int]]:
    """The starts to come of the due times in the span, at most `most`: time, kind and repository of each."""
    parts = [_starts(schedule, found, span, most) for schedule, found in _forecasts(session, sight, None)]
    return sorted(start for _, start in islice(merge(*parts, key=itemgetter(0)), most))


def _starts(
    schedule: Schedule, found: Forecast, span: Span, most: int
) -> Iterator[tuple[datetime, tuple[datetime, str, int]]]:
    """Each start behind the due time that it belongs to."""
    kinds = [str(step["kind"]) for step in schedule.steps]
    kind = "backup" if "backup" in kinds else kinds[0]
    for fire in found.between(span.since, span.until - INSTANT, most):
        for place, start in fire.targets:
            if start is not None:
                yield fire.due_at, (start, kind, place.repository_id)


def _to_come(session: Session, sight: Sight, span: Span, repository_id: int | None) -> Iterator[Entry]:
    parts = [_of_schedule(schedule, found, span) for schedule, found in _forecasts(session, sight, repository_id)]
    return merge(*parts, key=_due_at)


def _forecasts(session: Session, sight: Sight, repository_id: int | None) -> Iterator[tuple[Schedule, Forecast]]:
    """The schedules that fall due by their calendars, each for the targets that the caller may see."""
    blackouts = days_of(store.blackouts(session))
    for schedule in (each for each in store.listed(session) if sight.sees(each)):
        targets = [each for each in sight.targets(schedule) if repository_id in (None, each.id)]
        if schedule.enabled and schedule.schedule_mode != Mode.AVAILABILITY and (targets or repository_id is None):
            yield schedule, forecast(schedule, targets, blackouts)


def _of_schedule(schedule: Schedule, found: Forecast, span: Span) -> Iterator[Entry]:
    timezone, steps = schedule.timezone, step_names(schedule.steps)
    same = {"steps": steps, "schedule_id": schedule.id, "name": schedule.name, "outcome": None}
    same |= {"outcome_reason": None, "result": None, "due_count": 1}
    for fire in found.between(span.since, span.until - INSTANT, MOST_ENTRIES + 1):
        due_at = with_offset(fire.due_at)
        written = {fire.due_at: due_at, None: None}  # most targets start when they are due
        yield {
            "due_at": due_at,
            "local": local_text(timezone, fire.due_at),
            "start_at": _written(written, fire.start_at),
            "targets": [
                {"repository_id": place.repository_id, "name": place.name, "start_at": _written(written, start)}
                for place, start in fire.targets[:MOST_TARGETS]
            ],
            "target_count": len(fire.targets),
            "reason": fire.reason,
            **same,
        }


def _written(known: dict[datetime | None, str | None], instant: datetime | None) -> str | None:
    if instant not in known:
        known[instant] = with_offset(instant) if instant else None
    return known[instant]
