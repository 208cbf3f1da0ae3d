"""25 previews of a schedule with 50 windows, asked for by one viewer, took every thread that reads for minutes."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from pathlib import Path
from typing import Any

import pytest

from backup_engine.requests import RetentionPolicy
from holdfast.archives.retention import simulate
from holdfast.archives.retention.pruned import Pruned
from holdfast.kit import courtesy
from holdfast.schedules.calendar import windows
from holdfast.schedules.calendar.plan import Calendar
from holdfast.schedules.calendar.preview import Conditions, Forecast, Place
from tests.contract.fields import error_of
from tests.support.in_process import InProcess, started
from tests.support.service import PATIENCE, wait_until

MANY = 30
"""More than the threads that read, and more than one user's requests may wait."""
NOW = datetime(2026, 11, 18, 20, tzinfo=UTC)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[InProcess]:
    with started(tmp_path / "data", inline_wait_seconds=300, engine_requests_per_user=2) as running:
        yield running


def test_previews_of_one_user_take_only_a_few_threads_and_what_is_too_much_is_refused(
    running: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Semaphore(0), threading.Event()

    def waiting(*_: object) -> list[Any]:
        began.release()
        assert go_on.wait(PATIENCE)
        return []

    monkeypatch.setattr(courtesy, "in_pieces", waiting)
    admin = running.login()
    wanted = {"cron_expression": "0 3 * * *", "targets": {"all": True}}
    with ThreadPoolExecutor(MANY) as others:
        asked = [
            others.submit(running.client.post, "/api/schedules/preview", json=wanted, headers=admin)
            for _ in range(MANY)
        ]
        try:
            wait_until(
                lambda: sum(one.done() for one in asked) == MANY - 22, what="what is too much is refused at once"
            )
            assert began.acquire(timeout=PATIENCE)
            assert running.client.get("/health/ready").status_code == 200
            assert running.client.get("/api/auth/me", headers=admin).status_code == 200
        finally:
            go_on.set()
        answers = [one.result(PATIENCE) for one in asked]
    refused = [answer for answer in answers if answer.status_code == 503]
    assert len(refused) == MANY - 22
    assert {error_of(answer) for answer in refused} == {(503, "api.too_many_engine_requests")}
    assert sum(answer.status_code == 200 for answer in answers) == 22


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
