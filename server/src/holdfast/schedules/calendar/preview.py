"""What will happen at due times, by the same rules as the tick but without a store."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal, Protocol

from backup_engine.frozen import frozen
from holdfast.kit import zones
from holdfast.schedules.calendar import blackouts, cron, spread, windows
from holdfast.schedules.calendar.blackouts import Blackout
from holdfast.schedules.calendar.plan import Calendar, next_due, reason_of, walk_between
from holdfast.schedules.calendar.windows import Window

Reason = Literal["on_time", "moved_by_dst", "first_of_two", "window_opens", "window_closed", "blackout", "snoozed"]
WINDOW_LOOK = 400
"""If a window has not opened after this many due times, it is assumed never to open."""
MINUTES_OF_A_DAY, MINUTES_OF_AN_HOUR = 24 * 60, 60


@frozen
class Place:
    """A repository as a target."""

    repository_id: int
    uuid: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@frozen
class Conditions:
    """Everything that decides what happens at a due time and is known in advance."""

    calendar: Calendar
    uuid: str
    spread_minutes: int = 0
    windows: Sequence[Window] = ()
    blackouts: Sequence[Blackout] = ()
    snoozed_until: datetime | None = None


@frozen
class Fire:
    due_at: datetime
    start_at: datetime | None
    """When the first target starts; None if none will."""
    targets: tuple[tuple[Place, datetime | None], ...]
    reason: Reason


class Forecast:
    """The fires of one schedule."""

    def __init__(self, conditions: Conditions, places: Sequence[Place]) -> None:
        self.conditions = conditions
        minutes, timezone = conditions.spread_minutes, conditions.calendar.timezone
        self._places = [(place, spread.offset(conditions.uuid, place.uuid, minutes)) for place in places]
        self._earliest = min((offset for _, offset in self._places), default=timedelta(0))
        self._openings = {offset: windows.Openings(conditions.windows, timezone) for _, offset in self._places}
        """By offset from the due time, so that each is queried for increasing moments."""

    def after(self, instant: datetime, count: int) -> list[Fire]:
        """Return the next fires."""
        return [self.at(due, following) for due, following in _following(self._due_after(instant, count + 1))][:count]

    def between(self, after: datetime, until: datetime, most: int) -> Iterator[Fire]:
        """Yield the fires with after < due <= until, computing each on demand."""
        return (self.at(due, following) for due, following in self.due_between(after, until, most))

    def due_between(self, after: datetime, until: datetime, most: int) -> Iterator[tuple[datetime, datetime | None]]:
        """Yield the due times with after < due <= until, each with the one that follows it."""
        before: datetime | None = None
        for due in islice(walk_between(self.conditions.calendar, after, until), most):
            if before is not None:
                yield before, due
            before = due
        if before is not None:
            yield before, next_due(self.conditions.calendar, before)

    def _due_after(self, instant: datetime, count: int) -> Iterator[datetime]:
        due: datetime | None = instant
        for _ in range(count):
            due = next_due(self.conditions.calendar, due) if due is not None else None
            if due is not None:
                yield due

    def at(self, due: datetime, following: datetime | None) -> Fire:
        """Given a due time and the one that follows it, return what happens."""
        known = self.conditions
        if known.snoozed_until is not None and due < known.snoozed_until:
            return Fire(due, None, self._without_start(), "snoozed")
        reason: Reason = reason_of(known.calendar, due)
        if not known.windows and not known.blackouts:
            return Fire(due, due + self._earliest, tuple((p, due + offset) for p, offset in self._places), reason)
        return self._judged(due, following, reason)

    def _judged(self, due: datetime, following: datetime | None, reason: Reason) -> Fire:
        starts: list[tuple[Place, datetime | None]] = []
        refused: set[Reason] = set()
        moved = False
        holding = blackouts.holding(self.conditions.blackouts, due)
        opens = {offset: self._start(due, offset, following) for offset in self._openings}
        for place, offset in self._places:
            if any(blackouts.has_labels(each.labels, place.labels) for each in holding):
                refused.add("blackout")
                starts.append((place, None))
                continue
            start = opens[offset]
            if start is None:
                refused.add("window_closed")
            moved = moved or (start is not None and start > due + offset)
            starts.append((place, start))
        first = min((start for _, start in starts if start is not None), default=None)
        if first is None and refused:
            reason = "blackout" if "blackout" in refused else "window_closed"
        elif moved:
            reason = "window_opens"
        return Fire(due, first, tuple(starts), reason)

    def _start(self, due: datetime, offset: timedelta, following: datetime | None) -> datetime | None:
        opens = self._openings[offset].at(due + offset)
        return opens if opens is not None and (following is None or opens < following) else None

    def _without_start(self) -> tuple[tuple[Place, datetime | None], ...]:
        return tuple((place, None) for place, _ in self._places)


class Placed(Protocol):
    """A target, reduced to what decides when its work starts."""

    @property
    def uuid(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


class FirstStarts:
    """Finds when the first target starts, by the rules of `Forecast`, while examining as few targets as possible."""

    def __init__(self, conditions: Conditions, places: Sequence[Placed]) -> None:
        self._conditions = conditions
        self._places = places
        self._openings: dict[timedelta, windows.Openings] = {}
        self._known: dict[tuple[int, ...], Collection[timedelta]] = {}
        """By the positions of the blackouts in force: the offsets of targets that none of them covers."""

    def after(self, instant: datetime, count: int) -> datetime | None:
        """Return the first start among the next due times; `count` limits how many are examined."""
        due = next_due(self._conditions.calendar, instant)
        for _ in range(count):
            if due is None:
                return None
            following = next_due(self._conditions.calendar, due)
            start = self._at(due, following)
            if start is not None:
                return start
            due = following
        return None

    def _at(self, due: datetime, following: datetime | None) -> datetime | None:
        known = self._conditions
        if known.snoozed_until is not None and due < known.snoozed_until:
            return None
        if not known.windows and not known.blackouts:
            return due + self._earliest()
        holding = [place for place, each in enumerate(known.blackouts) if blackouts.holding([each], due)]
        starts = (self._start(due, offset, following) for offset in self._offsets(tuple(holding)))
        return min((start for start in starts if start is not None), default=None)

    def _start(self, due: datetime, offset: timedelta, following: datetime | None) -> datetime | None:
        if offset not in self._openings:
            self._openings[offset] = windows.Openings(self._conditions.windows, self._conditions.calendar.timezone)
        opens = self._openings[offset].at(due + offset)
        return opens if opens is not None and (following is None or opens < following) else None

    def _earliest(self) -> timedelta:
        if self._conditions.spread_minutes <= 0:
            return timedelta(0)
        earliest = None
        for place in self._places:
            offset = self._offset(place)
            if earliest is None or offset < earliest:
                earliest = offset
            if not earliest:
                break
        return earliest or timedelta(0)

    def _offsets(self, holding: tuple[int, ...]) -> Collection[timedelta]:
        if holding not in self._known:
            covering = [self._conditions.blackouts[place].labels for place in holding]
            free = (
                place
                for place in (self._places if all(covering) else ())
                if not any(blackouts.has_labels(labels, place.labels) for labels in covering)
            )
            if self._conditions.spread_minutes <= 0:
                self._known[holding] = [timedelta(0) for _ in islice(free, 1)]
            else:
                self._known[holding] = {self._offset(place) for place in free}
        return self._known[holding]

    def _offset(self, place: Placed) -> timedelta:
        return spread.offset(self._conditions.uuid, place.uuid, self._conditions.spread_minutes)


def _following(due: Iterable[datetime]) -> Iterator[tuple[datetime, datetime | None]]:
    known = list(due)
    return zip(known, [*known[1:], None], strict=True)


def ever_in_window(calendar: Calendar, chosen: Sequence[Window], now: datetime) -> bool:
    """Whether a window opens between any due time and the next one."""
    if not chosen or calendar.mode == "availability":
        return True
    due, openings = next_due(calendar, now), windows.Openings(chosen, calendar.timezone)
    for _ in range(WINDOW_LOOK):
        if due is None:
            return False
        following = next_due(calendar, due)
        opens = openings.at(due)
        if opens is not None and (following is None or opens < following):
            return True
        due = following
    return False


def explain(calendar: Calendar) -> str:
    """Return the schedule's times as text."""
    if calendar.mode == "cron":
        return f"{cron.explain(calendar.expression)} ({calendar.timezone})"
    if calendar.mode == "interval":
        return (
            f"Every {length(calendar.interval_minutes or 0).removeprefix('1 ')}, counted from "
            f"{calendar.start:%Y-%m-%d %H:%M} UTC"
        )
    gap = length(calendar.min_success_interval_minutes or 0)
    return f"When the machine is available and the last success is older than {gap}"


def length(minutes: int) -> str:
    """Return a number of minutes in words."""
    for size, word in ((MINUTES_OF_A_DAY, "day"), (MINUTES_OF_AN_HOUR, "hour")):
        if minutes and minutes % size == 0:
            return f"1 {word}" if minutes == size else f"{minutes // size} {word}s"
    return f"{minutes} minutes"


def changed_clocks(calendar: Calendar, fires: Iterable[datetime]) -> Iterator[str]:
    """Yield a sentence for each due time that is moved by a clock change."""
    for due in fires:
        local = zones.to_local(calendar.timezone, due)
        reason = reason_of(calendar, due)
        if reason == "moved_by_dst":
            yield f"On {local:%Y-%m-%d} the clocks skip the usual time; that run is due at {local:%H:%M}."
        elif reason == "first_of_two":
            yield f"On {local:%Y-%m-%d} the clocks show {local:%H:%M} twice; the run is due once, the first time."
