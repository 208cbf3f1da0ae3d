"""The list of 300 schedules with 1,000 targets each once took 3 seconds of CPU time: to find its next start, every
schedule examined each of its targets and wrote each of them.
"""

from datetime import UTC, date, datetime, time, timedelta
from itertools import product

import pytest

from holdfast.schedules.calendar import spread
from holdfast.schedules.calendar.blackouts import Blackout
from holdfast.schedules.calendar.plan import Calendar
from holdfast.schedules.calendar.preview import Conditions, FirstStarts, Forecast, Place
from holdfast.schedules.calendar.windows import Window

NOW = datetime(2026, 11, 18, 20, tzinfo=UTC)
PLACES = [
    Place(number, f"{number:032}", f"place {number}", {"env": ("prod", "test")[number % 2]}) for number in range(6)
]
CALENDARS = (
    Calendar("cron", "30 1 * * *", "Europe/Berlin"),
    Calendar("cron", "0 0 29 2 *"),
    Calendar("interval", interval_minutes=250, starts_at=NOW),
)
WINDOWS = ((), (Window(frozenset({5, 6}), time(3), time(7)), Window(start=time(23), end=time(1))))
TODAY = NOW.date()
BLACKOUTS = (
    (),
    (Blackout("all", TODAY, TODAY + timedelta(days=3)),),
    (
        Blackout("prod", TODAY, TODAY + timedelta(days=2), labels={"env": "prod"}),
        Blackout("test", TODAY + timedelta(days=1), TODAY + timedelta(days=9), labels={"env": "test"}),
    ),
    (Blackout("past", date(2020, 1, 1), date(2020, 1, 2)),),
)


@pytest.mark.parametrize("places", [[], PLACES[:1], PLACES], ids=["none", "one", "six"])
def test_the_first_start_is_that_of_the_first_fire_that_has_one(places: list[Place]) -> None:
    found = []
    for calendar, opened, blackouts, minutes, snoozed in product(
        CALENDARS, WINDOWS, BLACKOUTS, (0, 45), (None, NOW + timedelta(days=2))
    ):
        conditions = Conditions(calendar, "a" * 32, minutes, opened, blackouts, snoozed)
        fires = Forecast(conditions, places).after(NOW, 10)
        expected = next((fire.start_at for fire in fires if fire.start_at is not None), None)
        assert FirstStarts(conditions, places).after(NOW, 10) == expected, conditions
        found.append(expected)
    assert None in found
    assert len(set(found)) >= 5


def test_only_as_many_targets_are_examined_as_the_first_start_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    offset = spread.offset

    def counted(schedule_uuid: str, repository_uuid: str, spread_minutes: int) -> timedelta:
        nonlocal looked
        looked += 1
        return offset(schedule_uuid, repository_uuid, spread_minutes)

    monkeypatch.setattr(spread, "offset", counted)
    many = [Place(number, f"{number:032}", "place") for number in range(10_000)]
    for minutes, most in ((0, 0), (10, 500)):
        looked = 0
        assert FirstStarts(Conditions(CALENDARS[0], "a" * 32, minutes), many).after(NOW, 1) is not None
        assert looked <= most
