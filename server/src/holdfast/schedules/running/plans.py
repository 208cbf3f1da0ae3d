"""Converts a stored schedule into the values that calendars and rules use."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any, Literal, cast

from holdfast.schedules.calendar import blackouts, windows
from holdfast.schedules.calendar.plan import Calendar
from holdfast.schedules.calendar.windows import Window
from holdfast.schedules.models import Blackout, CatchUp, Mode, Overlap, Schedule
from holdfast.schedules.running.run_decisions import OpensAt, Rules, always

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MIDNIGHT = "24:00"
WEEK_HOURS = 7 * 24
DEFAULT_CHECK = timedelta(minutes=15)


def calendar_of(schedule: Schedule) -> Calendar:
    return Calendar(
        mode=cast("Literal['cron', 'interval', 'availability']", schedule.schedule_mode),
        cron_expression=schedule.cron_expression,
        timezone=schedule.timezone,
        interval_minutes=schedule.interval_minutes,
        starts_at=schedule.starts_at,
        availability_check_interval_minutes=schedule.availability_check_interval_minutes,
        min_success_interval_minutes=schedule.min_success_interval_minutes,
    )


def windows_of(schedule: Schedule) -> list[Window]:
    return [window_of(values) for values in schedule.windows or ()]


def window_of(values: Mapping[str, Any]) -> Window:
    """Return a window. Days are the numbers 0 (Monday) to 6 or their short names; no days means all days."""
    days = values.get("days") or range(7)
    return Window(
        days=frozenset(day if isinstance(day, int) else DAYS.index(str(day)[:3].lower()) for day in days),
        start=_time(values.get("from")),
        end=_time(values.get("to")),
        upload_kib=values.get("upload_kib"),
    )


def _time(value: str | None) -> time:
    return time(0) if value in (None, MIDNIGHT) else time.fromisoformat(str(value))


def opens_at(schedule: Schedule, *, respected: bool = True) -> OpensAt:
    """Return a function that finds when work may start. Schedules often share windows, so results are worth caching."""
    found = windows_of(schedule) if respected else []
    return cast("OpensAt", partial(windows.opens_at, found, schedule.timezone)) if found else always


def closes_at(schedule: Schedule, moment: datetime) -> datetime | None:
    return windows.closes_at(windows_of(schedule), schedule.timezone, moment)


def upload_limit(schedule: Schedule, moment: datetime) -> int | None:
    return windows.limit_at(windows_of(schedule), schedule.timezone, moment)


def timetable(schedule: Schedule, moment: datetime) -> list[tuple[str, int | None]] | None:
    """Return the upload limits of the coming week in UTC, by hour where they change, as a timetable for programs."""
    found = windows_of(schedule)
    if all(window.upload_kib is None for window in found):
        return None
    entries: list[tuple[str, int | None]] = []
    hour = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    for number in range(WEEK_HOURS):
        each = hour + timedelta(hours=number)
        limit = windows.limit_at(found, schedule.timezone, max(each, moment))
        if not entries or entries[-1][1] != limit:
            entries.append((f"{DAYS[each.weekday()].title()}-{each:%H:%M}", limit))
    return entries


def rules_of(schedule: Schedule, *, paused: bool) -> Rules:
    return _rules(
        schedule.enabled,
        schedule.deleted_at is not None,
        paused,
        schedule.snoozed_until,
        schedule.catch_up,
        schedule.start_within_minutes,
        schedule.overlap,
        schedule.min_success_interval_minutes,
        schedule.next_due_at,
        schedule.schedule_mode,
    )


@lru_cache(maxsize=256)
def _rules(
    enabled: bool,
    deleted: bool,
    paused: bool,
    snoozed_until: datetime | None,
    catch_up: str,
    start_within_minutes: int,
    overlap: str,
    interval: int | None,
    next_due_at: datetime | None,
    mode: str,
) -> Rules:
    """Return the rules, cached because most schedules that are due at the same time share them."""
    return Rules(
        enabled=enabled,
        deleted=deleted,
        paused=paused,
        snoozed_until=snoozed_until,
        catch_up=CatchUp(catch_up),
        start_within=timedelta(minutes=start_within_minutes),
        overlap=Overlap(overlap),
        min_success_interval=timedelta(minutes=interval) if interval else None,
        next_due_at=next_due_at if mode != Mode.AVAILABILITY else None,
        waits_without_end=mode == Mode.AVAILABILITY,
    )


def check_interval(schedule: Schedule) -> timedelta:
    """Return how often machines that do not report to the service are contacted."""
    minutes = schedule.availability_check_interval_minutes
    return timedelta(minutes=minutes) if minutes else DEFAULT_CHECK


def gap_of(schedule: Schedule) -> timedelta | None:
    return timedelta(seconds=schedule.longest_gap_seconds) if schedule.longest_gap_seconds else None


InBlackout = Callable[[datetime, Mapping[str, str]], bool]


def blackout_check(stored: Sequence[Blackout]) -> InBlackout:
    """Return a function that tests whether a time is within a blackout for a repository with these labels."""
    known = [
        blackouts.Blackout(each.name, each.first_day, each.last_day, each.timezone, each.yearly, each.labels or {})
        for each in stored
    ]
    return lambda moment, labels: blackouts.covers(known, moment, labels) is not None


def run_id_of(schedule: Schedule, due_at: datetime) -> str:
    """Return the run id of a due time: the same in every process and for all repositories."""
    return sha256(f"{schedule.uuid}\0{due_at.isoformat()}".encode()).hexdigest()[:32]
