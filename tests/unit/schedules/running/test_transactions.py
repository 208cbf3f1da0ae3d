"""The size of the tick's transactions, and how many waiting runs are shown."""

from datetime import datetime

import pytest
from sqlalchemy import event

from holdfast.errors import Unprocessable
from holdfast.schedules import store
from holdfast.schedules.edit import Editor
from holdfast.schedules.running import tick
from holdfast.schedules.running.tick import next_size
from tests.unit.schedules.running.world import REGISTRY, World, at


def test_transactions_shrink_on_a_slow_machine_and_grow_on_a_fast_one() -> None:
    assert next_size(100, seconds=0.08, most=200) == 50
    assert next_size(100, seconds=0.001, most=1000) == 200, "at most twice as much as the one before"
    assert next_size(100, seconds=0.001, most=150) == 150
    assert next_size(100, seconds=60, most=200) == tick.LEAST_SIZE
    assert next_size(100, seconds=0.0, most=200) == 200


def test_more_due_schedules_than_fit_in_one_transaction_are_all_released_in_one_tick(world: World) -> None:
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


def statements_of_a_tick(world: World, number: int, due: datetime) -> int:
    """How many statements a tick needs for this many additional schedules, each with its own repository."""
    for _ in range(number):
        world.schedule(world.repository(), cron_expression="0 5 * * *", next_due_at=due)
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_others: object) -> None:
        seen.append(statement)

    event.listen(world.database.engine, "before_cursor_execute", note)
    try:
        world.tick(due)
    finally:
        event.remove(world.database.engine, "before_cursor_execute", note)
    return len(seen)


def test_a_tick_needs_no_more_statements_for_many_due_schedules_than_for_a_few(world: World) -> None:
    world.tick(at(2, 0))
    few = statements_of_a_tick(world, 3, at(2, 1))
    assert statements_of_a_tick(world, 30, at(2, 3)) == few
    assert len([row for row in world.rows() if row.outcome == "ran"]) == 33


def test_an_earlier_run_of_the_same_repository_is_found_among_many(world: World) -> None:
    first, second = world.repository(), world.repository()
    both, other = world.schedule(first, second), world.schedule(first, second)
    world.tick(at(2, 2))
    ended = next(row for row in world.rows(both) if row.repository_id == second)
    world.end(ended.steps[0]["operation_id"])
    world.settle()
    world.tick(at(3, 2))
    found = {(row.schedule_id, row.repository_id): row for row in world.rows() if row.due_at == at(3, 2)}
    assert {key for key, row in found.items() if row.outcome == "skipped"} == {
        (both, first),
        (other, first),
        (other, second),
    }
    earlier = next(row for row in world.rows(both) if row.due_at == at(2, 2) and row.repository_id == first)
    assert found[both, first].reason_operation_id == earlier.steps[0]["operation_id"]
