"""The preview of a schedule with 50 windows looked at each of them for every due time, and took minutes."""

import threading
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock

import pytest

from backup_engine.requests import RetentionPolicy
from holdfast.archives.retention import simulate
from holdfast.archives.retention.pruned import Pruned
from holdfast.kit import courtesy
from holdfast.schedules.calendar import windows
from holdfast.schedules.calendar.plan import Calendar
from holdfast.schedules.calendar.preview import Conditions, Forecast, Place
from tests.support.service import PATIENCE

NOW = datetime(2026, 11, 18, 20, tzinfo=UTC)


def test_a_preview_computes_each_window_once_and_not_for_every_due_time(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_whoever_simulates_does_it_while_no_other_thread_does(monkeypatch: pytest.MonkeyPatch) -> None:
    prune, free = Pruned.prune, []

    def watched(pruned: Pruned, now: datetime) -> None:
        free.append(not courtesy._computing.locked())
        prune(pruned, now)

    monkeypatch.setattr(Pruned, "prune", watched)
    coming = [NOW + timedelta(days=number) for number in range(10)]
    simulate.ahead([], coming, RetentionPolicy(keep_daily=5), major=1, now=NOW, until=date(2026, 11, 30))
    assert free == [False] * 10


def test_a_long_computation_lets_requests_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courtesy, "LONGEST_PAUSE_SECONDS", PATIENCE)
    order = []

    def compute() -> None:
        with courtesy.shown(PATIENCE), courtesy.in_turn():
            order.append("computation")

    with courtesy.answering():
        computing = threading.Thread(target=compute)
        computing.start()
        computing.join(0.1)
        order.append("request")
    computing.join(PATIENCE)
    assert order == ["request", "computation"]
