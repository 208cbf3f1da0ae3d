"""When schedules are due, by example."""

from datetime import UTC, date, datetime, time, timedelta

import pytest

from holdfast.kit import zones
from holdfast.schedules.calendar import availability, blackouts, cron, preview, spread, windows
from holdfast.schedules.calendar.blackouts import Blackout
from holdfast.schedules.calendar.plan import Calendar, count_between, due_between, longest_gap, next_due, reason_of
from holdfast.schedules.calendar.windows import Window

BERLIN = "Europe/Berlin"
NIGHTLY = Calendar("cron", "30 2 * * *", BERLIN)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


# Cron -----------------------------------------------------------------------------------------------------------------


def test_a_nightly_pattern_is_due_at_its_local_time() -> None:
    assert next_due(NIGHTLY, utc(2026, 11, 16, 16)) == utc(2026, 11, 17, 1, 30)
    assert next_due(NIGHTLY, utc(2026, 7, 1)) == utc(2026, 7, 1, 0, 30)


def test_the_next_due_time_is_strictly_later() -> None:
    assert next_due(NIGHTLY, utc(2026, 11, 17, 1, 30)) == utc(2026, 11, 18, 1, 30)
    assert next_due(NIGHTLY, utc(2026, 11, 17, 1, 29, 59)) == utc(2026, 11, 17, 1, 30)


def test_a_fixed_time_inside_the_dst_gap_is_due_at_the_first_minute_after_it() -> None:
    due = next_due(NIGHTLY, utc(2027, 3, 27, 12))
    assert due == utc(2027, 3, 28, 1)  # 03:00 in Berlin; 02:30 does not exist
    assert reason_of(NIGHTLY, due) == "moved_by_dst"


def test_two_times_of_one_pattern_inside_the_dst_gap_become_one_due_time() -> None:
    twice = Calendar("cron", "15,45 2 * * *", BERLIN)
    assert due_between(twice, utc(2027, 3, 28), utc(2027, 3, 28, 12), 10) == [utc(2027, 3, 28, 1)]


def test_a_fixed_time_in_the_repeated_hour_is_due_only_the_first_time() -> None:
    due = due_between(NIGHTLY, utc(2026, 10, 24, 12), utc(2026, 10, 25, 12), 10)
    assert due == [utc(2026, 10, 25, 0, 30)]
    assert reason_of(NIGHTLY, due[0]) == "first_of_two"
    assert next_due(NIGHTLY, utc(2026, 10, 25, 0, 45)) == utc(2026, 10, 26, 1, 30)


@pytest.mark.parametrize("pattern", ["0 * * * *", "0 */1 * * *"])
def test_hourly_patterns_follow_real_time(pattern: str) -> None:
    hourly = Calendar("cron", pattern, BERLIN)
    assert count_between(hourly, utc(2026, 10, 24, 22), utc(2026, 10, 25, 23)) == 25
    assert count_between(hourly, utc(2027, 3, 27, 23), utc(2027, 3, 28, 22)) == 23


def test_a_leap_day_pattern_is_due_every_four_years() -> None:
    leap = Calendar("cron", "0 0 29 2 *")
    assert next_due(leap, utc(2026, 11, 16)) == utc(2028, 2, 29)
    assert longest_gap(leap, utc(2026, 11, 16)) == timedelta(days=1461)


def test_the_longest_gap_of_a_nightly_pattern_includes_the_extra_hour_in_autumn() -> None:
    assert longest_gap(NIGHTLY, utc(2026, 11, 16)) == timedelta(hours=25)
    assert longest_gap(Calendar("cron", "0 8-18 * * 1-5"), utc(2026, 11, 16)) == timedelta(hours=62)


def test_nothing_is_due_before_a_schedule_starts() -> None:
    later = Calendar("cron", "0 2 * * *", starts_at=utc(2027, 1, 1, 2))
    assert next_due(later, utc(2026, 11, 16)) == utc(2027, 1, 1, 2)
    assert due_between(later, utc(2026, 12, 30), utc(2027, 1, 2, 12), 9) == [utc(2027, 1, 1, 2), utc(2027, 1, 2, 2)]


