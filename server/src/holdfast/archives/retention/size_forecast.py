"""The forecast of a repository's bytes: what it is learned from, and the answer for each policy.

Each series has its own law, since a new archive mostly resembles the previous one in its series. If the chunks of files
are known, the bytes of kept archives are counted for all series together, as series of the same machine share much.
Pure: no store, no clock.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise
from statistics import median
from typing import Literal, TypeVar

from backup_engine.frozen import frozen
from holdfast.archives.retention import forecast
from holdfast.archives.retention.forecast import DAY, Guess, Law, Sample, Today
from holdfast.archives.retention.simulate import KeptArchives

AHEAD = (7, 30, 90)
"""Days ahead with a forecast."""
LAST_WITH_A_NUMBER = 30
"""Days. Later forecasts only have a range."""
MOST_FAR = 8
MOST_SERIES = 20
"""With more series there is no forecast: in some repositories, every archive has a series of its own."""
LAST_TURNS = 30
"""Number of backups that show in which order the series take turns."""
GROWTH_DAYS = 30

Sets = Mapping[frozenset[str], int]
Samples = Mapping[str, Sequence[Sample]]
"""By series, each oldest first."""


def days_ahead(now: datetime, until: date) -> list[date]:
    return [day for number in AHEAD if (day := now.date() + number * DAY) <= until]


NoForecast = Literal["too_few_backups", "several_series", "no_sizes"]


@frozen
class ForecastPoint:
    day: date
    bytes: int | None
    low: int
    high: int


@frozen
class Forecast:
    now: int | None
    basis: Literal["chunks", "sizes"] | None
    points: list[ForecastPoint]
    reason: NoForecast | None


@frozen
class SimulatedArchive:
    """The facts about an archive that simulations need."""

    id: int
    engine_id: str
    name: str
    start: datetime
    series: str
    original_size: int | None


@frozen
class RecentBackup:
    """A backup of the last year, whether or not its archive still exists."""

    start: datetime
    series: str
    new_bytes: int | None


Named = TypeVar("Named", SimulatedArchive, RecentBackup)


def samples(made: Sequence[RecentBackup]) -> Samples:
    """Return the new bytes of backups, each over the time since the previous one in its series."""
    return {
        series: [
            Sample((later.start - earlier.start) / DAY, float(later.new_bytes))
            for earlier, later in pairwise(of_series)
            if later.new_bytes is not None
        ]
        for series, of_series in _by_series(made).items()
    }


def series_to_come(made: Sequence[RecentBackup], coming: Sequence[datetime]) -> dict[datetime, str]:
    """Return the series of each future backup, assuming that the series continue to take turns as in the past."""
    turns = [one.series for one in made[-LAST_TURNS:]]
    if not turns:
        return {}
    length = next((number for number in range(1, len(turns) // 2 + 1) if turns[number:] == turns[:-number]), len(turns))
    return {start: turns[-length:][place % length] for place, start in enumerate(coming)}


def _by_series(found: Iterable[Named]) -> dict[str, list[Named]]:
    grouped: dict[str, list[Named]] = {}
    for one in found:
        grouped.setdefault(one.series, []).append(one)
    return grouped


@frozen
class _Part:
    """One series of what is kept on a day. Oldest first."""

    series: str
    staying: list[SimulatedArchive]
    coming: list[datetime]


@frozen
class ForecastData:
    """The data that a forecast is learned from. Archives are oldest first."""

    archives: Sequence[SimulatedArchive]
    made: Samples
    unique_size: int | None
    coming: Mapping[datetime, str]
    """The series of each future backup."""

    @property
    def series(self) -> dict[str, list[SimulatedArchive]]:
        return _by_series(self.archives)

    def sets(self, kept: Iterable[KeptArchives]) -> list[frozenset[str]]:
        """Return the sets of archives whose bytes must be known."""
        if len(self.series) > MOST_SERIES:
            return []
        pairs = [part for far in self._far().values() for both in far for part in (both[:1], both)]
        newest = [archives[-1:] for archives in self.series.values()]
        days = [archives for one in kept for archives in self._steps(one)]
        wanted = [self.archives, *newest, *pairs, *days]
        return list({frozenset(one.engine_id for one in archives): None for archives in wanted if archives})

    def _far(self) -> dict[str, list[Sequence[SimulatedArchive]]]:
        """Return neighbours in each series that are further apart than its backups usually are."""
        series = self.series
        return {name: self._far_in(name, archives, len(series)) for name, archives in series.items()}

    def _far_in(
        self, series: str, archives: Sequence[SimulatedArchive], count: int
    ) -> list[Sequence[SimulatedArchive]]:
        made = self.made.get(series, ())
        usual = median(sample.days for sample in made) if made else 0.0
        pairs = [both for both in pairwise(archives) if usual and (both[1].start - both[0].start) / DAY > 1.5 * usual]
        return list(pairs[-max(1, MOST_FAR // count) :])

    def staying(self, kept: KeptArchives) -> list[SimulatedArchive]:
        """Return the kept archives, oldest first. Positions count from the newest archive."""
        return sorted((self.archives[-1 - place] for place in kept.positions), key=lambda one: (one.start, one.id))

    def _parts(self, kept: KeptArchives) -> list[_Part]:
        staying = _by_series(self.staying(kept))
        coming: dict[str, list[datetime]] = {}
        for start in kept.coming:
            coming.setdefault(self.coming.get(start, ""), []).append(start)
        return [_Part(series, staying.get(series, []), coming.get(series, [])) for series in {**staying, **coming}]

    def _steps(self, kept: KeptArchives) -> list[list[SimulatedArchive]]:
        """Return the kept archives; then add, one by one, the newest archive of each series with only future backups
        left.
        """
        steps = [self.staying(kept)]
        series = self.series
        for part in self._parts(kept):
            if not part.staying and part.series in series:
                steps.append([*steps[-1], series[part.series][-1]])
        return steps

    # --- the answer ---------------------------------------------------------------------------------------------------

    def forecast(self, kept: Mapping[date, KeptArchives], now: datetime, stored: Sets | None) -> Forecast:
        laws = self._laws(stored)
        reason = self._why_not(laws, kept.values(), stored)
        if reason is not None:
            return Forecast(now=None, basis=None, points=[], reason=reason)
        today = self._today(laws, stored)
        points = [self._point(laws, today, day, one, now, stored) for day, one in kept.items()]
        size = _of(stored, self.archives) if stored is not None else round(float(self.unique_size or 0))
        return Forecast(now=size, basis="chunks" if stored else "sizes", points=points, reason=None)

    def _laws(self, stored: Sets | None) -> dict[str, Law]:
        """Return the laws of the series that have enough data to learn from."""
        if len(self.series) > MOST_SERIES:
            return {}
        far = self._far()
        found = {
            series: forecast.learn(self.made.get(series, ()), _measured(far[series], stored)) for series in self.series
        }
        return {series: law for series, law in found.items() if law is not None}

    def _why_not(self, laws: Mapping[str, Law], kept: Iterable[KeptArchives], stored: Sets | None) -> NoForecast | None:
        series = self.series
        if len(series) > MOST_SERIES:
            return "several_series"
        if series and stored is None and self.unique_size is None:
            return "no_sizes"
        growing = {part.series for one in kept for part in self._parts(one) if part.coming}
        unclear = {name for name, archives in series.items() if stored is None and len(archives) > 1}
        if not laws or any(name not in laws for name in growing | unclear):
            return "too_few_backups"
        has_shares = len(series) == 1 or all(archives[-1].original_size for archives in series.values())
        return None if stored is not None or has_shares else "several_series"

    def _today(self, laws: Mapping[str, Law], stored: Sets | None) -> dict[str, Today]:
        """Return the current facts about each series.

        Without chunks, the repository's bytes are distributed over the series by the sizes of their newest archives.
        """
        series = self.series
        starts = {name: tuple(archive.start for archive in archives) for name, archives in series.items()}
        if stored is not None:
            alone = {name: float(_of(stored, archives[-1:])) for name, archives in series.items()}
            return {name: Today(starts[name], alone[name], None, _growth(series[name], alone[name])) for name in series}
        later = {name: laws[name].among(starts[name]) if name in laws else 0.0 for name in series}
        rest = max(float(self.unique_size or 0) - sum(later.values()), 0.0)
        sizes = {name: float(archives[-1].original_size or 1) for name, archives in series.items()}
        found = {}
        for name, archives in series.items():
            alone_here = rest * sizes[name] / sum(sizes.values())
            found[name] = Today(starts[name], alone_here + later[name], None, _growth(archives, alone_here))
        return found

    def _point(
        self,
        laws: Mapping[str, Law],
        today: Mapping[str, Today],
        day: date,
        kept: KeptArchives,
        now: datetime,
        stored: Sets | None,
    ) -> ForecastPoint:
        parts = self._parts(kept)
        if stored is None:
            guesses = [self._by_law(part, laws.get(part.series), today[part.series]) for part in parts]
            found = forecast.together(guesses)
        else:
            steps = [float(_of(stored, archives)) if archives else 0.0 for archives in self._steps(kept)]
            first = iter([after - before for before, after in pairwise(steps)])
            guesses = [
                self._beyond(part, laws[part.series], today[part.series], 0.0 if part.staying else next(first))
                for part in parts
                if part.coming
            ]
            found = forecast.together(guesses, steps[0])
        is_near = (day - now.astimezone(UTC).date()).days <= LAST_WITH_A_NUMBER
        return ForecastPoint(day=day, bytes=found.bytes if is_near else None, low=found.low, high=found.high)

    def _by_law(self, part: _Part, law: Law | None, today: Today) -> Guess:
        if law is None:  # a single archive, and no future backups
            return Guess(today.bytes)
        starts = [archive.start for archive in part.staying]
        return forecast.guess(law, self.made[part.series], today, starts, part.coming)

    def _beyond(self, part: _Part, law: Law, today: Today, alone: float) -> Guess:
        """Return the bytes that a series needs beyond those of the kept archives.

        `alone`: what its newest archive adds to them, if none of its archives is kept.
        """
        starts = [archive.start for archive in part.staying]
        here = Today(today.starts, today.bytes, alone, today.growth)
        return forecast.guess(law, self.made[part.series], here, starts, part.coming, 0.0)


def _measured(far: Iterable[Sequence[SimulatedArchive]], stored: Sets | None) -> list[Sample]:
    if stored is None:
        return []
    return [
        Sample((both[1].start - both[0].start) / DAY, float(_of(stored, both) - _of(stored, both[:1]))) for both in far
    ]


def _growth(archives: Sequence[SimulatedArchive], alone: float) -> float:
    """Return the stored bytes by which a single archive of a series has recently grown per day."""
    newest = archives[-1]
    since = newest.start - GROWTH_DAYS * DAY
    known = [one for one in archives if one.original_size is not None and one.start >= since]
    if len(known) < 2 or not newest.original_size:
        return 0.0
    days = (known[-1].start - known[0].start) / DAY
    grown = (known[-1].original_size or 0) - (known[0].original_size or 0)
    return grown / days * min(alone / newest.original_size, 1.0) if days >= 1 else 0.0


def _of(stored: Sets, archives: Collection[SimulatedArchive]) -> int:
    return stored[frozenset(archive.engine_id for archive in archives)]
