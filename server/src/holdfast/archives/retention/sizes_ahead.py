"""The forecast of bytes for a repository: what it can be learned from, and the answer for each policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from holdfast.archives.retention import forecast
from holdfast.archives.retention.forecast import DAY, Law, Sample, Today
from holdfast.archives.retention.schemas import Forecast, ForecastPoint, NoForecast
from holdfast.archives.retention.simulate import KeptOn
from holdfast.kit.frozen import frozen
from holdfast.repositories import gone_archives
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.gone_archives import new_bytes_of

if TYPE_CHECKING:
    from holdfast.archives.history.index import HistoryIndex

AHEAD = (7, 30, 90)
"""Days. Beyond them there is no forecast."""
LAST_WITH_A_NUMBER = 30
"""Days. Later forecasts have only the range."""
MOST_GONE = 500
MOST_FAR = 8
MOST_ADDED = 60
"""Backups whose new bytes are added up from chunks, where the engine does not report them."""
GROWTH_DAYS = 30
LONGEST_PAST = timedelta(days=366)

Sets = Mapping[frozenset[str], int]


def days_ahead(now: datetime, until: date) -> list[date]:
    return [day for number in AHEAD if (day := now.date() + number * DAY) <= until]


def samples(session: Session, repository_id: int, archives: Sequence[Archive], now: datetime) -> list[Sample]:
    """New bytes of the backups of the last year, each over the time since the one before it, oldest first."""
    gone = gone_archives.since(session, repository_id, now - LONGEST_PAST, MOST_GONE)
    made = {one.engine_id: (one.start, one.new_bytes) for one in gone}
    made |= {one.engine_id: (one.start, new_bytes_of(one)) for one in archives}
    ordered = sorted(one for one in made.values() if now - LONGEST_PAST <= one[0] <= now)
    return [
        Sample((later[0] - earlier[0]) / DAY, float(later[1]))
        for earlier, later in pairwise(ordered)
        if later[1] is not None
    ]


@frozen
class Past:
    """What a forecast is learned from. Archives oldest first."""

    archives: Sequence[Archive]
    made: Sequence[Sample]
    unique_size: int | None

    def sets(self, kept: Iterable[KeptOn]) -> list[frozenset[str]]:
        """The sets of archives whose bytes have to be known."""
        pairs = [part for both in self._far() for part in (both[:1], both)]
        wanted = [self.archives, self.archives[-1:], *pairs, *(self.staying(one) for one in kept)]
        return list({frozenset(one.engine_id for one in archives): None for archives in wanted if archives})

    def _far(self) -> list[Sequence[Archive]]:
        """Neighbours that are further apart than backups usually are."""
        usual = median(sample.days for sample in self.made) if self.made else 0.0
        pairs = [
            both for both in pairwise(self.archives) if usual and (both[1].start - both[0].start) / DAY > 1.5 * usual
        ]
        return list(pairs[-MOST_FAR:])

    def staying(self, kept: KeptOn) -> list[Archive]:
        """Positions count from the newest archive."""
        return sorted((self.archives[-1 - place] for place in kept.positions), key=lambda one: (one.start, one.id))

    def forecast(self, kept: Mapping[date, KeptOn], now: datetime, stored: Sets | None) -> Forecast:
        reason = self._why_not(stored)
        law = None if reason else forecast.learn(self.made, self._measured(stored))
        if law is None:
            return Forecast(now=None, basis=None, points=[], reason=reason or "too_few_backups")
        today = self._today(law, stored)
        points = [self._point(law, today, day, one, now, stored) for day, one in kept.items()]
        return Forecast(now=round(today.bytes), basis="chunks" if stored else "sizes", points=points, reason=None)

    def _why_not(self, stored: Sets | None) -> NoForecast | None:
        if not self.archives:
            return "too_few_backups"
        if len({archive.series for archive in self.archives}) > 1:
            return "several_series"
        return "no_sizes" if stored is None and self.unique_size is None else None

    def _measured(self, stored: Sets | None) -> list[Sample]:
        if stored is None:
            return []
        return [
            Sample((both[1].start - both[0].start) / DAY, float(_of(stored, both) - _of(stored, both[:1])))
            for both in self._far()
        ]

    def _today(self, law: Law, stored: Sets | None) -> Today:
        starts = tuple(archive.start for archive in self.archives)
        if stored is not None:
            alone = float(_of(stored, self.archives[-1:]))
            return Today(starts, float(_of(stored, self.archives)), alone, self._growth(alone))
        now = float(self.unique_size or 0)
        alone = max(now - law.among(starts), 0.0)
        return Today(starts, now, None, self._growth(alone))

    def _growth(self, alone: float) -> float:
        """By how many stored bytes a single archive has grown in a day, of late."""
        newest = self.archives[-1]
        since = newest.start - GROWTH_DAYS * DAY
        known = [one for one in self.archives if one.original_size is not None and one.start >= since]
        if len(known) < 2 or not newest.original_size:
            return 0.0
        days = (known[-1].start - known[0].start) / DAY
        grown = (known[-1].original_size or 0) - (known[0].original_size or 0)
        return grown / days * min(alone / newest.original_size, 1.0) if days >= 1 else 0.0

    def _point(
        self, law: Law, today: Today, day: date, kept: KeptOn, now: datetime, stored: Sets | None
    ) -> ForecastPoint:
        staying = self.staying(kept)
        stays = float(_of(stored, staying)) if stored is not None and staying else None
        starts = [archive.start for archive in staying]
        found = forecast.estimate(law, self.made, today, starts, kept.coming, stays)
        is_near = (day - now.astimezone(UTC).date()).days <= LAST_WITH_A_NUMBER
        return ForecastPoint(day=day, bytes=found.bytes if is_near else None, low=found.low, high=found.high)


def _of(stored: Sets, archives: Collection[Archive]) -> int:
    return stored[frozenset(archive.engine_id for archive in archives)]


def samples_by_chunks(opened: HistoryIndex | None, archives: Sequence[Archive]) -> list[Sample]:
    """As `samples`, from the chunks of files, for an engine that reports no sizes. Archives oldest first."""
    last = archives[-MOST_ADDED - 1 :]
    found = opened.added([one.engine_id for one in last]) if opened is not None else None
    if found is None:
        return []
    return [
        Sample((later.start - earlier.start) / DAY, float(new))
        for (earlier, later), new in zip(pairwise(last), found[1:], strict=True)
    ]


def measured(opened: HistoryIndex | None, sets: Sequence[frozenset[str]]) -> Sets | None:
    """The bytes of sets of archives by the chunks of their files; None where these are not known."""
    found = opened.stored(sets) if opened is not None and sets else None
    return dict(zip(sets, found, strict=True)) if found is not None else None
