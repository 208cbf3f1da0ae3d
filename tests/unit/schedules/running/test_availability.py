"""Laptops: due some time after the last success, and then as soon as the machine is online."""

import socket
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from holdfast.machines.models import SshConnection
from holdfast.operations.status import Status
from tests.unit.schedules.running.world import World, at

LAPTOP: dict[str, Any] = {
    "schedule_mode": "availability",
    "cron_expression": None,
    "min_success_interval_minutes": 24 * 60,
    "availability_check_interval_minutes": 15,
    "retries": 0,
}


def succeed(world: World, repository: int) -> None:
    world.end_all()
    world.change_repository(repository, last_backup=world.now)


def test_a_laptop_is_backed_up_when_it_is_online_and_its_last_success_is_long_enough_ago(world: World) -> None:
    agent = world.agent("offline")
    repository = world.repository(execution_target="agent", agent_machine_id=agent)
    schedule = world.schedule(repository, **LAPTOP)
    world.walk(at(4), timedelta(hours=1))
    assert [(row.outcome, row.waiting_for) for row in world.rows(schedule)] == [("waiting", "machine")]

    world.agent_goes(agent, "online")
    world.tick()
    assert [row.outcome for row in world.rows(schedule)] == ["ran"]
    succeed(world, repository)
    world.walk(at(4, 23, 30), timedelta(minutes=30))
    assert len(world.rows(schedule)) == 1, "not before a day has passed"
    world.walk(at(5, 0, 30), timedelta(minutes=15))
    assert [row.outcome for row in world.rows(schedule)] == ["ran", "ran"]
    assert world.rows(schedule)[1].due_at == at(5)


def test_a_success_in_the_future_does_not_stop_the_backups_of_a_laptop(world: World) -> None:
    repository = world.repository(last_backup=at(2) + timedelta(days=400))
    schedule = world.schedule(repository, **LAPTOP)
    world.tick(at(2))
    assert [row.outcome for row in world.rows(schedule)] == ["ran"]
    world.now += timedelta(days=400)  # the clock is ahead while this backup ends
    world.end_all()
    world.tick()
    assert world.rows(schedule)[0].settled_at == world.now
    world.tick(at(2, 12))
    assert [row.due_at for row in world.rows(schedule)] == [at(2)]
    world.tick(at(3))
    assert [row.due_at for row in world.rows(schedule)] == [at(2), at(3)]


def test_a_failed_laptop_backup_is_retried_after_one_two_and_four_hours(world: World) -> None:
    repository = world.repository()
    schedule = world.schedule(repository, **LAPTOP)
    tries: list[datetime] = []
    while world.now < at(2, 9):
        world.tick(world.now + timedelta(minutes=15))
        if any(one.status == "pending" for one in world.operations()):
            tries.append(world.now)
            world.end_all(Status.FAILED, "engine.disk_full")
    hours = [round((later - earlier) / timedelta(hours=1), 2) for earlier, later in pairwise(tries)]
    assert hours == [1, 2, 4]
    assert len(world.rows(schedule)) == len(tries)


def test_a_skipped_laptop_runs_when_the_pause_is_over(world: World) -> None:
    schedule = world.schedule(world.repository(), **LAPTOP)
    world.pause()
    world.tick(at(2, 0, 1))
    assert [row.reason for row in world.rows(schedule)] == ["paused"]
    world.pause(paused=False)
    world.walk(at(2, 1), timedelta(minutes=5))
    assert [row.outcome for row in world.rows(schedule)] == ["skipped", "ran"]


def test_an_ssh_machine_is_probed_and_its_run_released_once_it_is_reachable(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with world.database.writing() as session:
        connection = SshConnection(
            name="laptop",
            host="127.0.0.1",
            port=port,
            username="u",
            state="unknown",
            created_at=at(2),
            updated_at=at(2),
        )
        session.add(connection)
        session.flush()
        number = connection.id
    repository = world.repository(execution_target="ssh", ssh_connection_id=number)
    schedule = world.schedule(repository, **LAPTOP)
    world.tick(at(2, 0, 1))
    world.ticks[0].try_machines(world.now)
    [row] = world.rows(schedule)
    assert (row.outcome, row.waiting_for, row.look_at) == ("waiting", "connection", at(2, 0, 16))

    with socket.create_server(("127.0.0.1", port)):
        world.now = at(2, 0, 16)
        world.tick()
        assert world.operations() == [], "the tick itself waits for no machine"
        world.ticks[0].try_machines(world.now)
    assert [row.outcome for row in world.rows(schedule)] == ["ran"]
