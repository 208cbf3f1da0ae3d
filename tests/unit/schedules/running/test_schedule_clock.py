"""Wrong clocks and changed zone data."""

from datetime import timedelta

from sqlalchemy import select

from holdfast.schedules.models import ScheduleState
from tests.unit.schedules.running.world import World, at


def test_a_clock_in_the_wrong_year_does_not_silence_a_schedule(world: World) -> None:
    schedule = world.schedule(world.repository())
    world.tick(at(2, 1, 50))
    wrong = at(2, 1, 55).replace(year=2031)
    world.tick(wrong)
    world.end_all()
    assert world.read(schedule).next_due_at > wrong

    world.tick(at(2, 2, 30))
    assert world.read(schedule).next_due_at == at(3, 2)
    assert world.told(schedule) == [(at(2, 2), "ran", None)], (
        "no due time of the hour between is lost, nor any other kept"
    )
    assert [row.due_at for row in world.rows(schedule, voided=True) if row.voided_at is not None]
    with world.database.reading() as session:
        state = session.scalars(select(ScheduleState)).one()
    assert (state.clock_jumped_at, state.clock_jumped_seconds) == (
        at(2, 2, 30),
        int((wrong - at(2, 2, 30)).total_seconds()),
    )


def test_a_clock_that_is_set_back_by_seconds_changes_nothing(world: World) -> None:
    schedule = world.schedule(world.repository())
    world.tick(at(2, 2))
    world.tick(at(2, 2) - timedelta(seconds=50))
    world.tick(at(2, 2, 1))
    assert world.told(schedule) == [(at(2, 2), "ran", None)]


def test_a_clock_set_back_to_shortly_after_a_due_time_does_not_run_it_again(world: World) -> None:
    """A row is voided only if its due time is in the future again; only then does it become due a second time."""
    schedule = world.schedule(world.repository())
    world.tick(at(2, 2, 30))
    world.end_all()
    world.tick(at(2, 2, 10))
    world.tick(at(2, 2, 40))
    assert world.told(schedule) == [(at(2, 2), "ran", None)]


def test_new_zone_data_recomputes_due_times_before_the_first_tick(world: World) -> None:
    schedule = world.schedule(world.repository(), tz_version="1999z", next_due_at=at(2, 5))
    process = world.new_process()
    world.tick(at(2, 2), process)
    assert world.told(schedule) == [(at(2, 2), "ran", None)]
    assert world.read(schedule).tz_version != "1999z"
