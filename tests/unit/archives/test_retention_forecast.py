"""The forecast of bytes, compared with made-up histories whose future is known."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from backup_engine.requests import RetentionPolicy
from backup_engine.retention import aged
from holdfast.archives.retention import forecast, simulate
from holdfast.archives.retention.forecast import Sample, Today

NIGHT = datetime(2026, 1, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
PAST = 60
POLICIES = (
    RetentionPolicy(keep_daily=7),
    RetentionPolicy(keep_daily=7, keep_weekly=4),
    RetentionPolicy(keep_daily=14, keep_weekly=8, keep_monthly=6),
    RetentionPolicy(keep_weekly=8, keep_monthly=12),
)


def estimate(*given: Any) -> forecast.Estimate:
    return forecast.together([forecast.guess(*given)])


@dataclass
class Machine:
    """Files that change at their own rates, some often; new files appear, and there is an occasional busy day."""

    seed: int

    def __post_init__(self) -> None:
        generator = np.random.default_rng(self.seed)
        files, days = 1500, PAST + 91
        self.sizes = np.exp(generator.normal(10, 1.5, files))
        rates = np.minimum(np.exp(generator.normal(-4.5, 1.5, files)), 3.0)
        activity = np.exp(generator.normal(0, 0.4, days)) * np.where(generator.random(days) < 0.02, 4.0, 1.0)
        changed = generator.random((days, files)) < 1 - np.exp(-rates * activity[:, None])
        self.versions = np.cumsum(changed, axis=0)
        born = np.where(generator.random(files) < 0.2, generator.integers(0, days * 2, files), -1)
        self.versions[np.arange(days)[:, None] < born] = -1

    def stored(self, days: Sequence[int]) -> float:
        """Bytes of the archives of these days: each version of a file counts once."""
        seen = np.sort(self.versions[list(days)], axis=0)
        distinct = (np.diff(seen, axis=0) != 0).sum(axis=0) + 1 - (seen[0] < 0)
        return float((distinct * self.sizes).sum())

    def new_bytes(self, day: int) -> float:
        return self.stored([day - 1, day]) - self.stored([day - 1])


def at(day: int) -> datetime:
    return NIGHT + day * DAY


def number_of(moment: datetime) -> int:
    return (moment - NIGHT) // DAY


def kept_after(policy: RetentionPolicy, last: int) -> list[int]:
    """The days whose archives remain after daily backups and prunes up to a day."""
    there = [aged(at(0))]
    done = simulate.simulate_policy(
        there, [at(day) for day in range(1, last + 1)], policy, major=1, now=at(0), until=at(last).date()
    )
    return sorted(number_of(start) for start in done.restore_points)


def forecast_error(machine: Machine, policy: RetentionPolicy, ahead: int, *, measured: bool) -> tuple[float, bool]:
    """The relative error of the forecast, and whether the true value is within its range."""
    now = kept_after(policy, PAST)
    later = kept_after(policy, PAST + ahead)
    made = [Sample(1.0, machine.new_bytes(day)) for day in range(1, PAST + 1)]
    far = [
        Sample(float(newer - older), machine.stored([older, newer]) - machine.stored([older]))
        for older, newer in pairwise(now)
        if measured and newer - older > 1
    ]
    law = forecast.learn(made, far)
    assert law is not None
    growth = (machine.stored([PAST]) - machine.stored([PAST - 30])) / 30
    today = Today(
        tuple(at(day) for day in now), machine.stored(now), machine.stored([now[-1]]) if measured else None, growth
    )
    staying, coming = [day for day in later if day <= PAST], [day for day in later if day > PAST]
    stays = machine.stored(staying) if measured and staying else None
    found = estimate(law, made, today, [at(day) for day in staying], [at(day) for day in coming], stays)
    truth = machine.stored(later)
    return abs(found.bytes - truth) / truth, found.low <= truth <= found.high


def errors(ahead: int, *, measured: bool, machines: range) -> tuple[list[float], float]:
    found = [
        forecast_error(Machine(seed), policy, ahead, measured=measured) for seed in machines for policy in POLICIES
    ]
    return sorted(error for error, _ in found), sum(inside for _, inside in found) / len(found)


def percentile(values: list[float], percent: int) -> float:
    return values[min(len(values) - 1, len(values) * percent // 100)]


@pytest.mark.parametrize("measured", [True, False])
def test_nine_of_ten_forecasts_of_30_days_are_within_ten_percent(measured: bool) -> None:
    found, inside = errors(30, measured=measured, machines=range(8))

    assert percentile(found, 50) <= 0.05
    assert percentile(found, 90) <= 0.10
    assert inside >= 0.85


def test_the_true_value_after_90_days_is_mostly_within_the_range() -> None:
    _, inside = errors(90, measured=True, machines=range(8))

    assert inside >= 0.8


def test_a_growth_law_is_learned_from_backups_at_different_intervals() -> None:
    made = [Sample(days, 100.0 * days**0.5) for days in (1, 2, 4, 7, 1, 14, 30, 1, 2)]

    law = forecast.learn(made)

    assert law is not None
    assert law.exponent == pytest.approx(0.5, abs=0.01)
    assert law.over(9) == pytest.approx(300, rel=0.03)
    assert law.among([at(0), at(4), at(13)]) == pytest.approx(200 + 300, rel=0.03)


@pytest.mark.parametrize(
    "made",
    [
        [],
        [Sample(1, 10.0)] * 6,
        [Sample(0.1, 10.0)] * 20,
        [Sample(1, 0.0)] * 20,
        [Sample(0, 10.0)] * 20,
    ],
)
def test_nothing_is_learned_from_too_little_data(made: list[Sample]) -> None:
    assert forecast.learn(made) is None


def test_measured_bytes_of_remaining_archives_are_used_instead_of_a_forecast() -> None:
    made = [Sample(1.0, 10.0)] * 10
    law = forecast.learn(made)
    assert law is not None
    today = Today((at(0), at(1), at(2)), 1020.0, 1000.0)

    assert estimate(law, made, today, [at(0), at(2)], [], 1015.0).bytes == 1015
    assert estimate(law, made, today, [at(0), at(2)], [at(3), at(4)], 1015.0).bytes == 1035
    assert estimate(law, made, today, [], [], None).bytes == 0
    assert estimate(law, made, today, [at(0), at(1), at(2)], [], None).bytes <= 1020


def test_the_range_is_wider_for_irregular_backups_and_further_ahead() -> None:
    generator = random.Random(1)
    even, odd = [Sample(1.0, 100.0)] * 30, [Sample(1.0, generator.expovariate(1 / 100)) for _ in range(30)]
    today = Today((at(0),), 1000.0, 1000.0)

    def width(made: list[Sample], days: int) -> int:
        law = forecast.learn(made)
        assert law is not None
        found = estimate(law, made, today, [at(0)], [at(day) for day in range(1, days + 1)], 1000.0)
        assert found.low <= found.bytes <= found.high
        return found.high - found.low

    assert width(even, 30) < width(odd, 30) < width(odd, 90)
