"""Values that no route would store: a schedule with them must not prevent the others from running."""

from typing import Any

import pytest

from tests.unit.schedules.running.world import World, at


@pytest.mark.parametrize(
    "values",
    [
        {"steps": [{"kind": "no such step"}]},
        {"steps": [{"nothing": 1}]},
        {"steps": ["backup"]},
        {"steps": [{"kind": "check", "every_days": "often"}], "last_check": True},
        {"windows": [{"from": "late", "to": "early"}]},
        {"windows": [{"days": ["noday"], "from": "01:00", "to": "02:00"}]},
        {"windows": [{"from": "01:00", "to": "02:00", "upload_kib": "much"}]},
        {"windows": ["always"]},
        {"targets": {"labels": "site=north"}},
        {"targets": {"repository_ids": ["1"]}},
    ],
)
def test_unreadable_values_affect_only_their_own_schedule(world: World, values: dict[str, Any]) -> None:
    bad_repository = world.repository(last_check=at(1) if values.pop("last_check", False) else None)
    world.schedule(bad_repository, **values)
    good = world.schedule(world.repository())
    world.tick(at(2, 2))
    assert world.told(good) == [(at(2, 2), "ran", None)]
    world.tick(at(3, 2))
    assert len(world.told(good)) == 2


@pytest.mark.parametrize("values", [{"cron_expression": "x x x x x"}, {"timezone": "Mars/Olympus"}])
def test_an_unreadable_calendar_is_checked_again_later(world: World, values: dict[str, Any]) -> None:
    bad = world.schedule(world.repository())
    world.change(bad, **values)
    good = world.schedule(world.repository())
    world.tick(at(2, 2))
    assert world.told(good) == [(at(2, 2), "ran", None)]
    assert world.read(bad).next_due_at == at(2, 2, 15)
