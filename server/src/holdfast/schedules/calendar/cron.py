"""Cron patterns of five fields, parsed by cronsim, following Debian cron's rule for days on which clocks change.

cronsim parses the pattern and decides which days match. The due times are enumerated here: this takes a fraction of the
time of cronsim's own iteration, and also works in time zones whose clocks change by half an hour or at midnight.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from cronsim import CronSim, CronSimError

from backup_engine.frozen import frozen
from holdfast.kit import zones

FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
DAY = timedelta(days=1)
YEAR = timedelta(days=366)
YEARS_AHEAD = 50
CALENDAR_REPEATS_YEARS = 28
LEAST_GAP = timedelta(minutes=5)
LONGEST_EXPRESSION = 200
SOME_DAY = datetime(2024, 1, 1)  # noqa: DTZ001 - used only to parse a pattern

Reason = Literal["on_time", "moved_by_dst", "first_of_two"]


class BadCron(ValueError):
    """The pattern is not valid. `field` names the invalid part, or is `expression`."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


class NeverFires(ValueError):
    """No day matches the pattern."""


@frozen
class Pattern:
    """A cron pattern, parsed and ready for enumeration."""

    days: str
    """The fields that select days."""
    times: tuple[timedelta, ...]
    """The times of a matching day, counted from midnight, in order."""
    is_fixed: bool
    """Whether the pattern names its times, so that they follow the clock when it changes; others follow real time."""

    def names(self, local: datetime) -> bool:
        """Whether the pattern names exactly this time."""
        since_midnight = timedelta(hours=local.hour, minutes=local.minute)
        return local.date() in days_of(self.days, local.year) and since_midnight in self.times


@lru_cache(maxsize=16384)
def parse(expression: str) -> Pattern:
    """Given five fields, return the pattern. Raise BadCron or NeverFires."""
    fields = expression.upper().split()
    if len(fields) != len(FIELDS) or len(expression) > LONGEST_EXPRESSION or not expression.isascii():
        raise BadCron("expression")
    try:
        parsed = CronSim(" ".join(fields), SOME_DAY)
    except CronSimError as error:
        _find_bad_field(fields)
        raise NeverFires(expression) from error  # each field is valid, but no month has such a day
    times = tuple(
        timedelta(hours=hour, minutes=minute) for hour in sorted(parsed.hours) for minute in sorted(parsed.minutes)
    )
    pattern = Pattern(" ".join(fields[2:]), times, is_fixed=not any(field.startswith("*") for field in fields[:2]))
    if next(_days_from(pattern.days, SOME_DAY.date()), None) is None:
        raise NeverFires(expression)
    return pattern


def _find_bad_field(fields: list[str]) -> None:
    for position, name in enumerate(FIELDS):
        alone = ["*"] * len(FIELDS)
        alone[position] = fields[position]
        try:
            CronSim(" ".join(alone), SOME_DAY)
        except CronSimError as error:
            raise BadCron(name) from error


def explain(expression: str) -> str:
    """Return the pattern in words. Raise BadCron or NeverFires."""
    parse(expression)
    return CronSim(expression, SOME_DAY).explain()


# Days -----------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _day_rule(days: str) -> CronSim:
    return CronSim(f"0 0 {days}", SOME_DAY)


@lru_cache(maxsize=8192)
def days_of(days: str, year: int) -> tuple[date, ...]:
    """Return the matching days of a year."""
    rule = _day_rule(days)
    every_day = (date(year, 1, 1) + number * DAY for number in range(366))
    return tuple(day for day in every_day if day.month in rule.months and day.year == year and rule.match_day(day))


def _days_from(days: str, first: date) -> Iterator[date]:
    """Yield the matching days from a given one on, for at most 50 years."""
    for year in range(first.year, first.year + YEARS_AHEAD + 1):
        of_year = days_of(days, year)
        yield from of_year[bisect_left(of_year, first) :]


@lru_cache(maxsize=8192)
def _starts_of(days: str, timezone: str, year: int) -> tuple[tuple[date, datetime | None], ...]:
    """Return the matching days of a year, each with its midnight, or None if the clock changes around that day."""
    return tuple((day, _steady_midnight(timezone, day)) for day in days_of(days, year))


def _starts_from(days: str, timezone: str, first: date) -> Iterator[tuple[date, datetime | None]]:
    for year in range(first.year, first.year + YEARS_AHEAD + 1):
        of_year = _starts_of(days, timezone, year)
        yield from of_year[bisect_left(of_year, first, key=lambda start: start[0]) :]


