"""What happens to due times: each ends as one row, according to the table of outcomes."""

from datetime import timedelta

import pytest

from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.operations.status import Status
from holdfast.schedules import edit
from holdfast.schedules.models import Outcome, Reason, Schedule
from tests.unit.schedules.running.world import ALL_STEPS, World, at, kinds

ADMIN = Caller(1, "admin", Role.ADMIN, None, None, None, must_change_password=False, address=None)


def test_a_due_time_becomes_one_run_and_the_next_one_is_stored(world: World) -> None:
    repository = world.repository()
    schedule = world.schedule(repository)

    world.tick(at(2, 1, 59))
    assert world.rows() == []

    world.tick(at(2, 2))
    world.tick(at(2, 2, 1))
    assert world.told(schedule) == [(at(2, 2), "ran", None)]
    assert world.read(schedule).next_due_at == at(3, 2)

    [operation] = world.operations()
    assert (operation.kind, operation.trigger, operation.triggered_by) == ("backup", "schedule", "schedule")
    assert (operation.schedule_id, operation.schedule_name) == (schedule, world.read(schedule).name)
    world.end_all()
    [row] = world.rows()
    assert (row.result, row.run_id, row.tries) == ("completed", operation.run_id, 1)
    assert row.settled_at is not None
    assert row.steps[0]["status"] == "completed"


def test_all_repositories_of_a_due_time_share_one_run_id(world: World) -> None:
    schedule = world.schedule(world.repository(), world.repository())
    world.tick(at(2, 2))

    assert len({row.run_id for row in world.rows(schedule)}) == 1
    assert len(world.operations()) == 2


def test_two_processes_start_one_run(world: World) -> None:
    other = world.new_process()
    schedule = world.schedule(world.repository())
    world.tick(at(2, 2))
    world.tick(at(2, 2), other)

    assert len(world.rows(schedule)) == len(world.operations()) == 1


def test_a_disabled_schedule_has_no_due_times(world: World) -> None:
    schedule = world.schedule(world.repository(), enabled=False, next_due_at=None)
    world.tick(at(9))
    assert world.rows(schedule) == []


@pytest.mark.parametrize(("change", "reason"), [("snooze", "snoozed"), ("pause", "paused")])
def test_a_due_time_during_a_pause_or_snooze_is_skipped_with_its_reason(world: World, change: str, reason: str) -> None:
    schedule = world.schedule(world.repository(), snoozed_until=at(3) if change == "snooze" else None)
    world.pause(paused=change == "pause")
    world.tick(at(2, 2))
    assert world.told(schedule) == [(at(2, 2), "skipped", reason)]
    assert world.operations() == []


def test_a_schedule_without_repositories_still_leaves_a_row(world: World) -> None:
    schedule = world.schedule(targets={"labels": {"site": "north"}})
    world.tick(at(2, 2))
    [row] = world.rows(schedule)
    assert (row.repository_id, row.outcome, row.reason) == (0, "skipped", "no_targets")


def test_labels_select_repositories_by_their_own_and_their_agents_labels(world: World) -> None:
    agent = world.agent(labels={"site": "north"})
    of_agent = world.repository(execution_target="agent", agent_machine_id=agent, labels={"tier": "gold"})
    own = world.repository(labels={"site": "north", "tier": "gold"})
    world.repository(labels={"site": "north"})
    schedule = world.schedule(targets={"labels": {"site": "north", "tier": "gold"}})
    world.tick(at(2, 2))
    assert {row.repository_id for row in world.rows(schedule)} == {of_agent, own}


@pytest.mark.parametrize(
    ("values", "reason"), [({"mode": "observe"}, "observe_only"), ({"setup_state": "pending"}, "setup_pending")]
)
def test_a_repository_that_takes_no_work_is_skipped(world: World, values: dict[str, str], reason: str) -> None:
    schedule = world.schedule(world.repository(**values))
    world.tick(at(2, 2))
    assert world.told(schedule) == [(at(2, 2), "skipped", reason)]


