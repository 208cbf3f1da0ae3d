"""Windows: the times in which work may start, as the clock in the schedule's time zone shows them.

A moment is inside a window when that clock shows a time within it. So a window inside a gap does not occur on that day,
and one inside a repeated hour occurs twice.
"""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta

from backup_engine.frozen import frozen
from holdfast.kit import zones

DAY = timedelta(days=1)
FARTHEST = timedelta(days=400)
"""A weekly window may fall into a gap when clocks change, but not for a whole year."""
WEEK = timedelta(days=7)
EVERY_DAY = frozenset(range(7))


@frozen
class Window:
    """From `start` (inclusive) to `end` (exclusive); an end that is not later than the start is on the next day."""

    days: frozenset[int] = EVERY_DAY
    """The days on which it opens; 0 is Monday."""
    start: time = time(0)
    end: time = time(0)
    """Midnight as the end means the end of the day."""
    upload_kib: int | None = None

    def on(self, day: date) -> tuple[datetime, datetime] | None:
        """Return when it opens and closes, if it opens on that day."""
        if day.weekday() not in self.days:
            return None
        opens, closes = datetime.combine(day, self.start), datetime.combine(day, self.end)
        return opens, closes if closes > opens else closes + DAY

    def shows(self, local: datetime) -> bool:
        """Whether it is inside the window when the clock shows this time."""
        spans = (self.on(local.date() - back * DAY) for back in (0, 1))
        return any(span is not None and span[0] <= local < span[1] for span in spans)


def opens_at(windows: Sequence[Window], timezone: str, moment: datetime) -> datetime | None:
    """Return the first moment from this one on that is inside a window; None if there is none."""
    if not windows or _inside(windows, timezone, moment):
        return moment
    return next((opens for opens, _ in _spans(windows, timezone, moment)), None)


class Openings:
    """Like `opens_at`, for many consecutive moments: each window is computed once, not for every moment."""

    def __init__(self, windows: Sequence[Window], timezone: str) -> None:
        self._windows = windows
        self._timezone = timezone
        self._asked: datetime | None = None
        self._spans: Iterator[tuple[datetime, datetime]] = iter(())
        self._span: tuple[datetime, datetime] | None = None
        """The first span that ends after the last moment."""

    def at(self, moment: datetime) -> datetime | None:
        if not self._windows:
            return moment
        if self._asked is None or not self._asked <= moment <= self._asked + WEEK:
            self._start_at(moment)
        self._asked = moment
        while self._span is not None and self._span[1] <= moment:
            self._span = next(self._spans, None)
        if self._span is None:  # the computed spans end here
            self._start_at(moment)
        return None if self._span is None else max(moment, self._span[0])

    def _start_at(self, moment: datetime) -> None:
        self._spans = _spans(self._windows, self._timezone, moment)
        self._span = next(self._spans, None)


def closes_at(windows: Sequence[Window], timezone: str, moment: datetime) -> datetime | None:
    """Return when the window around a moment closes; None if it is in no window, or none ever closes."""
    if not windows or not _inside(windows, timezone, moment):
        return None
    end = moment
    for opens, closes in _spans(windows, timezone, moment):
        if opens > end:
            return end
        end = max(end, closes)
    return None


def limit_at(windows: Sequence[Window], timezone: str, moment: datetime) -> int | None:
    """Return the upload limit at a moment: the lowest of the windows that it is in."""
    local = zones.to_local(timezone, moment)
    limits = [each.upload_kib for each in windows if each.upload_kib is not None and each.shows(local)]
    return min(limits, default=None)


def _inside(windows: Sequence[Window], timezone: str, moment: datetime) -> bool:
    local = zones.to_local(timezone, moment)
    return any(window.shows(local) for window in windows)


def _spans(windows: Sequence[Window], timezone: str, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the open spans that end after the moment, by when they open."""
    for stretch in zones.stretches(timezone, moment, moment + FARTHEST):
        day, last = stretch.local(stretch.start).date() - DAY, stretch.local(stretch.end).date()
        while day <= last:
            found = []
            for opens, closes in filter(None, (window.on(day) for window in windows)):
                start, end = max(stretch.instant(opens), stretch.start), min(stretch.instant(closes), stretch.end)
                if start < end:
                    found.append((start, end))
            yield from sorted(found)
            day += DAY
