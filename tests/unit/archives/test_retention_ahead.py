"""The simulated future of restore points, and the gaps between them."""

import random
import time
from datetime import UTC, datetime, timedelta

import pytest

from backup_engine.requests import RetentionPolicy
from backup_engine.retention import RULES, aged
from holdfast.archives.retention import expected_backups, simulate

NOW = datetime(2026, 11, 17, 3, tzinfo=UTC)
DAY = timedelta(days=1)


def daily(count: int) -> list[datetime]:
    return [NOW + (number + 1) * DAY for number in range(count)]


def test_the_simulation_equals_a_prune_after_every_daily_backup() -> None:
    policy = RetentionPolicy(keep_daily=3, keep_weekly=2)
    starts = daily(40)
    last = (NOW + 40 * DAY).date()

    whole = simulate.simulate_policy([], starts, policy, major=1, now=NOW, until=last)

    there: list[datetime] = []
    for start in starts:
        there = [start, *there]
        staying = simulate.kept_now([aged(each) for each in there], policy, 1, start)
        there = [each for position, each in enumerate(there) if position in staying]
    assert list(whole.restore_points) == there
    assert whole.counts[0] == (NOW.date(), 0)
    assert whole.counts[-1] == (last, len(there))


@pytest.mark.parametrize("seed", range(150))
def test_the_archives_of_each_day_are_those_that_daily_prunes_would_leave(seed: int) -> None:
    chance = random.Random(seed)
    major = chance.choice((1, 2))
    names = chance.sample([name for name, _ in RULES], chance.randint(1, 4))
    counts = {name: chance.choice((1, 2, 5, 20, 400)) for name in names}
    within = chance.choice(("12H", "9d", "2m")) if major == 1 and chance.random() < 0.4 else None
    policy = RetentionPolicy(**counts, keep_within=within)
    past = [NOW - chance.randint(-30, 4000) * chance.choice((DAY, timedelta(hours=1))) for _ in range(60)]
    archives = [aged(each) for each in sorted(past, reverse=True)]
    starts = sorted(NOW + chance.randint(1, 24 * 50) * timedelta(hours=1) for _ in range(chance.choice((0, 5, 150))))
    spared = set(chance.sample(range(60), chance.choice((0, 0, 3))))
    last = (NOW + 50 * DAY).date()
    days = [NOW.date() + number * DAY for number in range(51)]

    found = simulate.simulate_policy(
        archives, starts, policy, major=major, now=NOW, until=last, watched=days, spared=spared
    )

    there, places = archives, {id(each): place for place, each in enumerate(archives)}
    for day, count in found.counts:
        if made := [aged(each) for each in starts if each.date() == day]:
            there = sorted([*made, *there], key=lambda each: each.start, reverse=True)
            here = [place for place, each in enumerate(there) if places.get(id(each)) in spared]
            end = datetime(day.year, day.month, day.day, tzinfo=UTC) + DAY
            staying = simulate.kept_now(there, policy, major, end, here)
            there = [each for place, each in enumerate(there) if place in staying]
        assert count == len(there)
        assert found.kept_on[day].positions == tuple(places[id(each)] for each in there if id(each) in places)
        assert found.kept_on[day].coming == tuple(each.start for each in reversed(there) if id(each) not in places)
    assert found.restore_points == tuple(each.start for each in there)


def test_two_years_with_thousands_of_archives_are_simulated_quickly() -> None:
    archives = [aged(NOW - number * timedelta(hours=1)) for number in range(2_500)]
    policy = RetentionPolicy(keep_last=2_000, keep_daily=1_000)
    began = time.process_time()
    found = simulate.simulate_policy(archives, daily(731), policy, major=1, now=NOW, until=(NOW + 731 * DAY).date())
    assert len(found.restore_points) > 1_000
    assert time.process_time() - began < 0.4


def test_two_years_of_daily_backups_are_simulated() -> None:
    policy = RetentionPolicy(keep_daily=14, keep_weekly=8, keep_monthly=12, keep_yearly=2)
    found = simulate.simulate_policy([], daily(731), policy, major=2, now=NOW, until=(NOW + 731 * DAY).date())
    assert len(found.counts) == 732
    assert found.restore_points[0] == NOW + 731 * DAY


def test_a_simulation_that_would_take_too_long_stops_and_reports_the_last_day_that_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulate, "MOST_LOOKS", 40_000)
    starts = [NOW + number * timedelta(minutes=60) for number in range(17_000)]
    policy = RetentionPolicy(keep_within="9y")
    with pytest.raises(simulate.TooMuch) as raised:
        simulate.simulate_policy([], starts, policy, major=1, now=NOW, until=(NOW + 730 * DAY).date())

    fits_until = raised.value.fits_until
    assert simulate.simulate_policy([], starts, policy, major=1, now=NOW, until=fits_until).counts[-1][0] == fits_until
    with pytest.raises(simulate.TooMuch):
        simulate.simulate_policy([], starts, policy, major=1, now=NOW, until=fits_until + DAY)


def test_archives_dated_in_the_future_keep_their_place_and_do_not_stop_the_simulation() -> None:
    claimed, last = datetime.max.replace(tzinfo=UTC), NOW + 9 * DAY
    found = simulate.simulate_policy(
        [aged(claimed)], daily(9), RetentionPolicy(keep_last=2), major=1, now=NOW, until=last.date()
    )
    assert found.restore_points == (claimed, last)
    assert expected_backups.regular("past", DAY, claimed, NOW, NOW + 2 * DAY).starts[0] == NOW + DAY


def test_a_retention_span_beyond_the_calendar_keeps_everything() -> None:
    archives = [aged(NOW - number * 300 * DAY) for number in range(5)]
    assert len(simulate.kept_now(archives, RetentionPolicy(keep_within="999999y"), 1, NOW)) == 5


def test_gaps_are_grouped_by_age_and_include_the_age_of_the_newest_point() -> None:
    end = datetime(2026, 11, 18, tzinfo=UTC)
    points = [end - 2 * DAY, end - 3 * DAY, end - 20 * DAY, end - 400 * DAY]
    assert simulate.gaps(points, NOW.date()) == [
        ("day", 2 * DAY),
        ("week", 17 * DAY),
        ("month", 380 * DAY),
    ]
    assert simulate.gaps([], NOW.date()) == []


@pytest.mark.parametrize(
    ("last", "first"),
    [(None, NOW + DAY), (NOW - timedelta(hours=1), NOW + timedelta(hours=23)), (NOW - 9 * DAY, NOW + DAY)],
)
def test_regular_backups_are_counted_from_the_last_one(last: datetime | None, first: datetime) -> None:
    found = expected_backups.regular("past", DAY, last, NOW, NOW + 3 * DAY)
    assert found.starts[0] == first
    assert all(NOW < start <= NOW + 3 * DAY for start in found.starts)
    assert len(found.starts) == 3


def test_a_usual_interval_needs_three_archives_over_a_day_and_is_at_least_five_minutes() -> None:
    starts = [NOW - number * timedelta(hours=6) for number in range(9)]
    assert expected_backups.usual_interval(starts) == timedelta(hours=6)
    assert expected_backups.usual_interval(starts[:2]) is None
    assert expected_backups.usual_interval([NOW, NOW, NOW, NOW - DAY]) == timedelta(minutes=5)
    assert expected_backups.usual_interval([NOW - number * timedelta(seconds=40) for number in range(4)]) is None
