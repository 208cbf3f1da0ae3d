"""How many bytes a policy will need: for what is kept, and for new restore points.

The longer the time since the previous restore point, the more bytes a new one adds, but less than proportionally: data
that changes daily is added only once, however long the gap. So the new bytes over a gap follow a power law, which is
learned from the past. Pure: no store, no clock.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from math import log, sqrt
from statistics import mean, pstdev

from backup_engine.frozen import frozen

FEWEST_SAMPLES, SHORTEST_PAST = 7, 7.0
"""Minimum number of backups with known new bytes, and minimum days from the first to the last, to learn from."""
LAST_SAMPLES = 90
USUAL_EXPONENT, USUAL_SPREAD = 0.8, 0.15
"""Used if all gaps are equal, since they then do not show how new bytes depend on the gap."""
EXPONENTS = 0.1, 1.1
NINETY_PERCENT = 1.645
DAY = timedelta(days=1)


@frozen
class Sample:
    """New bytes over a gap."""

    days: float
    bytes: float


@frozen
class Law:
    """New bytes over a gap of `days`: the factor times days to the power of the exponent."""

    factor: float
    exponent: float
    exponent_spread: float
    noise: float
    """Standard deviation of one restore point's new bytes, relative to those of the law."""
    samples: int

    def over(self, days: float) -> float:
        return float(self.factor * max(days, 0.0) ** self.exponent)

    def among(self, moments: Sequence[datetime]) -> float:
        """Return the new bytes of all restore points except the first, given oldest first."""
        return sum(self.over((later - earlier) / DAY) for earlier, later in pairwise(moments))


@frozen
class Guess:
    """The bytes of one series, with their standard deviation."""

    bytes: float
    doubt: float = 0.0


@frozen
class Estimate:
    bytes: int
    low: int
    high: int


@frozen
class Today:
    """The current facts about the repository, or about one of its series."""

    starts: tuple[datetime, ...]
    """Start times of the archives, oldest first."""
    bytes: float
    newest_alone: float | None = None
    """Bytes that the newest archive would need by itself; None if unknown."""
    growth: float = 0.0
    """Bytes by which a single archive grows per day."""


def learn(made: Sequence[Sample], far: Sequence[Sample] = ()) -> Law | None:
    """Return the law, learned from the new bytes of backups as they were made, and from gaps measured in another way.

    Return None if there is too little to learn from.
    """
    made = [one for one in made if one.days > 0 and one.bytes >= 0][-LAST_SAMPLES:]
    if (
        len(made) < FEWEST_SAMPLES
        or sum(one.days for one in made) < SHORTEST_PAST
        or not any(one.bytes for one in made)
    ):
        return None
    exponent, spread = _exponent([*made, *far])
    return _fitted(made, exponent, spread)


def _fitted(made: Sequence[Sample], exponent: float, spread: float) -> Law:
    """Fit the factor to the total of the added bytes: the forecast is a sum, so it needs means, not medians."""
    factor = sum(one.bytes for one in made) / sum(one.days**exponent for one in made)
    usual = mean(one.days**exponent for one in made) * factor
    noise = pstdev([one.bytes - factor * one.days**exponent for one in made]) / usual
    return Law(factor, exponent, spread, noise, len(made))


def _exponent(samples: Sequence[Sample]) -> tuple[float, float]:
    points = [(log(one.days), log(one.bytes)) for one in samples if one.bytes > 0 and one.days > 0]
    x, y = mean(point[0] for point in points), mean(point[1] for point in points)
    width = sum((point[0] - x) ** 2 for point in points)
    if len(points) < FEWEST_SAMPLES or width < 1.0:
        return USUAL_EXPONENT, USUAL_SPREAD
    slope = sum((one - x) * (other - y) for one, other in points) / width
    left = [other - y - slope * (one - x) for one, other in points]
    spread = sqrt(sum(one**2 for one in left) / max(len(left) - 2, 1) / width)
    # The prior counts as one more measurement.
    weight = spread**2 / (spread**2 + USUAL_SPREAD**2)
    found = slope + (USUAL_EXPONENT - slope) * weight
    return min(max(found, EXPONENTS[0]), EXPONENTS[1]), sqrt(1 / (1 / max(spread, 1e-6) ** 2 + 1 / USUAL_SPREAD**2))


def together(guesses: Sequence[Guess], known: float = 0.0) -> Estimate:
    """Add the bytes of several series, whose backups are independent of each other, and the known bytes."""
    middle = known + sum(one.bytes for one in guesses)
    aside = NINETY_PERCENT * sqrt(sum(one.doubt**2 for one in guesses)) + 0.01 * middle
    return Estimate(round(middle), max(0, round(middle - aside)), round(middle + aside))


def guess(
    law: Law,
    made: Sequence[Sample],
    today: Today,
    staying: Sequence[datetime],
    coming: Sequence[datetime],
    stays: float | None = None,
) -> Guess:
    """Return the bytes of the kept restore points of a series: current archives and future backups, each oldest first.

    `stays` is what the kept archives need, if it was measured.
    """
    middle = _bytes(law, today, staying, coming, stays)
    flat, steep = (
        _bytes(_fitted(made, max(law.exponent + side * law.exponent_spread, 0.0), 0.0), today, staying, coming, stays)
        for side in (-1, 1)
    )
    by_exponent = abs(steep - flat) / 2
    gaps = [law.over((later - earlier) / DAY) for earlier, later in pairwise([*staying[-1:], *coming])]
    by_chance = law.noise * sqrt(sum(one**2 for one in gaps) + sum(gaps) ** 2 / law.samples)
    return Guess(middle, sqrt(by_exponent**2 + by_chance**2))


def _bytes(
    law: Law, today: Today, staying: Sequence[datetime], coming: Sequence[datetime], stays: float | None
) -> float:
    if not staying and not coming:
        return 0.0
    alone = _newest_alone(law, today)
    if not staying:
        first = alone + today.growth * max((coming[0] - today.starts[-1]) / DAY, 0.0)
        return max(first, 0.0) + law.among(coming)
    if stays is None:
        oldest = alone - today.growth * max((today.starts[-1] - staying[0]) / DAY, 0.0)
        stays = min(max(oldest, 0.0) + law.among(staying), today.bytes)
    return stays + law.among([staying[-1], *coming])


def _newest_alone(law: Law, today: Today) -> float:
    """Return the bytes of the newest archive alone.

    By the law, whatever later archives did not add was there at first, and has grown since.
    """
    if today.newest_alone is not None:
        return today.newest_alone
    age = (today.starts[-1] - today.starts[0]) / DAY
    return max(today.bytes - law.among(today.starts) + today.growth * age, 0.0)
