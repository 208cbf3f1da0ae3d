"""The calendar of all schedules: what became of past due times, and what is to come."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.kit import courtesy
from holdfast.kit.fields import with_offset
from holdfast.repositories import store as repositories
from holdfast.schedules import store
from holdfast.schedules.calendar.plan import INSTANT
from holdfast.schedules.calendar.preview import Fire, Forecast, Place
from holdfast.schedules.models import Blackout, Mode, Schedule, ScheduleRun
from holdfast.schedules.present import blackout_answer, days_of, forecast_at, local_text, place, step_names
from holdfast.schedules.sight import Sight
from holdfast.schedules.store import RunFilter

MOST_ENTRIES = 10_000
MOST_DAYS = 62
MOST_TARGETS = 20
MOST_STARTS = 1_000_000
"""Starts to come that are computed for one answer: of all due times and targets together."""

Entry = dict[str, Any]
"""A calendar entry as plain values.

Ten thousand of them are written as they are: models would take most of the time.
"""


@frozen
class Span:
    since: datetime
    until: datetime


@frozen
class Stored:
    """What a calendar is computed from, after the transaction."""

    span: Span
    now: datetime
    past: Sequence[ScheduleRun]
    names: Mapping[int, str]
    """Of the repositories of past runs."""
    run_by: Mapping[int, Schedule]
    planned: Sequence[tuple[Schedule, Sequence[Place]]]
    blackouts: Sequence[Blackout]
    is_paused: bool


def read_stored(session: Session, sight: Sight, span: Span, now: datetime, repository_id: int | None) -> Stored:
    past = _past(session, sight, span, now, repository_id)
    return Stored(
        span,
        now,
        past,
        repositories.names(session, {row.repository_id for row in past if row.repository_id}),
        store.by_ids(session, {row.schedule_id for row in past}),
        _planned(session, sight, repository_id),
        store.blackouts(session),
        store.is_paused(session),
    )


def calendar(stored: Stored) -> bytes:
    """All entries of the span by due time: a `CalendarAnswer` as JSON.

    At most 10,000 entries, and no more after as many starts as one answer may take.
    """
    to_come = Span(max(stored.span.since, stored.now), stored.span.until)
    days = days_of(stored.blackouts)
    forecasts = courtesy.in_pieces(
        (schedule, forecast_at(schedule, places, days)) for schedule, places in stored.planned
    )
    entries = merge(_ended(stored), _to_come(forecasts, to_come), key=_due_at)
    written = courtesy.in_pieces(map(_as_json, _affordable(entries)))
    answer = {
        "since": stored.span.since,
        "until": stored.span.until,
        "blackouts": [blackout_answer(each).model_dump(mode="json") for each in stored.blackouts],
        "paused": stored.is_paused,
        "truncated": next(entries, None) is not None,
    }
    return f'{_as_json(answer)[:-1]},"entries":[{",".join(written)}]}}'.encode()


def _affordable(entries: Iterator[Entry]) -> Iterator[Entry]:
    """The entries that one answer may hold. The others stay in the iterator."""
    starts = 0
    for entry in islice(entries, MOST_ENTRIES):
        yield entry
        starts += entry["target_count"]
        if starts >= MOST_STARTS:
            return


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return with_offset(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(value)


_as_json = json.JSONEncoder(default=_as_text, ensure_ascii=False, separators=(",", ":")).encode
"""Entry by entry: other threads stand still while a text is made, and that of all entries may take a second."""


def _due_at(entry: Entry) -> str:
    """Times of one offset and length have the order of their text."""
    due_at: str = entry["due_at"]
    return due_at


def _past(
    session: Session, sight: Sight, span: Span, now: datetime, repository_id: int | None
) -> Sequence[ScheduleRun]:
    if span.since > now:
        return ()
    visible = sight.visible if repository_id is None else frozenset({repository_id})
    wanted = RunFilter(repository_ids=visible, since=span.since, until=span.until)
    return store.in_span(session, wanted, MOST_ENTRIES)


def _ended(stored: Stored) -> Iterator[Entry]:
    """Entries of rows: repositories with the same end share one."""
    for (due_at, schedule_id, *_), group in groupby(sorted(stored.past, key=_key), key=_key):
        yield _entry_of_rows(stored.run_by[schedule_id], due_at, list(group), stored.names)


def _key(row: ScheduleRun) -> tuple[datetime, int, str, str, str]:
    return (row.due_at, row.schedule_id, row.outcome, row.reason or "", row.result or "")


def _entry_of_rows(
    schedule: Schedule, due_at: datetime, rows: Sequence[ScheduleRun], names: Mapping[int, str]
) -> Entry:
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
    days = days_of(store.blackouts(session))
    forecasts = [(schedule, forecast_at(schedule, places, days)) for schedule, places in _planned(session, sight, None)]
    return sorted(islice(_starts(forecasts, span, most), most))


def _planned(session: Session, sight: Sight, repository_id: int | None) -> list[tuple[Schedule, list[Place]]]:
    """The schedules that fall due by their calendars, each with the targets that the caller may see."""
    found = []
    places: dict[int, Place] = {}
    """Shared by schedules that have them as targets."""
    for schedule in store.listed(session):
        if schedule.enabled and schedule.schedule_mode != Mode.AVAILABILITY and sight.sees(schedule):
            targets = [each for each in sight.targets(schedule) if repository_id in (None, each.id)]
            if targets or repository_id is None:
                found.append(
                    (schedule, [places.get(each.id) or places.setdefault(each.id, place(each)) for each in targets])
                )
    return found


def _starts(
    forecasts: Iterable[tuple[Schedule, Forecast]], span: Span, most: int
) -> Iterator[tuple[datetime, str, int]]:
    """Each start behind the due time that it belongs to."""
    for schedule, fire in _fires(forecasts, span, most):
        kinds = [str(step["kind"]) for step in schedule.steps]
        kind = "backup" if "backup" in kinds else kinds[0]
        for each, start in fire.targets:
            if start is not None:
                yield start, kind, each.repository_id


def _fires(forecasts: Iterable[tuple[Schedule, Forecast]], span: Span, most: int) -> Iterator[tuple[Schedule, Fire]]:
    """The fires of all schedules, oldest first. What happens at a due time is computed when it is asked for."""
    walked = [_due_times(schedule, found, span, most) for schedule, found in forecasts]
    for due, following, schedule, found in merge(*walked, key=itemgetter(0)):
        yield schedule, found.at(due, following)


def _due_times(
    schedule: Schedule, found: Forecast, span: Span, most: int
) -> Iterator[tuple[datetime, datetime | None, Schedule, Forecast]]:
    for due, following in found.due_between(span.since, span.until - INSTANT, most):
        yield due, following, schedule, found


def _to_come(forecasts: Sequence[tuple[Schedule, Forecast]], span: Span) -> Iterator[Entry]:
    same = {schedule.id: _same_for_all(schedule) for schedule, _ in forecasts}
    for schedule, fire in _fires(forecasts, span, MOST_ENTRIES + 1):
        due_at = with_offset(fire.due_at)
        written = {fire.due_at: due_at, None: None}  # most targets start when they are due
        yield {
            "due_at": due_at,
            "local": local_text(schedule.timezone, fire.due_at),
            "start_at": _written(written, fire.start_at),
            "targets": [
                {"repository_id": place.repository_id, "name": place.name, "start_at": _written(written, start)}
                for place, start in fire.targets[:MOST_TARGETS]
            ],
            "target_count": len(fire.targets),
            "reason": fire.reason,
            **same[schedule.id],
        }


def _same_for_all(schedule: Schedule) -> Entry:
    """What is the same in all entries to come of a schedule."""
    of_schedule = {"steps": step_names(schedule.steps), "schedule_id": schedule.id, "name": schedule.name}
    return {**of_schedule, "outcome": None, "outcome_reason": None, "result": None, "due_count": 1}


def _written(known: dict[datetime | None, str | None], instant: datetime | None) -> str | None:
    if instant not in known:
        known[instant] = with_offset(instant) if instant else None
    return known[instant]