def test_a_run_is_skipped_while_the_previous_one_is_active_and_names_its_operation(world: World) -> None:
    schedule = world.schedule(world.repository())
    world.tick(at(2, 2))
    [operation] = world.operations()
    world.tick(at(3, 2))

    first, second = world.rows(schedule)
    assert (second.outcome, second.reason, second.reason_operation_id) == ("skipped", "overlap", operation.id)
    world.end_all()
    world.tick(at(4, 2))
    assert [row.outcome for row in world.rows(schedule)] == ["ran", "skipped", "ran"]
    assert first.outcome == "ran"


def test_only_the_newest_of_the_runs_queued_behind_a_long_one_runs(world: World) -> None:
    schedule = world.schedule(world.repository(), overlap="queue")
    for day in (2, 3, 4):
        world.tick(at(day, 2))
    assert [(row.outcome, row.reason) for row in world.rows(schedule)] == [
        ("ran", None),
        ("skipped", "overlap"),
        ("waiting", None),
    ]
    world.end_all()
    world.tick(at(4, 3))
    assert [row.outcome for row in world.rows(schedule)] == ["ran", "skipped", "ran"]


def test_a_machine_that_was_offline_for_days_gets_one_run_when_it_is_back(world: World) -> None:
    agent = world.agent("offline")
    schedule = world.schedule(world.repository(execution_target="agent", agent_machine_id=agent))
    for day in range(2, 6):
        world.tick(at(day, 2))
    world.tick(at(5, 9))
    missed = [(at(day, 2), "missed", "machine_offline") for day in range(2, 5)]
    assert world.told(schedule) == [*missed, (at(5, 2), "waiting", None)]

    world.now = at(5, 9, 1)
    world.agent_goes(agent, "online")
    world.tick()
    assert world.told(schedule) == [*missed, (at(5, 2), "ran", None)]
    assert len(world.operations()) == 1


def test_without_catch_up_a_run_waits_only_for_a_limited_time_for_its_machine(world: World) -> None:
    agent = world.agent("offline")
    repository = world.repository(execution_target="agent", agent_machine_id=agent)
    schedule = world.schedule(repository, catch_up="skip", start_within_minutes=30)
    world.tick(at(2, 2))
    world.tick(at(2, 2, 29))
    assert world.told(schedule) == [(at(2, 2), "waiting", None)]
    world.tick(at(2, 2, 31))
    assert world.told(schedule) == [(at(2, 2), "missed", "machine_offline")]


@pytest.mark.parametrize("catch_up", ["once", "skip"])
def test_after_downtime_the_newest_due_time_runs_if_catch_up_is_on(world: World, catch_up: str) -> None:
    schedule = world.schedule(world.repository(), catch_up=catch_up)
    world.tick(at(6, 12))
    older = [(at(day, 2), "missed", "service_down") for day in range(2, 6)]
    newest = (at(6, 2), "ran", None) if catch_up == "once" else (at(6, 2), "missed", "service_down")
    assert world.told(schedule) == [*older, newest]


def test_more_than_a_thousand_past_due_times_become_one_row_before_the_newest(world: World) -> None:
    schedule = world.schedule(world.repository(), cron_expression="*/5 * * * *")
    world.tick(at(2, 0) + timedelta(days=10))
    span, newest = world.rows(schedule)
    assert (span.due_at, span.due_until) == (at(2, 0, 5), at(11, 23, 55))
    assert (span.due_count, span.outcome, span.reason) == (10 * 288 - 1, "missed", "service_down")
    assert (newest.due_at, newest.outcome) == (at(12), "ran")
    assert world.read(schedule).next_due_at == at(12, 0, 5)


def test_a_run_waits_for_a_window_that_opens_later(world: World) -> None:
    schedule = world.schedule(world.repository(), windows=[{"from": "04:00", "to": "06:00"}])
    world.tick(at(2, 2))
    [row] = world.rows(schedule)
    assert (row.outcome, row.waiting_for, row.look_at) == ("waiting", "window", at(2, 4))
    world.tick(at(2, 4))
    assert world.told(schedule) == [(at(2, 2), "ran", None)]


def test_a_due_time_is_missed_if_no_window_opens_before_the_next_one(world: World) -> None:
    schedule = world.schedule(world.repository(), windows=[{"days": ["sat"], "from": "04:00", "to": "06:00"}])
    world.tick(at(2, 2))
    assert world.told(schedule) == [(at(2, 2), "missed", "window_closed")]


