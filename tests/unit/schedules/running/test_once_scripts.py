"""Scripts that run once for all repositories of a due time."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from holdfast.operations.kinds import Registry
from holdfast.operations.models import Operation, OutboxEntry
from holdfast.operations.queue import Subject
from holdfast.operations.status import Status
from holdfast.schedules.calendar import spread
from holdfast.schedules.models import Schedule, ScheduleRun
from holdfast.schedules.running import final_states, manual_runs, once_scripts
from tests.support.stores import KINDS, a_store
from tests.unit.schedules.running import world as worlds
from tests.unit.schedules.running.world import World, a_kind, at

BEFORE = {"kind": "script", "when": "before", "scope": "once", "script_id": 1}
AFTER = {**BEFORE, "when": "after"}
BACKUP = {"kind": "backup"}


class Rules:
    """The part of the script library's step rules that schedules use."""

    def stored(self, *_: Any) -> list[dict[str, Any]]:
        raise AssertionError("nothing is edited here")

    def params(self, _session: object, step: Mapping[str, Any]) -> dict[str, Any]:
        return {"event": step["when"], "scope": step.get("scope", "each"), "result": step.get("result")}

    def subject(self, _params: Mapping[str, Any], subject: Subject) -> Subject:
        return subject


REGISTRY = Registry.of(
    [*worlds.REGISTRY.kinds.values(), replace(a_kind("script_execution"), access=None, step_rules=Rules())]
)


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(worlds, "REGISTRY", REGISTRY)
    with a_store(request.param, tmp_path) as database:
        yield World(database)


def scripts(world: World) -> list[Operation]:
    return [one for one in world.operations() if one.kind == "script_execution"]


def backups(world: World) -> list[Operation]:
    return [one for one in world.operations() if one.kind == "backup"]


def read_news(world: World) -> None:
    """Process all outbox rows, as the reader of the outbox does."""
    with world.database.writing() as session:
        entries = session.scalars(select(OutboxEntry).where(OutboxEntry.topic == final_states.TOPIC)).all()
        once_scripts.finish(session, REGISTRY, entries)


def spread_over_an_hour(world: World, *steps: dict[str, Any]) -> int:
    """A schedule whose four repositories start 5, 20, 40 and 55 minutes after it is due."""
    own = "5" * 32
    names = {spread.offset(own, f"{number:032x}", 60): f"{number:032x}" for number in range(1000)}
    chosen = (world.repository(uuid=names[timedelta(minutes=minutes)]) for minutes in (5, 20, 40, 55))
    return world.schedule(*chosen, steps=list(steps), spread_minutes=60, uuid=own)


def test_one_script_runs_before_the_backups_of_all_repositories(world: World) -> None:
    schedule = world.schedule(*(world.repository() for _ in range(3)), steps=[BEFORE, BACKUP])
    world.tick(at(2, 2))
    (script,) = scripts(world)
    assert script.repository_id is None, "it belongs to none of them"
    assert [(one.depends_on_id, one.depends_needs) for one in backups(world)] == [(script.id, "succeeded")] * 3
    assert all(row.steps[0]["operation_id"] == script.id for row in world.rows(schedule))
    world.end_all()
    assert [(row.outcome, row.result) for row in world.rows(schedule)] == [("ran", "completed")] * 3


def test_scripts_for_each_repository_wait_for_the_shared_one(world: World) -> None:
    each = {**BEFORE, "scope": "each"}
    world.schedule(world.repository(), world.repository(), steps=[each, BEFORE, BACKUP])
    world.tick(at(2, 2))
    common, *others = scripts(world)
    assert common.repository_id is None
    assert [one.depends_on_id for one in others] == [common.id] * 2
    assert [one.depends_on_id for one in backups(world)] == [one.id for one in others]


def test_repositories_that_start_later_do_not_run_the_script_again(world: World) -> None:
    schedule = spread_over_an_hour(world, BEFORE, BACKUP)
    for minute in (0, 5, 20, 40, 55):
        world.tick(at(2, 2, minute))
        world.end_all()
    assert (len(scripts(world)), len(backups(world))) == (1, 4)
    assert {(row.outcome, row.result) for row in world.rows(schedule)} == {("ran", "completed")}
    world.tick(at(3, 4))
    assert len(scripts(world)) == 2, "the next due time runs it again"


@pytest.mark.parametrize(
    ("more", "status", "row_result"),
    [({}, "skipped", "failed"), ({"on_failure": "warn"}, "pending", "completed_with_warnings")],
)
def test_a_failed_script_also_counts_for_repositories_that_start_later(
    world: World, more: dict[str, Any], status: str, row_result: str
) -> None:
    schedule = spread_over_an_hour(world, {**BEFORE, **more}, BACKUP)
    world.tick(at(2, 2))
    world.tick(at(2, 2, 5))
    world.end(scripts(world)[0].id, Status.FAILED, "scripts.failed")
    world.tick(at(2, 2, 55))
    assert {one.status for one in backups(world)} == {status}
    world.end_all()
    assert {row.result for row in world.rows(schedule)} == {row_result}


