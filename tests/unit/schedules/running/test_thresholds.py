"""What the heatmap and `/status` read from schedules."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo

from holdfast.operations.status import Status
from holdfast.repositories.models import Repository
from holdfast.schedules.running.thresholds import ScheduleCadence, missed_since, next_due
from tests.unit.schedules.running.world import ALL_STEPS, World, at

CADENCE = ScheduleCadence()


def thresholds(world: World, repository: int) -> dict[str, tuple[timedelta, int]]:
    with world.database.reading() as session:
        found = CADENCE.thresholds(session, session.get_one(Repository, repository))
    return {cell: (timedelta(seconds=limit.seconds), limit.schedule_id) for cell, limit in found.items()}


def missed(world: World, repository: int, zone: str = "UTC") -> tuple[bool, list[date]]:
    with world.database.reading() as session:
        known = session.get_one(Repository, repository)
        found = CADENCE.missed_runs(session, known, ZoneInfo(zone), date(2026, 3, 1), date(2026, 3, 31))
    return found.is_known, sorted(found.days)


def test_the_threshold_is_the_gap_the_spread_and_some_grace(world: World) -> None:
    repository = world.repository()
    schedule = world.schedule(repository, steps=ALL_STEPS, spread_minutes=30)
    nightly = timedelta(days=1, minutes=30) + timedelta(hours=6)
    found = thresholds(world, repository)
    assert found["backup"] == (nightly, schedule)
    assert found["check"] == (nightly + timedelta(days=30), schedule)
    assert "mirror" not in found


def test_the_shortest_of_several_schedules_counts_and_disabled_ones_do_not(world: World) -> None:
    repository = world.repository()
    world.schedule(repository, cron_expression="0 2 * * 0")
    hourly = world.schedule(repository, cron_expression="0 * * * *")
    world.schedule(repository, cron_expression="*/5 * * * *", enabled=False, next_due_at=None)
    assert thresholds(world, repository)["backup"] == (timedelta(hours=2), hourly)
    assert thresholds(world, world.repository()) == {}


def test_a_day_without_a_success_is_missed_on_its_due_day_in_the_requested_zone(world: World) -> None:
    repository = world.repository()
    world.schedule(repository, cron_expression="30 23 * * *")
    assert missed(world, repository) == (False, [])
    world.tick(at(2, 23, 30))
    world.end_all(Status.FAILED, "engine.disk_full")
    assert missed(world, repository) == (True, [date(2026, 3, 2)])
    assert missed(world, repository, "Europe/Berlin") == (True, [date(2026, 3, 3)])


def test_a_catch_up_the_next_morning_fills_the_day_on_which_it_was_due(world: World) -> None:
    agent = world.agent("offline")
    repository = world.repository(execution_target="agent", agent_machine_id=agent)
    world.schedule(repository)
    for day in (2, 3, 4):
        world.tick(at(day, 2))
    world.now = at(5, 1)
    world.agent_goes(agent, "online")
    world.tick()
    world.end_all()
    assert missed(world, repository)[1] == [date(2026, 3, 2), date(2026, 3, 3)]


def test_runs_skipped_by_a_pause_are_not_missed_but_overlaps_are(world: World) -> None:
    repository = world.repository()
    world.schedule(repository)
    world.pause()
    world.tick(at(2, 2))
    world.pause(paused=False)
    world.tick(at(3, 2))
    world.tick(at(4, 2))
    assert missed(world, repository) == (True, [date(2026, 3, 4)])


def test_a_manual_backup_on_the_same_day_fills_it(world: World) -> None:
    repository = world.repository()
    world.schedule(repository)
    world.tick(at(2, 2))
    [operation] = world.operations()
    world.end_all(Status.FAILED, "engine.disk_full")
    assert missed(world, repository)[1] == [date(2026, 3, 2)]
    by_hand = world.backup_by_hand(repository, at(2, 18))
    assert by_hand != operation.id
    assert missed(world, repository)[1] == []


def test_reports_get_the_missed_and_the_next_due_times(world: World) -> None:
    repository = world.repository()
    other = world.repository()
    schedule = world.schedule(repository, cron_expression="0 2 * * *", catch_up="once")
    world.tick(at(1))
    world.tick(at(5, 12))

    with world.database.reading() as session:
        assert missed_since(session, at(1)) == {repository: 3}  # of the 2nd, 3rd and 4th; that of the 5th runs now
        assert missed_since(session, at(6)) == {}
        assert next_due(session) == {repository: at(6, 2)}
        assert other not in next_due(session)
    world.change(schedule, enabled=False)
    with world.database.reading() as session:
        assert next_due(session) == {}
