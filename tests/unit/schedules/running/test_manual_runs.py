"""Runs that a user starts or cancels."""

from typing import Any

import pytest

from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.errors import Conflict, Unprocessable
from holdfast.schedules import store
from holdfast.schedules.models import ScheduleRun
from holdfast.schedules.running import manual_runs
from tests.unit.schedules.running.world import ALL_STEPS, REGISTRY, World, at, kinds

ANNE = Caller(7, "anne", Role.OPERATOR, Role.OPERATOR, 1, None, must_change_password=False, address=None)


def run_now(world: World, schedule: int, *, respect_windows: bool = False, **more: Any) -> list[ScheduleRun]:
    asked = {"repository_ids": None, "steps": None, **more}
    with world.database.writing() as session:
        found = store.lock(session, schedule)
        assert found is not None
        return manual_runs.run_now(
            session, REGISTRY, found, **asked, respect_windows=respect_windows, caller=ANNE, now=world.now
        )


def test_a_manual_run_starts_immediately_in_the_name_of_its_caller(world: World) -> None:
    first, second = world.repository(), world.repository()
    schedule = world.schedule(first, second, snoozed_until=at(30))
    world.pause()
    rows = run_now(world, schedule)
    assert {row.outcome for row in rows} == {"ran"}
    assert len({row.run_id for row in rows}) == 1
    found = world.operations()
    assert {(one.trigger, one.triggered_by, one.schedule_id) for one in found} == {("manual", "anne", schedule)}
    world.end_all()
    assert {(row.origin, row.result) for row in world.rows(schedule)} == {("manual", "completed")}
    assert world.read(schedule).next_due_at == at(2, 2), "the calendar goes on as it was"


def test_chosen_repositories_and_steps_run_even_if_they_are_not_due(world: World) -> None:
    first, second = world.repository(last_check=at(1)), world.repository()
    schedule = world.schedule(first, second, steps=ALL_STEPS)
    [row] = run_now(world, schedule, repository_ids=[first], steps=["check"])
    assert (row.repository_id, kinds(world.operations())) == (first, ["check"])
    with pytest.raises(Unprocessable):
        run_now(world, schedule, repository_ids=[12345])


def test_a_second_run_is_refused_while_the_first_has_not_ended(world: World) -> None:
    schedule = world.schedule(world.repository())
    run_now(world, schedule)
    with pytest.raises(Conflict, match="is still active"):
        run_now(world, schedule)
    assert len(world.operations()) == 1
    world.tick(at(2, 2))
    assert world.told(schedule)[-1] == (at(2, 2), "skipped", "overlap")


def test_a_manual_run_waits_for_its_window_if_requested(world: World) -> None:
    schedule = world.schedule(world.repository(), windows=[{"from": "04:00", "to": "06:00"}])
    [row] = run_now(world, schedule, respect_windows=True)
    assert (row.outcome, row.waiting_for, row.look_at) == ("waiting", "window", at(2, 4))
    world.change(schedule, next_due_at=at(9))
    world.tick(at(2, 4))
    assert [one.outcome for one in world.rows(schedule)] == ["ran"]


def test_cancelling_skips_a_waiting_run_and_stops_an_active_one(world: World) -> None:
    agent = world.agent("offline")
    schedule = world.schedule(world.repository(execution_target="agent", agent_machine_id=agent), world.repository())
    world.tick(at(2, 2))
    waiting, running = sorted(world.rows(schedule), key=lambda row: row.outcome, reverse=True)
    with world.database.writing() as session:
        for row in (waiting, running):
            manual_runs.cancel(session, row.id, world.now)
    world.settle()
    ended = {row.id: (row.outcome, row.reason, row.result) for row in world.rows(schedule)}
    assert ended == {waiting.id: ("skipped", "cancelled", None), running.id: ("ran", None, "cancelled")}
    with world.database.writing() as session, pytest.raises(Conflict):
        manual_runs.cancel(session, waiting.id, world.now)