def test_a_run_set_to_stop_when_its_window_closes_is_cancelled_then(world: World) -> None:
    windows = [{"from": "01:00", "to": "03:00", "upload_kib": 300}]
    schedule = world.schedule(world.repository(), windows=windows, on_window_close="stop", steps=ALL_STEPS)
    world.tick(at(2, 2))
    assert world.operations()[0].params["upload_ratelimit_kib"] == 300
    world.tick(at(2, 3))
    world.settle()
    assert {operation.status for operation in world.operations()} == {"cancelled"}
    [row] = world.rows(schedule)
    assert (row.outcome, row.result) == ("ran", "cancelled")


def test_a_due_time_is_skipped_if_the_last_success_is_recent_enough(world: World) -> None:
    repository = world.repository(last_backup=at(2, 1))
    schedule = world.schedule(repository, min_success_interval_minutes=600)
    world.tick(at(2, 2))
    assert world.told(schedule) == [(at(2, 2), "skipped", "too_soon")]


def test_a_success_in_the_future_is_never_recent_enough(world: World) -> None:
    repository = world.repository(last_backup=at(2, 2) + timedelta(days=400))
    schedule = world.schedule(repository, min_success_interval_minutes=600)
    world.tick(at(2, 2))
    assert world.told(schedule) == [(at(2, 2), "ran", None)]


@pytest.mark.parametrize("reason", [Reason.DELETED, Reason.DISABLED])
def test_deleting_or_disabling_a_schedule_ends_its_waiting_runs(world: World, reason: Reason) -> None:
    agent = world.agent("offline")
    schedule = world.schedule(world.repository(execution_target="agent", agent_machine_id=agent))
    world.tick(at(2, 2))
    assert world.told(schedule) == [(at(2, 2), Outcome.WAITING, None)]
    with world.database.writing() as session:
        found = session.get_one(Schedule, schedule)
        if reason is Reason.DELETED:
            edit.delete(session, ADMIN, found)
        else:
            edit.set_enabled(session, ADMIN, found, enabled=False)
    assert world.told(schedule) == [(at(2, 2), Outcome.SKIPPED, reason)]
    world.agent_goes(agent, "online")
    world.tick(at(3, 2))
    assert world.operations() == []


def test_the_spread_moves_the_start_and_not_the_due_time(world: World) -> None:
    schedule = world.schedule(*(world.repository() for _ in range(8)), spread_minutes=30)
    world.tick(at(2, 2))
    rows = world.rows(schedule)
    assert {row.due_at for row in rows} == {at(2, 2)}
    starts = sorted(row.start_at for row in rows)
    assert at(2, 2) <= starts[0] < starts[-1] < at(2, 2, 30)
    world.tick(at(2, 2, 30))
    assert {row.outcome for row in world.rows(schedule)} == {"ran"}


# --- steps ------------------------------------------------------------------------------------------------------------


def test_the_steps_of_a_run_are_one_chain(world: World) -> None:
    schedule = world.schedule(world.repository(), steps=ALL_STEPS)
    world.tick(at(2, 2))
    found = world.operations()
    backup, prune, compact, check, restore_check = found
    assert kinds(found) == ["backup", "prune", "compact", "check", "restore_check"]
    assert (prune.depends_on_id, prune.depends_needs) == (backup.id, "succeeded")
    assert (compact.depends_on_id, compact.depends_needs) == (prune.id, "succeeded")
    assert (check.depends_on_id, check.depends_needs) == (backup.id, "ran")
    assert (restore_check.depends_on_id, restore_check.depends_needs) == (check.id, "ran")
    assert prune.params == {"keep_daily": 7, "complete": True, "series": "{repository}-{now}"}
    world.end_all()
    assert [step["status"] for step in world.rows(schedule)[0].steps] == ["completed"] * 5


