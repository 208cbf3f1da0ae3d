"""The calendar of all schedules over 62 days, a next due time, and the list of schedules with many targets."""

import json
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from sqlalchemy import insert

from bench.filling_schedules import values_of
from bench.report import Bench, Measurement, Options
from bench.running import folder
from holdfast.schedules import store
from holdfast.schedules.calendar import cron
from holdfast.schedules.calendar.entries import Span, calendar
from holdfast.schedules.calendar.plan import Calendar, next_due
from holdfast.schedules.models import Schedule
from holdfast.schedules.overview import read_stored
from holdfast.schedules.present import Presented
from holdfast.schedules.visible_schedules import VisibleSchedules
from holdfast.storage.session import Database
from tests.support.stores import a_store
from tests.unit.schedules.running.world import World

SCHEDULES = 1_000
DAYS = 62
CALENDAR_MILLISECONDS = 500.0
LISTED, TARGETS = 300, 1_000
LIST_MILLISECONDS = 800.0
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def run(options: Options) -> list[Measurement]:
    with folder() as place, a_store(options.store, place) as database:
        _fill(database)
        first, took, entries = _read(database), [], 0
        for _ in range(options.repeats(5)):
            took.append(_read(database)[0])
            entries = first[1]
    with folder() as place, a_store(options.store, place) as database:
        _fill_targets(database)
        listed = [_list(database) for _ in range(options.repeats(5) + 1)]
    return [
        Measurement(
            f"schedules: list of {LISTED} schedules with {TARGETS} targets each, no two with the same",
            min(seconds for seconds, _ in listed) * 1000,
            "ms",
            LIST_MILLISECONDS,
            f"{listed[0][1]:,} bytes",
        ),
        Measurement(f"schedules: calendar of {DAYS} days, {SCHEDULES} schedules, first time", first[0] * 1000, "ms"),
        Measurement(
            f"schedules: calendar of {DAYS} days, {SCHEDULES} schedules",
            min(took) * 1000,
            "ms",
            CALENDAR_MILLISECONDS,
            f"{entries:,} entries, as JSON",
        ),
        Measurement("schedules: next due time, not seen before", _next_due() * 1e6, "µs"),
    ]


def _fill(database: Database) -> None:
    """Give each schedule its own time, in one of three zones."""
    world = World(database)
    repository = world.repository()
    with database.reading() as session:
        like = values_of(session.get_one(Schedule, world.schedule(repository)))
    rows = []
    for number in range(SCHEDULES):
        zone = ("Europe/Berlin", "America/New_York", "UTC")[number % 3]
        calendar = {"schedule_mode": "cron", "cron_expression": f"{number % 60} {number // 60} * * *", "timezone": zone}
        rows.append({**like, **calendar, "id": number + 2, "uuid": uuid4().hex, "name": f"schedule {number}"})
    with database.writing() as session:
        session.execute(insert(Schedule), rows)


def _fill_targets(database: Database) -> None:
    world = World(database)
    repositories = [world.repository() for _ in range(TARGETS + 1)]
    with database.reading() as session:
        like = values_of(session.get_one(Schedule, world.schedule(*repositories[:-1])))
    rows = [
        {**like, "id": number + 2, "uuid": uuid4().hex, "name": f"{number}", "exclude_repository_ids": [left_out]}
        | {"targets": {"repository_ids": repositories}}
        for number, left_out in enumerate(repositories[: LISTED - 1])
    ]
    with database.writing() as session:
        session.execute(insert(Schedule), rows)


def _list(database: Database) -> tuple[float, int]:
    """Processor seconds of the response as it is sent, and its size in bytes."""
    began = time.process_time()
    with database.reading() as session:
        seen = VisibleSchedules(session, None, is_for_one=False)
        answer = Presented(session, seen, NOW).listed(store.listed(session), is_paused=False)
    return time.process_time() - began, len(answer)


def _read(database: Database) -> tuple[float, int]:
    """Processor seconds of the response as it is sent, and its number of entries."""
    began = time.process_time()
    with database.reading() as session:
        seen = VisibleSchedules(session, None, is_for_one=False)
        stored = read_stored(session, seen, Span(NOW, NOW + timedelta(days=DAYS)), NOW, None)
    answer = calendar(stored)
    took = time.process_time() - began
    return took, len(json.loads(answer)["entries"])


def _next_due() -> float:
    cron.next_after.cache_clear()
    calendars = [Calendar("cron", f"{number % 60} {number // 60} * * *", "Europe/Berlin") for number in range(1_000)]
    began = time.perf_counter()
    for each in calendars:
        next_due(each, NOW)
    return (time.perf_counter() - began) / len(calendars)


BENCH = Bench(
    "a calendar of 62 days for 1,000 schedules within 0.5 s, a list of 300 with 1,000 targets each within 0.8 s",
    run,
)
