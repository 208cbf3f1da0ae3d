"""The size of the tick's transactions, and what many waiting runs look like."""

import pytest

from holdfast.errors import Unprocessable
from holdfast.schedules import store
from holdfast.schedules.edit import Editor
from holdfast.schedules.running import tick
from holdfast.schedules.running.tick import next_size
from tests.unit.schedules.running.world import REGISTRY, World, at


def test_a_slow_machine_does_less_in_a_transaction_and_a_fast_one_more() -> None:
    assert next_size(100, seconds=0.08, most=200) == 50
    assert next_size(100, seconds=0.001, most=1000) == 200, "at most twice as much as the one before"
    assert next_size(100, seconds=0.001, most=150) == 150
    assert next_size(100, seconds=60, most=200) == tick.LEAST_SIZE
    assert next_size(100, seconds=0.0, most=200) == 200


def test_more_due_schedules_than_one_transaction_takes_are_all_released_in_one_tick(world: World) -> None:
    number = tick.FIRST_SIZE + tick.LEAST_SIZE + 1
    schedules = [world.schedule(world.repository()) for _ in range(number)]
    world.tick(at(2, 2))
    assert {row.schedule_id for row in world.rows() if row.outcome == "ran"} == set(schedules)
    assert len(world.operations()) == number


def test_a_schedule_shows_its_oldest_waiting_runs_and_how_many_there_are(world: World) -> None:
    repositories = [world.repository() for _ in range(5)]
    crowded = world.schedule(*repositories, windows=[{"from": "04:00", "to": "05:00"}])
    other = world.schedule(repositories[0], windows=[{"from": "04:00", "to": "05:00"}])
    world.tick(at(2, 2))
    with world.database.reading() as session:
        shown = store.oldest_waiting(session, [crowded, other], None, 3)
        counts = store.count_waiting(session, [crowded, other], None)
        seen = store.count_waiting(session, [crowded, other], frozenset(repositories[:2]))
    assert [(row.schedule_id, row.repository_id) for row in shown] == [
        *((crowded, number) for number in repositories[:3]),
        (other, repositories[0]),
    ]
    assert (counts, seen) == ({crowded: 5, other: 1}, {crowded: 2, other: 1})


def test_a_window_with_an_upload_limit_is_refused_for_repositories_of_engine_2(world: World) -> None:
    first, second = world.repository(), world.repository(engine_version=2)
    windows = [{"from": "01:00", "to": "03:00", "upload_kib": 300}]
    limited = world.schedule(first, windows=windows)
    mixed = world.schedule(first, second, windows=windows)
    unlimited = world.schedule(first, second, windows=[{"from": "01:00", "to": "03:00"}])
    with world.database.reading() as session:
        for accepted in (limited, unlimited):
            Editor(REGISTRY).check(session, store.by_ids(session, [accepted])[accepted])
        with pytest.raises(Unprocessable) as refused:
            Editor(REGISTRY).check(session, store.by_ids(session, [mixed])[mixed])
    assert refused.value.key == "schedules.step_unsupported"
    assert refused.value.params["repository_ids"] == [second]