@pytest.mark.parametrize(
    ("pattern", "field"),
    [
        ("61 * * * *", "minute"),
        ("0 24 * * *", "hour"),
        ("0 0 32 * *", "day-of-month"),
        ("0 0 1 13 *", "month"),
        ("0 0 * * 9", "day-of-week"),
        ("0 0 * * 1#2/3", "day-of-week"),
        ("0 0 * *", "expression"),
        ("0 0 0 * * *", "expression"),
        ("", "expression"),
        ("@daily", "expression"),
        ("*/0 * * * *", "minute"),
        ("0 0 * * " + "1," * 200, "expression"),
        ("0 ² * * *", "expression"),
    ],
)
def test_a_bad_pattern_names_the_field_that_is_wrong(pattern: str, field: str) -> None:
    with pytest.raises(cron.BadCron) as caught:
        cron.parse(pattern)
    assert caught.value.field == field


@pytest.mark.parametrize("pattern", ["0 0 30 2 *", "0 0 31 4,6,9,11 *"])
def test_a_pattern_that_matches_no_day_is_refused(pattern: str) -> None:
    with pytest.raises(cron.NeverFires):
        cron.parse(pattern)


@pytest.mark.parametrize(
    ("pattern", "minutes"),
    [("* * * * *", 1), ("*/5 * * * *", 5), ("0 2 * * *", 24 * 60), ("0,58 0,23 * * *", 2), ("0,58 0,23 * * 1", 58)],
)
def test_the_shortest_gap_is_counted_across_midnight(pattern: str, minutes: int) -> None:
    assert cron.least_gap(cron.parse(pattern)) == timedelta(minutes=minutes)


# Interval and availability --------------------------------------------------------------------------------------------


def test_intervals_are_counted_in_real_time() -> None:
    every_six_hours = Calendar("interval", None, BERLIN, 360, utc(2026, 10, 24, 3))
    due = due_between(every_six_hours, utc(2026, 10, 24, 20), utc(2026, 10, 25, 10), 10)
    assert due == [utc(2026, 10, 24, 21), utc(2026, 10, 25, 3), utc(2026, 10, 25, 9)]
    assert next_due(every_six_hours, utc(2026, 10, 24, 3)) == utc(2026, 10, 24, 9)
    assert next_due(every_six_hours, utc(2026, 10, 1)) == utc(2026, 10, 24, 3)
    assert longest_gap(every_six_hours, utc(2026, 1, 1)) == timedelta(hours=6)


def test_a_long_span_of_an_interval_is_counted_without_walking() -> None:
    often = Calendar("interval", None, "UTC", 5, utc(1970, 1, 1))
    assert count_between(often, utc(1970, 1, 1), utc(9000, 1, 1)) == (utc(9000, 1, 1) - utc(1970, 1, 1)) // timedelta(
        minutes=5
    )


def test_an_availability_calendar_has_no_next_due_time() -> None:
    laptop = Calendar("availability", min_success_interval_minutes=1440)
    assert next_due(laptop, utc(2026, 1, 1)) is None
    assert longest_gap(laptop, utc(2026, 1, 1)) == timedelta(days=1)


