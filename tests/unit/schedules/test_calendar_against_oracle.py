"""Due times and windows equal those of a walk over every minute: many zones, 1990 to 2040, random patterns."""

from datetime import datetime, time, timedelta
from itertools import pairwise
from random import Random

import pytest

from holdfast.kit.zones import is_repeated, to_local
from holdfast.schedules.calendar import windows
from holdfast.schedules.calendar.plan import Calendar, count_between, due_between, longest_gap, next_due, reason_of
from holdfast.schedules.calendar.windows import Window
from tests.unit.schedules import oracle

SPAN = timedelta(days=2)
ROUNDS = 8
CAMPAIGN_ROUNDS = 400


@pytest.mark.parametrize("timezone", oracle.ZONES)
def test_due_times_equal_those_of_a_walk_over_every_minute(timezone: str) -> None:
    random = Random(f"due {timezone}")
    for _ in range(ROUNDS):
        _compare_due_times(random, timezone)


@pytest.mark.parametrize("timezone", oracle.ZONES)
def test_windows_equal_those_of_a_wall_clock(timezone: str) -> None:
    random = Random(f"windows {timezone}")
    for _ in range(ROUNDS):
        _compare_windows(random, timezone)


@pytest.mark.campaign
@pytest.mark.parametrize("timezone", oracle.ZONES)
def test_many_due_times_and_windows_equal_those_of_the_walk(timezone: str) -> None:
    random = Random(f"campaign {timezone}")
    for _ in range(CAMPAIGN_ROUNDS):
        _compare_due_times(random, timezone)
        _compare_windows(random, timezone)


def test_the_longest_gap_is_the_longest_of_all_gaps() -> None:
    random = Random("gaps")
    for _ in range(20):
        wanted = oracle.some_pattern(random)
        timezone = random.choice(oracle.ZONES)
        start = oracle.some_start(random, timezone).replace(hour=0, minute=0)
        calendar = Calendar("cron", wanted.text, timezone)
        until = start + timedelta(days=366)
        due = due_between(calendar, start, until, 600_000)
        while len(due) < 2 or due[-1] <= until:
            following = next_due(calendar, due[-1] if due else start)
            assert following is not None
            due.append(following)
        longest = max(later - earlier for earlier, later in pairwise(due))
        assert longest_gap(calendar, start) == longest, (wanted.text, timezone, start)


def _compare_due_times(random: Random, timezone: str) -> None:
    wanted = oracle.some_pattern(random)
    start = oracle.some_start(random, timezone)
    end = start + SPAN
    case = (wanted.text, timezone, start)
    calendar = Calendar("cron", wanted.text, timezone)
    expected = oracle.due_times(wanted, timezone, start, end)
    assert due_between(calendar, start, end, 100_000) == expected, case
    assert count_between(calendar, start, end) == len(expected), case
    after = start + timedelta(seconds=random.randint(0, int(SPAN.total_seconds())))
    later = [due for due in expected if due > after]
    found = next_due(calendar, after)
    assert found is not None
    assert (found == later[0]) if later else (found > end), case
    for due in expected[:50]:
        assert reason_of(calendar, due) == _expected_reason(wanted, timezone, due), (*case, due)


def _expected_reason(wanted: oracle.Wanted, timezone: str, due: datetime) -> str:
    local = to_local(timezone, due)
    if not wanted.is_fixed:
        return "on_time"
    if not wanted.matches(local):
        return "moved_by_dst"
    return "first_of_two" if is_repeated(timezone, local) else "on_time"


def _compare_windows(random: Random, timezone: str) -> None:
    chosen = [_some_window(random) for _ in range(random.randint(1, 3))]
    start = oracle.some_start(random, timezone)
    case = (chosen, timezone, start)
    walked = [
        (instant, oracle.inside(chosen, local)) for instant, local in oracle.minutes(timezone, start, start + SPAN)
    ]
    opens = next((instant for instant, is_inside in walked if is_inside), None)
    found = windows.opens_at(chosen, timezone, start)
    assert found is not None, case
    assert (found == opens) if opens is not None else (found > start + SPAN), case
    openings = windows.Openings(chosen, timezone)
    for instant, _ in walked[:: random.randint(1, 300)]:
        assert openings.at(instant) == windows.opens_at(chosen, timezone, instant), case
    if opens is None:
        assert windows.closes_at(chosen, timezone, start) is None
        return
    closes = next((instant for instant, is_inside in walked if instant > opens and not is_inside), None)
    found = windows.closes_at(chosen, timezone, opens)
    assert (found == closes) if closes is not None else (found is None or found > start + SPAN), case


def _some_window(random: Random) -> Window:
    days = frozenset(random.sample(range(7), random.randint(1, 7)))
    start, end = (time(random.randint(0, 23), random.choice([0, 15, 30, 45])) for _ in range(2))
    return Window(days, start, end, random.choice([None, 100]))
