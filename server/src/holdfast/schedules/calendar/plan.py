"""A calendar: when a schedule is due."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Literal

from backup_engine.frozen import frozen
from holdfast.schedules.calendar import cron, interval

Mode = Literal["cron", "interval", "availability"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)


@frozen
class Calendar:
    """The columns of a schedule that decide when it is due."""

    mode: Mode
    cron_expression: str | None = None
    timezone: str = "UTC"
    interval_minutes: int | None = None
    starts_at: datetime | None = None
    availability_check_interval_minutes: int | None = None
    min_success_interval_minutes: int | None = None

    @property
    def expression(self) -> str:
        assert self.cron_expression is not None
        return self.cron_expression

    @property
    def every(self) -> timedelta:
        assert self.interval_minutes is not None
        return timedelta(minutes=self.interval_minutes)

    @property
    def start(self) -> datetime:
        return self.starts_at or EPOCH


def next_due(calendar: Calendar, after: datetime) -> datetime | None:
    """Return the first due time later than an instant. None: there is none, or evidence decides (availability)."""
    if calendar.mode == "cron":
        if calendar.starts_at is not None and after < calendar.starts_at:
            after = calendar.starts_at - INSTANT
        # Due times are whole minutes, so schedules with the same pattern share the result.
        return cron.next_after(calendar.expression, calendar.timezone, _minute(after))
    if calendar.mode == "interval":
        return interval.next_after(calendar.start, calendar.every, after)
    return None


def due_between(calendar: Calendar, after: datetime, until: datetime, most: int) -> list[datetime]:
    """Return the due times with after < due <= until, oldest first, at most `most` of them."""
    return list(islice(walk_between(calendar, after, until), most))


def due_of_all(calendars: Sequence[Calendar], after: datetime, until: datetime, most: int) -> list[datetime]:
    """Return the due times of several calendars; one that waits for its machine counts as often as it may run."""
    due = {moment for calendar in calendars for moment in due_between(_at_most(calendar, after), after, until, most)}
    return sorted(due)[:most]


def _at_most(calendar: Calendar, after: datetime) -> Calendar:
    if calendar.mode != "availability":
        return calendar
    return Calendar("interval", interval_minutes=calendar.min_success_interval_minutes, starts_at=after)


def walk_between(calendar: Calendar, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the due times with after < due <= until, computing each on demand."""
    if calendar.mode == "cron":
        after = max(after, calendar.start - INSTANT)
        walked = cron.walk(cron.parse(calendar.expression), calendar.timezone, after)
        yield from takewhile(lambda due: due <= until, walked)
    elif calendar.mode == "interval":
        due = interval.next_after(calendar.start, calendar.every, after)
        while due <= until:
            yield due
            due += calendar.every


def count_between(calendar: Calendar, after: datetime, until: datetime) -> int:
    """Return how many due times there are with after < due <= until, however long the span."""
    if calendar.mode == "cron":
        after = max(after, calendar.start - INSTANT)
        return cron.count(cron.parse(calendar.expression), calendar.timezone, after, until)
    if calendar.mode == "interval":
        return interval.count(calendar.start, calendar.every, after, until)
    return 0


def longest_gap(calendar: Calendar, start: datetime) -> timedelta:
    """Return the longest time between two due times in the coming year."""
    if calendar.mode == "cron":
        return cron.longest_gap(calendar.expression, calendar.timezone, _day(start))
    if calendar.mode == "interval":
        return calendar.every
    return timedelta(minutes=calendar.min_success_interval_minutes or 0)


def reason_of(calendar: Calendar, due: datetime) -> cron.Reason:
    """Return why a due time is when it is."""
    if calendar.mode != "cron":
        return "on_time"
    return cron.reason_of(cron.parse(calendar.expression), calendar.timezone, due)


def _minute(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(second=0, microsecond=0)


def _day(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