def test_a_step_is_left_out_until_its_days_have_passed_and_the_row_shows_when_it_is_due(world: World) -> None:
    repository = world.repository(last_check=at(1), last_compact=at(1), last_restore_check=at(31, month=1))
    schedule = world.schedule(repository, steps=ALL_STEPS)
    world.tick(at(2, 2))
    assert kinds(world.operations()) == ["backup", "prune", "restore_check"]
    assert world.operations()[2].depends_on_id == world.operations()[0].id
    steps = {step["kind"]: step for step in world.rows(schedule)[0].steps}
    assert (steps["check"]["skipped"], steps["check"]["next_at"]) == ("not_due", at(31).isoformat())
    assert steps["check"]["operation_id"] is None


def test_a_run_without_due_steps_is_skipped(world: World) -> None:
    schedule = world.schedule(world.repository(last_check=at(1)), steps=[{"kind": "check", "every_days": 30}])
    world.tick(at(2, 2))
    assert world.told(schedule) == [(at(2, 2), "skipped", "nothing_due")]


def test_a_step_whose_last_success_is_in_the_future_is_due(world: World) -> None:
    repository = world.repository(last_check=at(2, 2) + timedelta(days=400))
    world.schedule(repository, steps=[{"kind": "check", "every_days": 30}])
    world.tick(at(2, 2))
    assert kinds(world.operations()) == ["check"]


def test_a_failed_backup_fails_the_run_but_its_check_still_runs(world: World) -> None:
    schedule = world.schedule(world.repository(), steps=ALL_STEPS)
    world.tick(at(2, 2))
    world.end(world.operations()[0].id, Status.FAILED, "engine.disk_full")
    world.end_all()
    [row] = world.rows(schedule)
    assert (row.result, row.error_key) == ("failed", "engine.disk_full")
    statuses = [step["status"] for step in row.steps]
    assert statuses == ["failed", "skipped", "skipped", "completed", "completed"]


# --- retries ----------------------------------------------------------------------------------------------------------


def test_a_temporary_failure_is_retried_after_5_15_and_45_minutes(world: World) -> None:
    schedule = world.schedule(world.repository(), steps=ALL_STEPS[:2])
    world.tick(at(2, 2))
    moment = at(2, 2)
    for minutes in (5, 15, 45):
        world.end_all(Status.FAILED, "engine.unreachable")
        [row] = world.rows(schedule)
        moment += timedelta(minutes=minutes)
        assert (row.waiting_for, row.look_at, row.settled_at) == ("retry", moment, None)
        world.tick(moment - timedelta(seconds=1))
        before = world.operations()
        world.tick(moment)
        added = world.operations()[len(before) :]
        assert kinds(added) == ["backup", "prune"]
        assert [one.retry_of for one in added] == [one.id for one in before[-2:]]
        assert {one.run_id for one in world.operations()} == {row.run_id}
        assert added[1].depends_on_id == added[0].id
    world.end_all(Status.FAILED, "engine.unreachable")
    [row] = world.rows(schedule)
    assert (row.tries, row.result, row.error_key, row.waiting_for) == (4, "failed", "engine.unreachable", None)
    assert row.settled_at is not None


def test_a_retry_that_succeeds_makes_the_run_a_success(world: World) -> None:
    schedule = world.schedule(world.repository())
    world.tick(at(2, 2))
    world.end_all(Status.FAILED, "engine.locked")
    world.tick(at(2, 2, 5))
    world.end_all()
    [row] = world.rows(schedule)
    assert (row.result, row.error_key, row.tries) == ("completed", None, 2)


def test_a_failure_that_needs_a_person_is_not_retried(world: World) -> None:
    schedule = world.schedule(world.repository())
    world.tick(at(2, 2))
    world.end_all(Status.FAILED, "engine.passphrase_wrong")
    assert world.rows(schedule)[0].settled_at is not None


def test_no_retry_waits_beyond_the_next_due_time(world: World) -> None:
    schedule = world.schedule(world.repository(), cron_expression="*/10 * * * *")
    world.tick(at(2, 0, 10))
    world.end_all(Status.FAILED, "engine.locked")
    assert world.rows(schedule)[0].waiting_for == "retry"
    world.tick(at(2, 0, 20))
    first, second = world.rows(schedule)
    assert (first.result, first.waiting_for, second.outcome) == ("failed", None, "ran")
    world.now = at(2, 0, 29)
    world.end_all(Status.FAILED, "engine.locked")
    assert world.rows(schedule)[1].settled_at is not None