@lru_cache(maxsize=65536)
def _steady_midnight(timezone: str, day: date) -> datetime | None:
    around = datetime.combine(day, time(), UTC)
    start, end = around - DAY, around + 2 * DAY
    years = range(start.year, end.year + 1)
    if any(start <= change.at <= end for year in years for change in zones.changes(timezone, year)):
        return None
    return around - zones.offset_at(timezone, around)


# Times ----------------------------------------------------------------------------------------------------------------


def groups(pattern: Pattern, timezone: str, after: datetime) -> Iterator[tuple[list[datetime], bool]]:
    """Yield due times later than an instant in ordered groups: a whole ordinary day (true), or other days (false)."""
    held: set[datetime] = set()
    # Start a day earlier: where the clock goes back across midnight, yesterday's times may still come.
    for day, midnight in _starts_from(pattern.days, timezone, zones.to_local(timezone, after).date() - DAY):
        if midnight is None:  # may overlap with its neighbours
            held.update(_on_changing_day(pattern, timezone, day))
            continue
        if held:
            yield sorted(due for due in held if due > after), False
            held.clear()
        due = [midnight + each for each in pattern.times]
        if due[0] > after:
            yield due, True
        elif due[-1] > after:
            yield [each for each in due if each > after], False
    yield sorted(due for due in held if due > after), False


def walk(pattern: Pattern, timezone: str, after: datetime) -> Iterator[datetime]:
    """Yield due times later than an instant, oldest first."""
    for due, _ in groups(pattern, timezone, after):
        yield from due


def _on_changing_day(pattern: Pattern, timezone: str, day: date) -> set[datetime]:
    """Return the due times of a day around which the clock changes."""
    midnight = datetime.combine(day, time())
    named = [midnight + each for each in pattern.times]
    if pattern.is_fixed:
        return {zones.first_instant(timezone, local) for local in named}
    # Real time: each as often as the clock shows it, so never inside a gap, and twice in a repeated hour.
    around = midnight.replace(tzinfo=UTC)
    found = set[datetime]()
    for stretch in zones.stretches(timezone, around - 2 * DAY, around + 3 * DAY):
        instants = (stretch.instant(local) for local in named)
        found.update(instant for instant in instants if stretch.start <= instant < stretch.end)
    return found


@lru_cache(maxsize=65536)
def next_after(expression: str, timezone: str, minute: datetime) -> datetime | None:
    return next(walk(parse(expression), timezone, minute), None)


def reason_of(pattern: Pattern, timezone: str, due: datetime) -> Reason:
    """Return why a due time is at this instant."""
    if not pattern.is_fixed or _steady_midnight(timezone, due.date()) is not None:
        return "on_time"
    local = zones.to_local(timezone, due)
    if not pattern.names(local):
        return "moved_by_dst"
    return "first_of_two" if zones.is_repeated(timezone, local) else "on_time"


def count(pattern: Pattern, timezone: str, after: datetime, until: datetime) -> int:
    """Return how many due times there are with after < due <= until."""
    total = 0
    for due, _ in groups(pattern, timezone, after):
        if due and due[-1] > until:
            return total + sum(each <= until for each in due)
        total += len(due)
    return total


# Gaps -----------------------------------------------------------------------------------------------------------------


def least_gap(pattern: Pattern) -> timedelta:
    """Return the shortest time between two due times, as the clock shows it."""
    gaps = _gaps(pattern.times)
    over_midnight = pattern.times[0] + DAY - pattern.times[-1]
    if over_midnight < LEAST_GAP and _has_neighbours(pattern.days):
        gaps.append(over_midnight)
    return min(gaps, default=DAY)


def _has_neighbours(days: str) -> bool:
    """Whether two matching days are adjacent."""
    before: date | None = None
    for day in _days_from(days, SOME_DAY.date()):
        if before is not None and day - before == DAY:
            return True
        if day.year > SOME_DAY.year + CALENDAR_REPEATS_YEARS:
            return False
        before = day
    return False


@lru_cache(maxsize=16384)
def longest_gap(expression: str, timezone: str, start: datetime) -> timedelta:
    """Return the longest time between two due times, the earlier of which is in the year after `start`."""
    pattern = parse(expression)
    inside_a_day = max(_gaps(pattern.times), default=timedelta(0))
    longest, before = timedelta(0), None
    for due, is_whole_day in groups(pattern, timezone, start):
        if not due:
            continue
        if before is not None:
            longest = max(longest, due[0] - before)
        if before is not None and due[0] > start + YEAR:
            return longest
        longest = max(longest, inside_a_day if is_whole_day else max(_gaps(due), default=timedelta(0)))
        before = due[-1]
    return longest


def _gaps(times: Sequence[timedelta] | Sequence[datetime]) -> list[timedelta]:
    return [later - earlier for earlier, later in pairwise(times)]  # type: ignore[operator]
