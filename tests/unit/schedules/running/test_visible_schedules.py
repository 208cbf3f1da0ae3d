"""What is read to show one schedule: only its own targets, the same ones that the list of all schedules shows."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from holdfast.operations.status import Status
from holdfast.schedules import store
from holdfast.schedules.present import Presented
from holdfast.schedules.visible_schedules import VisibleSchedules
from holdfast.storage.session import Database
from tests.support.stores import a_store
from tests.unit.schedules.running.world import World, at


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with a_store("sqlite", tmp_path) as database:
        yield database


def test_a_schedule_has_the_same_targets_alone_as_in_the_list(database: Database) -> None:
    world = World(database)
    ids = [world.repository(labels={"place": "cellar" if number % 2 else "attic"}) for number in range(6)]
    some = {"exclude_repository_ids": [ids[1]]}
    schedules = [
        world.schedule(*ids[:3]),
        world.schedule(*ids[:3], **some),
        world.schedule(ids[0], ids[0], 999),
        world.schedule(targets={"labels": {"place": "cellar"}}, **some),
        world.schedule(targets={"labels": {}}),
        world.schedule(targets={"all": True}, **some),
        world.schedule(targets={"repository_ids": []}),
    ]
    for visible in (None, frozenset(ids[1:3]), frozenset[int]()):
        with database.reading() as session:
            among_all = VisibleSchedules(session, visible, is_for_one=False)
            alone = VisibleSchedules(session, visible, is_for_one=True)
            for schedule in map(world.read, schedules):
                assert alone.targets(schedule) == among_all.targets(schedule)
                assert alone.sees(schedule) == among_all.sees(schedule)


def test_only_repositories_named_by_the_schedule_are_read(database: Database) -> None:
    world = World(database)
    ids = [world.repository() for _ in range(5)]
    schedule = world.read(world.schedule(*ids[:2]))
    read: list[Any] = []
    with database.reading() as session:
        event.listen(session.get_bind(), "before_cursor_execute", lambda *told: read.append(told[3]))
        assert [target.id for target in VisibleSchedules(session, None, is_for_one=True).targets(schedule)] == ids[:2]
    found = [parameters for parameters in read if parameters]
    assert len(found) == 1
    assert str(ids[0]) in str(found)
    assert str(ids[4]) not in str(found)


def test_the_last_result_is_the_worst_of_the_repositories_that_the_caller_may_see(database: Database) -> None:
    world = World(database)
    broken, well = world.repository(), world.repository()
    schedule = world.schedule(broken, well)
    world.tick(at(2, 2))
    first, second = world.operations()
    world.end(first.id, Status.FAILED, "engine.failed")
    world.end(second.id)
    world.settle()

    with world.database.reading() as session:

        def last_result(visible: frozenset[int] | None) -> str | None:
            seen = VisibleSchedules(session, visible, is_for_one=True)
            return Presented(session, seen, world.now).one(store.by_ids(session, [schedule])[schedule]).last_result

        assert last_result(None) == "failed"
        assert last_result(frozenset({well})) == "completed"


def test_a_list_shows_each_schedule_as_it_is_shown_alone(database: Database) -> None:
    world = World(database)
    ids = [world.repository(name=f'a "name" {number}', labels={"n": str(number % 2)}) for number in range(4)]
    world.schedule(*ids)
    world.schedule(targets={"all": True}, exclude_repository_ids=ids[:1])
    world.schedule(targets={"labels": {"n": "1"}}, snoozed_until=world.now + timedelta(days=3), spread_minutes=30)
    world.schedule(ids[0], enabled=False)
    for visible in (None, frozenset(ids[1:3])):
        with database.reading() as session:
            kept = store.listed(session)
            listed = Presented(session, VisibleSchedules(session, visible, is_for_one=False), world.now)
            alone = Presented(session, VisibleSchedules(session, visible, is_for_one=True), world.now)
            answer = json.loads(listed.listed(kept, is_paused=True))
            assert answer["paused"] is True
            assert answer["schedules"] == [json.loads(alone.one(each).model_dump_json()) for each in kept]
            assert [len(each["repositories"]) for each in answer["schedules"]] != [0] * 4


def test_schedules_with_the_same_targets_share_one_list_of_them(database: Database) -> None:
    world = World(database)
    ids = [world.repository() for _ in range(3)]
    schedules = [world.schedule(*ids), world.schedule(*ids), world.schedule(*ids[:2])]
    with database.reading() as session:
        seen = VisibleSchedules(session, None, is_for_one=False)
        first, second, other = (seen.targets(world.read(each)) for each in schedules)
    assert first is second
    assert [target.id for target in other] == ids[:2]
