"""An independent calendar: it walks every minute and does what a wall clock and Debian cron would do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

from holdfast.kit import zones
from holdfast.schedules.calendar.windows import Window

MINUTE = timedelta(minutes=1)
WARM_UP = timedelta(hours=6)

ZONES = (
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/St_Johns",  # changed its clocks at 00:01
    "America/Sao_Paulo",  # at midnight, and no longer does
    "America/Santiago",
    "Africa/Casablanca",  # four changes in some years
    "Africa/Cairo",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Asia/Gaza",
    "Australia/Lord_Howe",  # by half an hour
    "Pacific/Apia",  # has no 30 December 2011
    "Pacific/Chatham",
    "Antarctica/Troll",  # by two hours
)


@dataclass(frozen=True)
class Wanted:
    """What a pattern means, without parsing it."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    months: frozenset[int] | None
    weekdays: frozenset[int] | None
    is_fixed: bool
    text: str

    def matches(self, local: datetime) -> bool:
        if local.minute not in self.minutes or local.hour not in self.hours:
            return False
        if self.months is not None and local.month not in self.months:
            return False
        by_day = self.days is None or local.day in self.days
        by_weekday = self.weekdays is None or local.isoweekday() % 7 in self.weekdays
        if self.days is not None and self.weekdays is not None:
            return by_day or by_weekday
        return by_day and by_weekday


def some_pattern(random: Random) -> Wanted:
    minutes, minute_text = _field(random, 0, 59, [1, 1, 2, 3])
    hours, hour_text = _field(random, 0, 23, [1, 1, 2, 4])
    days, day_text = (None, "*") if random.random() < 0.7 else _some(random, 1, 28, 3)
    months, month_text = (None, "*") if random.random() < 0.8 else _some(random, 1, 12, 6)
    weekdays, weekday_text = (None, "*") if random.random() < 0.7 else _some(random, 0, 6, 3)
    text = f"{minute_text} {hour_text} {day_text} {month_text} {weekday_text}"
    is_fixed = not minute_text.startswith("*") and not hour_text.startswith("*")
    return Wanted(minutes, hours, days, months, weekdays, is_fixed, text)


def _some(random: Random, low: int, high: int, most: int) -> tuple[frozenset[int], str]:
    chosen = sorted(random.sample(range(low, high + 1), random.randint(1, most)))
    return frozenset(chosen), ",".join(map(str, chosen))


def _field(random: Random, low: int, high: int, sizes: list[int]) -> tuple[frozenset[int], str]:
    shape = random.choice(["some", "some", "some", "star", "step", "range"])
    if shape == "some":
        return _some(random, low, high, random.choice(sizes))
    if shape == "star":
        return frozenset(range(low, high + 1)), "*"
    if shape == "step":
        step = random.choice([2, 3, 5, 15])
        return frozenset(range(low, high + 1, step)), f"*/{step}"
    first = random.randint(low, high)
    last = random.randint(first, high)
    return frozenset(range(first, last + 1)), f"{first}-{last}"


def due_times(wanted: Wanted, timezone: str, after: datetime, until: datetime) -> list[datetime]:
    """As cron does: catch up when clocks go forward, wait when they go back."""
    found = []
    furthest: datetime | None = None
    for instant, local in minutes(timezone, after - WARM_UP, until):
        if furthest is None:
            furthest = local - MINUTE
        due = False
        if wanted.is_fixed:
            while furthest < local:
                furthest += MINUTE
                due = due or wanted.matches(furthest)
        else:
            due = wanted.matches(local)
        if due and after < instant <= until:
            found.append(instant)
    return found


def minutes(timezone: str, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    zone = zones.zone(timezone)
    instant = start
    while instant <= end:
        yield instant, instant.astimezone(zone).replace(tzinfo=None, fold=0)
        instant += MINUTE


def inside(windows: Sequence[Window], local: datetime) -> bool:
    return any(_inside(window, local) for window in windows)


def _inside(window: Window, local: datetime) -> bool:
    clock, today = local.time(), local.weekday()
    if window.start < window.end:
        return today in window.days and window.start <= clock < window.end
    return (today in window.days and clock >= window.start) or ((today - 1) % 7 in window.days and clock < window.end)


def some_start(random: Random, timezone: str) -> datetime:
    """A minute between 1990 and 2040; often just before clocks change."""
    year = random.randint(1990, 2040)
    changes = zones.changes(timezone, year)
    if changes and random.random() < 0.7:
        return random.choice(changes).at - timedelta(minutes=random.randint(0, 2 * 24 * 60))
    return datetime(year, 1, 1, tzinfo=UTC) + timedelta(minutes=random.randint(0, 365 * 24 * 60 - 1))
