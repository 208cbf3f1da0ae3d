"""Calendars and previews as they are sent: the outcomes of past due times, and what is to come.

These functions are pure and run in a separate process (`kit/compute_process.py`): values go in, text comes out. Up to
ten thousand entries are written directly, because models would take most of the time.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

from backup_engine.frozen import frozen
from holdfast.kit import zones
from holdfast.kit.clock import with_offset
from holdfast.kit.plain_json import as_json
from holdfast.schedules.calendar import preview
from holdfast.schedules.calendar.plan import INSTANT, due_between, walk_between
from holdfast.schedules.calendar.preview import Conditions, Fire, Forecast, Place

MOST_ENTRIES = 10_000
MOST_TARGETS = 20
MOST_STARTS = 1_000_000
"""Maximum number of future starts computed for one response, over all due times and targets."""
SMALL = 500
"""Number of starts that the service itself computes within a few milliseconds."""
YEAR = timedelta(days=366)
MOST_WARNINGS = 10
MOST_JUDGED = 20_000
"""Maximum number of starts, over all targets, that a preview checks for whether they will ever happen."""

Entry = dict[str, Any]


@frozen
class Span:
    since: datetime
    until: datetime


@frozen
class Planned:
    """A schedule with due times from its calendar, and its targets."""

    schedule_id: int
    name: str
    steps: Sequence[str]
    """The steps, each in a word or two."""
    kind: str
    """The kind of its most important operation."""
    conditions: Conditions
    places: Sequence[Place]

    def forecast(self) -> Forecast:
        return Forecast(self.conditions, self.places)


class Past(NamedTuple):
    """A stored run row, with its schedule."""

    due_at: datetime
    schedule_id: int
    outcome: str
    reason: str | None
    result: str | None
    repository_id: int
    released_at: datetime | None
    start_at: datetime
    due_count: int


@frozen
class Named:
    """What entries of past runs show of their schedule."""

    name: str
    timezone: str
    steps: Sequence[str]


@frozen
class Stored:
    """The values that a calendar is computed from, after the transaction."""

    span: Span
    now: datetime
    past: Sequence[Past]
    names: Mapping[int, str]
    """Names of the repositories of past runs."""
    run_by: Mapping[int, Named]
    planned: Sequence[Planned]
    blackouts: Sequence[Mapping[str, Any]]
    """In the form of the response."""
    is_paused: bool


# Calendars
# -----------------------------------------------------------------------------------------------------------


def calendar(stored: Stored) -> bytes:
    """Return all entries of the span by due time: a `CalendarAnswer` as JSON.

    It has at most 10,000 entries, and ends early once it includes as many starts as one response may.
    """
    to_come = Span(max(stored.span.since, stored.now), stored.span.until)
    entries = merge(_ended(stored), _to_come(stored.planned, to_come), key=itemgetter("due_at"))
    answer = {
        "since": stored.span.since,
        "until": stored.span.until,
        "entries": list(_affordable(entries)),
        "blackouts": stored.blackouts,
        "paused": stored.is_paused,
        "truncated": next(entries, None) is not None,
    }
    return as_json(answer)


def is_small(stored: Stored) -> bool:
    """Whether computing a calendar here takes less time than starting another process for it."""
    to_come, number = max(stored.span.since, stored.now), len(stored.past)
    for one in stored.planned:
        if number > SMALL or one.conditions.windows:
            return False
        due = due_between(one.conditions.calendar, to_come, stored.span.until, SMALL)
        number += max(len(due), 1) * max(len(one.places), 1)
    return number <= SMALL


def _affordable(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Yield the entries that fit into one response. The others stay in the iterator."""
    starts = 0
    for entry in islice(entries, MOST_ENTRIES):
        yield entry
        starts += entry["target_count"]
        if starts >= MOST_STARTS:
            return


def _ended(stored: Stored) -> Iterator[Entry]:
    """Yield entries for rows; repositories with the same outcome share one.

    Times with the same offset and length sort as their text does.
    """
    for _, group in groupby(sorted(stored.past, key=_key), key=_key):
        yield _entry_of_rows(list(group), stored)


def _key(row: Past) -> tuple[datetime, int, str, str, str]:
    return (row.due_at, row.schedule_id, row.outcome, row.reason or "", row.result or "")


def _entry_of_rows(rows: Sequence[Past], stored: Stored) -> Entry:
    first = rows[0]
    schedule = stored.run_by[first.schedule_id]
    started = [row.released_at or row.start_at for row in rows if first.outcome in ("ran", "waiting")]
    targets = [
        {
            "repository_id": row.repository_id,
            "name": stored.names.get(row.repository_id, ""),
            "start_at": row.released_at,
        }
        for row in rows
        if row.repository_id
    ]
    return {
        "due_at": with_offset(first.due_at),
        "local": zones.local_text(schedule.timezone, first.due_at),
        "start_at": min(started, default=None),
        "targets": targets[:MOST_TARGETS],
        "target_count": len(targets),
        "reason": "on_time",
        "steps": schedule.steps,
        "schedule_id": first.schedule_id,
        "name": schedule.name,
        "outcome": first.outcome,
        "outcome_reason": first.reason,
        "result": first.result,
        "due_count": first.due_count,
    }