def test_two_processes_start_the_script_only_once(world: World) -> None:
    schedule = spread_over_an_hour(world, BEFORE, BACKUP)
    other = world.new_process()
    world.tick(at(2, 2))
    for number, row in enumerate(sorted(world.rows(schedule), key=lambda row: row.start_at)):
        world.tick(row.start_at, process=other if number % 2 else 0)
    assert (len(scripts(world)), len(backups(world))) == (1, 4)


def test_a_schedule_locked_by_another_transaction_is_checked_again_soon(world: World) -> None:
    if world.database.is_sqlite:
        pytest.skip("one writer at a time")
    schedule = world.schedule(world.repository(), steps=[BEFORE, BACKUP])
    plain = world.schedule(world.repository())
    world.tick(at(2, 2) - timedelta(minutes=1))
    with world.database.writing() as session:
        session.add(_row_like(world, schedule))
        session.add(_row_like(world, plain))
    with world.database.writing() as holder:
        holder.scalars(select(Schedule).where(Schedule.id == schedule).with_for_update()).one()
        world.tick(at(2, 1, 59))
        assert [row.outcome for row in world.rows(schedule)] == ["waiting"]
        assert [row.outcome for row in world.rows(plain)] == ["ran"]
    world.tick(at(2, 1, 59) + once_scripts.BUSY_CHECK)
    assert [row.outcome for row in world.rows(schedule)] == ["ran"]
    assert len(scripts(world)) == 1


def _row_like(world: World, schedule: int) -> ScheduleRun:
    (repository,) = world.read(schedule).targets["repository_ids"]
    due = at(2, 1, 50)
    times = {"due_at": due, "start_at": due, "look_at": due}
    return ScheduleRun(
        schedule_id=schedule,
        repository_id=repository,
        revision=1,
        run_id=f"run{schedule}",
        steps=[],
        options={},
        **times,
    )


def test_a_cancelled_run_leaves_the_script_to_the_other_repositories(world: World) -> None:
    schedule = world.schedule(world.repository(), world.repository(), steps=[BEFORE, BACKUP])
    world.tick(at(2, 2))
    with world.database.writing() as session:
        manual_runs.cancel(session, world.rows(schedule)[0].id, world.now)
    assert [one.status for one in scripts(world)] == ["pending"]
    assert sorted(one.status for one in backups(world)) == ["cancelled", "pending"]


def test_a_retry_does_not_run_the_script_again(world: World) -> None:
    schedule = world.schedule(world.repository(), steps=[BEFORE, BACKUP])
    world.tick(at(2, 2))
    world.end(scripts(world)[0].id)
    world.end(backups(world)[0].id, Status.FAILED, "engine.unreachable")
    world.settle()
    world.tick(at(2, 2, 10))
    assert (len(scripts(world)), len(backups(world))) == (1, 2)
    world.end_all()
    assert [(row.result, row.tries) for row in world.rows(schedule)] == [("completed", 2)]


def test_a_schedule_with_only_a_shared_script_runs_it_once(world: World) -> None:
    schedule = world.schedule(world.repository(), world.repository(), steps=[BEFORE])
    world.tick(at(2, 2))
    world.end_all()
    assert len(scripts(world)) == 1
    assert [(row.outcome, row.result) for row in world.rows(schedule)] == [("ran", "completed")] * 2


def test_the_script_after_the_backups_is_queued_when_the_last_run_ends_and_gets_the_worst_result(world: World) -> None:
    world.schedule(world.repository(), world.repository(), steps=[BACKUP, AFTER])
    world.tick(at(2, 2))
    first, second = backups(world)
    world.end(first.id, Status.FAILED, "engine.damaged")
    world.settle()
    read_news(world)
    assert scripts(world) == [], "one backup still runs"
    world.end(second.id)
    world.settle()
    read_news(world)
    read_news(world)
    (script,) = scripts(world)
    assert (script.params["event"], script.params["result"]) == ("after", "failed")
    assert (script.run_id, script.repository_id, script.status) == (first.run_id, None, "pending")


def test_a_missed_repository_counts_as_a_failure_and_ends_the_due_time(world: World) -> None:
    away = world.repository(execution_target="agent", agent_machine_id=world.agent("offline"))
    world.schedule(world.repository(), away, steps=[BACKUP, AFTER])
    world.tick(at(2, 2))
    world.end_all()
    read_news(world)
    assert scripts(world) == [], "the machine may still come"
    world.tick(at(3, 2))
    read_news(world)
    (script,) = scripts(world)
    assert script.params["result"] == "failed"


def test_a_due_time_without_any_run_has_no_script_after_it(world: World) -> None:
    world.schedule(world.repository(mode="observe"), steps=[BEFORE, BACKUP, AFTER])
    world.tick(at(2, 2))
    read_news(world)
    assert scripts(world) == []


def test_a_manual_run_of_other_steps_leaves_the_scripts_out(world: World) -> None:
    schedule = world.schedule(world.repository(), steps=[BEFORE, BACKUP, AFTER])
    with world.database.writing() as session:
        found = session.get_one(Schedule, schedule)
        caller: Any = type("Caller", (), {"user_id": 1, "username": "anna"})()
        manual_runs.run_now(
            session, REGISTRY, found, None, ["backup"], respect_windows=False, caller=caller, now=world.now
        )
    world.end_all()
    read_news(world)
    assert (len(backups(world)), scripts(world)) == (1, [])
