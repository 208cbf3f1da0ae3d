"""Rows that may start when they are due are written as released; all others go through the usual checks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event, update

from holdfast.schedules.models import Schedule
from holdfast.storage.session import Database
from tests.support.stores import KINDS, a_store
from tests.unit.schedules.running.world import World, at


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with a_store(request.param, tmp_path) as database:
        yield World(database)


def statements(database: Database) -> list[str]:
    """Return a list that collects every statement that changes run rows from now on."""
    found: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith(("INSERT INTO schedule_runs", "UPDATE schedule_runs")):
            found.append(statement.split(" (", maxsplit=1)[0].split(" SET", maxsplit=1)[0])

    event.listen(database.engine, "before_cursor_execute", note)
    return found


def test_a_run_that_may_start_when_it_is_due_is_written_once_as_released(world: World) -> None:
    schedule = world.schedule(world.repository(), world.repository())
    changes = statements(world.database)

    world.tick(at(2, 2))

    rows = world.rows(schedule)
    assert [(row.outcome, row.waiting_for, row.look_at, row.tries) for row in rows] == [("ran", None, None, 1)] * 2
    assert [row.steps[0]["operation_id"] for row in rows] == [one.id for one in world.operations()]
    assert changes == ["INSERT INTO schedule_runs"]


def test_a_run_that_must_wait_is_written_as_waiting(world: World) -> None:
    here = world.repository()
    away = world.repository(execution_target="agent", agent_machine_id=world.agent("offline"))
    schedule = world.schedule(here, away)

    world.tick(at(2, 2))

    assert [(row.outcome, row.waiting_for) for row in world.rows(schedule)] == [("ran", None), ("waiting", "machine")]
    assert len(world.operations()) == 1


def test_a_due_time_that_already_has_a_row_starts_nothing_and_others_still_run(world: World) -> None:
    """As after the store was restored or a due time was recomputed."""
    first, second = world.schedule(world.repository()), world.schedule(world.repository())
    world.tick(at(2, 2))
    world.end_all()
    with world.database.writing() as session:
        session.execute(update(Schedule).where(Schedule.id == first).values(next_due_at=at(2, 2)))
        session.execute(update(Schedule).where(Schedule.id == second).values(next_due_at=at(2, 2, 5)))

    world.tick(at(2, 2, 10))

    assert [row.due_at for row in world.rows(first)] == [at(2, 2)]
    assert [row.due_at for row in world.rows(second)] == [at(2, 2), at(2, 2, 5)]
    assert len(world.operations()) == 3
    assert world.read(first).next_due_at == at(3, 2)


def test_a_schedule_whose_last_run_is_still_active_skips_the_next_one(world: World) -> None:
    schedule = world.schedule(world.repository())
    world.tick(at(2, 2))
    world.tick(at(3, 2))

    assert [(row.outcome, row.reason) for row in world.rows(schedule)] == [("ran", None), ("skipped", "overlap")]
    assert len(world.operations()) == 1