def _to_come(planned: Sequence[Planned], span: Span) -> Iterator[Entry]:
    for one, fire in _fires(planned, span, MOST_ENTRIES + 1):
        yield {
            **_entry_of(fire, one.conditions.calendar.timezone, one.steps, MOST_TARGETS),
            "schedule_id": one.schedule_id,
            "name": one.name,
            "outcome": None,
            "outcome_reason": None,
            "result": None,
            "due_count": 1,
        }


def _entry_of(fire: Fire, timezone: str, steps: Sequence[str], most_targets: int | None = None) -> Entry:
    due_at = with_offset(fire.due_at)
    written: dict[datetime | None, str | None] = {fire.due_at: due_at, None: None}  # most start when they are due
    return {
        "due_at": due_at,
        "local": zones.local_text(timezone, fire.due_at),
        "start_at": _written(written, fire.start_at),
        "targets": [
            {"repository_id": place.repository_id, "name": place.name, "start_at": _written(written, start)}
            for place, start in fire.targets[:most_targets]
        ],
        "target_count": len(fire.targets),
        "reason": fire.reason,
        "steps": steps,
    }


def _written(known: dict[datetime | None, str | None], instant: datetime | None) -> str | None:
    if instant not in known:
        known[instant] = with_offset(instant) if instant else None
    return known[instant]


def starts(planned: Sequence[Planned], span: Span, most: int) -> list[tuple[datetime, str, int]]:
    """Return the future starts of the due times in the span, at most `most`: time, kind and repository of each."""
    return sorted(islice(_starts(planned, span, most), most))


def _starts(planned: Sequence[Planned], span: Span, most: int) -> Iterator[tuple[datetime, str, int]]:
    """Yield each start after the due time that it belongs to."""
    for one, fire in _fires(planned, span, most):
        for place, start in fire.targets:
            if start is not None:
                yield start, one.kind, place.repository_id


def _fires(planned: Sequence[Planned], span: Span, most: int) -> Iterator[tuple[Planned, Fire]]:
    """Yield the fires of all schedules, oldest first. What happens at a due time is computed only on demand."""
    walked = [_due_times(one, span, most) for one in planned]
    for due, following, one, found in merge(*walked, key=itemgetter(0)):
        yield one, found.at(due, following)


def _due_times(one: Planned, span: Span, most: int) -> Iterator[tuple[datetime, datetime | None, Planned, Forecast]]:
    found = one.forecast()
    for due, following in found.due_between(span.since, span.until - INSTANT, most):
        yield due, following, one, found


# One schedule
# -----------------------------------------------------------------------------------------------------------


def fires(planned: Planned, now: datetime, count: int) -> bytes:
    """Return the next due times: `Fires` as JSON."""
    return as_json({"fires": _next(planned, planned.forecast(), now, count)})


def looked_ahead(planned: Planned, since: datetime, now: datetime, count: int) -> bytes:
    """Return what an unsaved schedule would do: a `Preview` as JSON."""
    found = planned.forecast()
    return as_json(
        {
            "uuid": planned.conditions.uuid,
            "explained": preview.explain(planned.conditions.calendar),
            "fires": _next(planned, found, since, count),
            "warnings": list(islice(_warnings(found, len(planned.places), now), MOST_WARNINGS)),
        }
    )


def _next(planned: Planned, found: Forecast, since: datetime, count: int) -> list[Entry]:
    timezone = planned.conditions.calendar.timezone
    return [_entry_of(fire, timezone, planned.steps) for fire in found.after(since, count)]


def _warnings(found: Forecast, targets: int, now: datetime) -> Iterator[Mapping[str, str]]:
    calendar = found.conditions.calendar
    if not targets:
        yield _warned("no_repository", "No repository matches the targets now, so nothing would run.")
    if calendar.mode == "cron":
        due = islice(walk_between(calendar, now, now + YEAR), MOST_JUDGED)
        for message in preview.changed_clocks(calendar, due):
            yield _warned("clocks_change", message)
    if calendar.mode == "cron" and found.conditions.windows:
        judged = list(found.between(now, now + YEAR, max(MOST_JUDGED // max(targets, 1), 1)))
        if closed := sum(fire.reason == "window_closed" for fire in judged):
            message = f"{closed} of the next {len(judged)} due times fall outside every window and will be missed."
            yield _warned("window_closed", message)


def _warned(key: str, message: str) -> Mapping[str, str]:
    return {"key": key, "message": message}
