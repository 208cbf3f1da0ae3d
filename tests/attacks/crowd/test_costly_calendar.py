"""The calendar of many schedules for 1,000 repositories was computed in the threads of all other requests, within its
transaction, for every target of every due time: 11 seconds for one schedule with windows.
"""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.kit import courtesy
from holdfast.schedules import overview
from holdfast.schedules.calendar.preview import Fire, Forecast
from holdfast.schedules.overview import Span
from holdfast.schedules.sight import Sight
from holdfast.storage.session import Database
from tests.contract.fields import error_of
from tests.support.in_process import started
from tests.support.service import PATIENCE, wait_until
from tests.support.stores import a_store
from tests.unit.schedules.running.world import World

MANY = 30
"""More than the threads that read, and more than one user's requests may wait."""
NOW = datetime(2026, 11, 18, 20, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with a_store("sqlite", tmp_path) as database:
        world = World(database)
        repositories = [world.repository() for _ in range(3)]
        for _ in range(2):
            world.schedule(*repositories)
        yield database


def calendar(database: Database, days: int = 62) -> dict[str, Any]:
    with database.reading() as session:
        sight = Sight(session, None, is_for_one=False)
        stored = overview.read_stored(session, sight, Span(NOW, NOW + timedelta(days=days)), NOW, None)
    answer: dict[str, Any] = json.loads(overview.calendar(stored))
    return answer


def test_calendars_of_one_user_take_only_a_few_threads_and_what_is_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Semaphore(0), threading.Event()

    def waiting(*_: object) -> bytes:
        began.release()
        assert go_on.wait(PATIENCE)
        return b"{}"

    monkeypatch.setattr(overview, "calendar", waiting)
    with (
        started(tmp_path / "data", inline_wait_seconds=300, engine_requests_per_user=2) as running,
        ThreadPoolExecutor(MANY) as others,
    ):
        admin = running.login()
        asked = [others.submit(running.client.get, "/api/schedules/calendar", headers=admin) for _ in range(MANY)]
        try:
            wait_until(lambda: sum(one.done() for one in asked) == MANY - 22, what="what is too much is refused")
            assert began.acquire(timeout=PATIENCE)
            assert running.client.get("/health/ready").status_code == 200
            assert running.client.get("/api/auth/me", headers=admin).status_code == 200
        finally:
            go_on.set()
        answers = [one.result(PATIENCE) for one in asked]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert [error_of(answer) for answer in refused] == [(503, "api.too_many_engine_requests")] * (MANY - 22)


def test_a_calendar_ends_after_as_many_starts_as_one_answer_may_take_and_says_so(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = calendar(database)
    assert len(whole["entries"]) > 20
    assert not whole["truncated"]

    computed = 0
    at = Forecast.at

    def counted(forecast: Forecast, due: datetime, following: datetime | None) -> Fire:
        nonlocal computed
        computed += 1
        return at(forecast, due, following)

    monkeypatch.setattr(Forecast, "at", counted)
    monkeypatch.setattr(overview, "MOST_STARTS", 15)
    cut = calendar(database)

    assert cut["truncated"]
    assert cut["entries"] == whole["entries"][:5], "of three targets each"
    assert computed == 6, "and one to see that there are more"


def test_a_calendar_is_computed_while_no_other_thread_does(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    at, alone = Forecast.at, []

    def watched(forecast: Forecast, due: datetime, following: datetime | None) -> Fire:
        alone.append(courtesy._computing.locked())
        return at(forecast, due, following)

    monkeypatch.setattr(Forecast, "at", watched)
    calendar(database)
    assert len(alone) > 20
    assert all(alone)
