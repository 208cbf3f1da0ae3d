"""The preview of a schedule with 50 windows checked each of them for every due time, and took minutes."""

from datetime import UTC, date, datetime, timedelta
from datetime import time as clock

import pytest

from holdfast.schedules.calendar import windows
from holdfast.schedules.calendar.plan import Calendar
from holdfast.schedules.calendar.preview import Conditions, Forecast, Place

NOW = datetime(2026, 11, 18, 20, tzinfo=UTC)


def test_a_preview_does_not_compute_every_window_for_every_due_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    on = windows.Window.on

    def counted(window: windows.Window, day: date) -> tuple[datetime, datetime] | None:
        nonlocal looked
        looked += 1
        return on(window, day)

    monkeypatch.setattr(windows.Window, "on", counted)
    weekly = [windows.Window(frozenset({4}), clock(3, 2), clock(3, number + 3)) for number in range(50)]
    conditions = Conditions(Calendar("cron", "*/5 * * * *"), "a" * 32, windows=weekly)
    fires = list(Forecast(conditions, [Place(1, "b" * 32, "one")]).between(NOW, NOW + timedelta(days=30), 2000))
    assert len(fires) == 2000
    assert looked < 50 * 40, "of few more days than there are between the first due time and the last"
