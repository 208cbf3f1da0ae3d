"""The calendar of many schedules for 1,000 repositories was computed for every target of every due time: 11 seconds for
one schedule with windows.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.schedules import overview
from holdfast.schedules.calendar import entries
from holdfast.schedules.calendar.entries import Span
from holdfast.schedules.calendar.preview import Fire, Forecast
from holdfast.schedules.visible_schedules import VisibleSchedules
from holdfast.storage.session import Database
from tests.support.stores import a_store
from tests.unit.schedules.running.world import World

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
        seen = VisibleSchedules(session, None, is_for_one=False)
        stored = overview.read_stored(session, seen, Span(NOW, NOW + timedelta(days=days)), NOW, None)
    answer: dict[str, Any] = json.loads(entries.calendar(stored))
    return answer


def test_a_calendar_stops_at_the_limit_of_starts_and_is_marked_as_truncated(
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
    monkeypatch.setattr(entries, "MOST_STARTS", 15)
    cut = calendar(database)

    assert cut["truncated"]
    assert cut["entries"] == whole["entries"][:5], "of three targets each"
    assert computed == 6, "and one to see that there are more"