def test_a_machine_is_due_a_gap_after_its_last_success_and_sooner_after_failures() -> None:
    gap, success = timedelta(days=1), utc(2026, 1, 1)
    assert availability.next_due_after(None, 0, None, gap) < success
    assert availability.next_due_after(success, 0, success, gap) == utc(2026, 1, 2)
    tried = utc(2026, 1, 3)
    waits = [availability.next_due_after(success, failures, tried, gap) - tried for failures in (1, 2, 3, 4, 5, 6, 99)]
    assert [wait // timedelta(hours=1) for wait in waits] == [1, 2, 4, 8, 16, 24, 24]


def test_a_failure_soon_after_a_success_does_not_make_a_machine_due_earlier() -> None:
    success = utc(2026, 1, 1)
    due = availability.next_due_after(success, 1, utc(2026, 1, 1, 1), timedelta(days=1))
    assert due == utc(2026, 1, 2)


# Windows, blackouts, spread, zones ------------------------------------------------------------------------------------

NIGHT = Window(frozenset(range(5)), time(22), time(6), 500)


def test_without_windows_every_time_is_allowed() -> None:
    assert windows.opens_at([], "UTC", utc(2026, 1, 1)) == utc(2026, 1, 1)
    assert windows.closes_at([], "UTC", utc(2026, 1, 1)) is None


def test_a_window_across_midnight_belongs_to_the_day_on_which_it_opens() -> None:
    friday_night, sunday_night = utc(2026, 11, 20, 23), utc(2026, 11, 22, 23)
    assert windows.opens_at([NIGHT], "UTC", friday_night) == friday_night
    assert windows.closes_at([NIGHT], "UTC", friday_night) == utc(2026, 11, 21, 6)
    assert windows.opens_at([NIGHT], "UTC", sunday_night) == utc(2026, 11, 23, 22)
    assert windows.closes_at([NIGHT], "UTC", sunday_night) is None


def test_a_schedule_whose_window_never_opens_is_detected() -> None:
    now = utc(2026, 11, 16)
    assert preview.ever_in_window(NIGHTLY, [NIGHT], now)
    assert not preview.ever_in_window(NIGHTLY, [Window(frozenset())], now)


def test_adjacent_windows_close_as_one() -> None:
    evening = Window(start=time(18), end=time(22))
    assert windows.closes_at([evening, NIGHT], "UTC", utc(2026, 11, 16, 19)) == utc(2026, 11, 17, 6)


def test_a_window_of_the_whole_week_never_closes() -> None:
    assert windows.closes_at([Window()], BERLIN, utc(2026, 11, 16)) is None


def test_the_lowest_upload_limit_of_the_open_windows_applies() -> None:
    slow = Window(start=time(0), end=time(4), upload_kib=100)
    assert windows.limit_at([NIGHT, slow], "UTC", utc(2026, 11, 17, 1)) == 100
    assert windows.limit_at([NIGHT, slow], "UTC", utc(2026, 11, 17, 5)) == 500
    assert windows.limit_at([NIGHT, slow], "UTC", utc(2026, 11, 17, 12)) is None


def test_a_blackout_covers_its_days_in_its_own_zone() -> None:
    day = Blackout("inventory", date(2026, 11, 16), date(2026, 11, 16), "America/New_York")
    assert blackouts.covers([day], utc(2026, 11, 16, 4), {}) is None
    assert blackouts.covers([day], utc(2026, 11, 16, 5), {}) is day
    assert blackouts.covers([day], utc(2026, 11, 17, 4), {}) is day


def test_a_yearly_blackout_may_span_new_year() -> None:
    holidays = Blackout("holidays", date(2020, 12, 24), date(2021, 1, 2), yearly=True)
    covered = [holidays.on(date(2030, *day)) for day in ((12, 23), (12, 24), (1, 1), (1, 2), (1, 3), (6, 1))]
    assert covered == [False, True, True, True, False, False]


def test_a_blackout_with_labels_covers_repositories_that_have_all_of_them() -> None:
    shop = Blackout("sale", date(2026, 11, 27), date(2026, 11, 27), labels={"team": "shop", "env": "live"})
    assert blackouts.covers([shop], utc(2026, 11, 27), {"team": "shop"}) is None
    assert blackouts.covers([shop], utc(2026, 11, 27), {"team": "shop", "env": "live", "x": "y"}) is shop


def test_a_repository_has_the_same_place_in_the_spread_every_day() -> None:
    offsets = {spread.offset("schedule", f"repository-{number}", 30) for number in range(1000)}
    assert offsets == {timedelta(minutes=minute) for minute in range(30)}
    assert spread.offset("schedule", "repository-1", 30) == spread.offset("schedule", "repository-1", 30)
    assert spread.offset("schedule", "repository-1", 0) == timedelta(0)


def test_zones_come_from_the_pinned_data() -> None:
    assert BERLIN in zones.known()
    assert zones.zone(BERLIN) is zones.zone(BERLIN)
    for name in ("Europe/Nowhere", "../../etc/passwd", "", "europe/berlin"):
        with pytest.raises(zones.UnknownZone):
            zones.zone(name)


def test_every_zone_can_be_read() -> None:
    for name in zones.known():
        assert zones.to_local(name, utc(2026, 11, 16)).year == 2026
