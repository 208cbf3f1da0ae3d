"""Each kind of alarm, from evidence in the store, with both databases and a clock that the test sets."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.orm import Session

from holdfast.agents import last_seen_times
from holdfast.agents.models import AgentMachine
from holdfast.alarms import present, store, thresholds
from holdfast.alarms.evaluate import Rounds
from holdfast.alarms.models import Alarm
from holdfast.alarms.thresholds import AlarmThresholds, RepositoryThresholds
from holdfast.mirror.models import RcloneRemote, RepositoryMirror
from holdfast.notifications.models import Destination
from holdfast.operations import limits
from holdfast.operations.models import OutboxEntry
from holdfast.repositories.models import Repository
from holdfast.repositories.overdue import OverdueAfter
from holdfast.storage.session import Database
from tests.support.evidence import add_agent_machine, add_operation, add_repository

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


class Rules:
    """By default, a schedule must back up every repository each day."""

    def __init__(self, **cells: OverdueAfter) -> None:
        self.cells: Mapping[str, OverdueAfter] = cells or {"backup": OverdueAfter(DAY.total_seconds(), 1)}

    def of_all(self, session: Session) -> Mapping[int, Mapping[str, OverdueAfter]]:
        return dict.fromkeys(session.scalars(select(Repository.id)), self.cells)


class World:
    def __init__(self, database: Database, rules: Rules | None = None) -> None:
        self.database = database
        self.rounds = Rounds(database, rules or Rules())

    def round(self, at: datetime = NOW) -> set[tuple[str, str, str]]:
        """Evaluate, and return the open alarms: kind, subject, severity."""
        with self.database.writing() as session:
            store.keep_measurements(session)
        self.rounds.run(at)
        with self.database.reading() as session:
            rows = session.scalars(select(Alarm).where(Alarm.state == "open"))
            return {(row.kind, row.subject, row.severity) for row in rows}

    def rounds_until(self, first: datetime, last: datetime) -> set[tuple[str, str, str]]:
        found: set[tuple[str, str, str]] = set()
        while first <= last:
            found = self.round(first)
            first += MINUTE
        return found

    def add(self, **values: Any) -> int:
        with self.database.writing() as session:
            return add_repository(session, **{"created_at": NOW - 100 * DAY, **values}).id

    def change(self, repository_id: int, **values: Any) -> None:
        with self.database.writing() as session:
            session.execute(update(Repository).where(Repository.id == repository_id).values(**values))

    def news(self) -> list[str]:
        with self.database.reading() as session:
            rows = session.scalars(
                select(OutboxEntry).where(OutboxEntry.topic.like("alarm.%")).order_by(OutboxEntry.id)
            )
            return [f"{row.topic} {row.payload['kind']} {row.payload['severity']}" for row in rows]


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def named(found: set[tuple[str, str, str]]) -> set[tuple[str, str]]:
    return {(kind, severity) for kind, _, severity in found}


def test_an_overdue_backup_raises_an_alarm_that_becomes_critical_and_then_clears(world: World) -> None:
    repository = world.add(last_backup=NOW - HOUR)
    assert world.round() == set()
    assert world.round(NOW + DAY) == {("backup_overdue", f"repository:{repository}", "warning")}
    assert named(world.round(NOW + 3 * DAY)) == {("backup_overdue", "critical")}
    world.change(repository, last_backup=NOW + 3 * DAY)
    assert world.round(NOW + 3 * DAY + MINUTE) == set()
    assert world.news() == [
        "alarm.raised backup_overdue warning",
        "alarm.changed backup_overdue critical",
        "alarm.cleared backup_overdue critical",
    ]


def test_a_missing_first_backup_counts_from_when_the_repository_was_added(world: World) -> None:
    world.add(created_at=NOW - 2 * DAY)
    world.add(created_at=NOW - HOUR)

    assert named(world.round()) == {("backup_overdue", "warning")}


def test_a_success_in_the_future_is_unknown(database: Database) -> None:
    rule = OverdueAfter(DAY.total_seconds(), 1)
    world = World(database, Rules(backup=rule, check=rule))
    repository = world.add(last_backup=NOW + 400 * DAY, last_check=NOW + MINUTE)
    assert world.round() == {("backup_overdue", f"repository:{repository}", "critical")}
    with database.reading() as session:
        assert session.scalars(select(Alarm.evidence)).one()["last_success_at"] is None


def test_an_observed_repository_is_never_overdue(world: World) -> None:
    world.add(mode="observe")

    assert world.round() == set()


def test_thresholds_can_be_set_for_all_repositories_and_for_one(world: World) -> None:
    one, other = world.add(last_backup=NOW - 5 * HOUR), world.add(last_backup=NOW - 5 * HOUR)
    with world.database.writing() as session:
        thresholds.put_for_all(session, AlarmThresholds(backup_overdue_hours=4))
        thresholds.put_for_repository(session, one, RepositoryThresholds(backup_overdue_hours=6))
    assert {subject for _, subject, _ in world.round()} == {f"repository:{other}"}
    with world.database.writing() as session:
        thresholds.put_for_repository(session, other, RepositoryThresholds(off=["backup_overdue"]))
    assert world.round() == set()


def test_checks_are_overdue_only_where_they_ran_before_or_are_scheduled(database: Database) -> None:
    month = OverdueAfter(30 * DAY.total_seconds())
    world = World(database, Rules(check=month, restore_check=month))
    never, once = world.add(), world.add(last_check=NOW - 40 * DAY, last_restore_check=NOW - 40 * DAY)
    world.change(never, last_backup=NOW)
    world.change(once, last_backup=NOW)

    found = world.round()
    assert {(kind, subject) for kind, subject, _ in found} == {
        ("check_overdue", f"repository:{once}"),
        ("restore_check_overdue", f"repository:{once}"),
    }
    scheduled = World(database, Rules(check=OverdueAfter(month.seconds, schedule_id=5)))
    assert ("check_overdue", f"repository:{never}", "critical") in scheduled.round()


def test_a_mirror_is_behind_while_it_lacks_the_last_backup(database: Database) -> None:
    world = World(database, Rules(mirror=OverdueAfter(7 * DAY.total_seconds())))
    behind, complete, by_hand = (
        world.add(last_backup=NOW - DAY, last_mirror=NOW - 10 * DAY),
        world.add(last_backup=NOW - 11 * DAY, last_mirror=NOW - 10 * DAY),
        world.add(last_backup=NOW - DAY, last_mirror=NOW - 10 * DAY),
    )
    with database.writing() as session:
        remote = RcloneRemote(
            uuid="0" * 32, name="remote", provider="local", options={}, created_at=NOW, updated_at=NOW
        )
        session.add(remote)
        session.flush()
        for number, mode in ((behind, "after_backup"), (complete, "after_backup"), (by_hand, "manual")):
            session.add(
                RepositoryMirror(
                    repository_id=number,
                    remote_id=remote.id,
                    path=f"/mirror/{number}",
                    mode=mode,
                    shrink_threshold_percent=50,
                    verify=False,
                    created_at=NOW - 90 * DAY,
                    updated_at=NOW,
                )
            )

    found = {(kind, subject) for kind, subject, _ in world.round() if kind == "mirror_behind"}
    assert found == {("mirror_behind", f"repository:{behind}")}


def test_a_repository_without_a_schedule_or_backup_raises_an_alarm_after_a_week(database: Database) -> None:
    world = World(database, Rules(backup=OverdueAfter(1000 * DAY.total_seconds())))
    repository = world.add(created_at=NOW - 8 * DAY)
    world.add(created_at=NOW - 6 * DAY)
    world.add(created_at=NOW - 80 * DAY, last_backup=NOW - DAY)
    assert world.round() == {("schedule_missing", f"repository:{repository}", "warning")}

    scheduled = World(database, Rules(backup=OverdueAfter(1000 * DAY.total_seconds(), schedule_id=1)))
    assert scheduled.round() == set()


# --- agents -------------------------------------------------------------------------------------------------------


def add_agent(world: World, **values: Any) -> int:
    with world.database.writing() as session:
        return add_agent_machine(session, **values).id


def change_agent(world: World, agent: int, **values: Any) -> None:
    with world.database.writing() as session:
        session.execute(update(AgentMachine).where(AgentMachine.id == agent).values(**values))


def agent_alarms(found: set[tuple[str, str, str]]) -> set[str]:
    return {kind for kind, subject, _ in found if subject.startswith("agent:")}


def test_a_silent_agent_with_a_backup_due_raises_an_alarm_until_it_is_back_for_ten_minutes(world: World) -> None:
    agent = add_agent(world, status="offline", last_seen_at=NOW - 25 * HOUR)
    world.add(execution_target="agent", agent_machine_id=agent, last_backup=NOW - 26 * HOUR)
    assert agent_alarms(world.round()) == {"agent_silent"}

    change_agent(world, agent, status="online", last_seen_at=NOW)
    assert agent_alarms(world.rounds_until(NOW + MINUTE, NOW + 4 * MINUTE)) == {"agent_silent"}
    assert agent_alarms(world.rounds_until(NOW + 5 * MINUTE, NOW + 30 * MINUTE)) == {"agent_silent"}, "silent again"
    back = NOW + HOUR
    for minute in range(12):
        change_agent(world, agent, last_seen_at=back + minute * MINUTE)
        open_now = agent_alarms(world.round(back + minute * MINUTE))
        assert open_now == ({"agent_silent"} if minute < 10 else set()), minute


def test_a_silent_agent_without_a_backup_due_raises_no_alarm(world: World) -> None:
    agent = add_agent(world, status="offline", last_seen_at=NOW - 9 * DAY)
    world.add(execution_target="agent", agent_machine_id=agent, last_backup=NOW - HOUR)
    disabled = add_agent(world, status="disabled", last_seen_at=NOW - 9 * DAY)
    world.add(execution_target="agent", agent_machine_id=disabled)

    assert agent_alarms(world.round()) == set()


def test_an_idle_agent_with_separately_stored_times_is_not_silent(world: World) -> None:
    agent = add_agent(world, last_seen_at=NOW - 9 * DAY)
    world.add(execution_target="agent", agent_machine_id=agent)
    assert agent_alarms(world.round()) == {"agent_silent"}
    for minute in range(12):
        with world.database.writing() as session:
            last_seen_times.store_times(session, {agent: NOW + minute * MINUTE})
        found = agent_alarms(world.round(NOW + minute * MINUTE))
    assert found == set()


def test_a_backup_that_waits_for_its_agent_counts_as_due(world: World) -> None:
    agent = add_agent(world, status="offline", last_seen_at=NOW - 25 * HOUR)
    repository = world.add(execution_target="agent", agent_machine_id=agent, last_backup=NOW - HOUR)
    with world.database.writing() as session:
        add_operation(session, "backup", "pending", repository_id=repository, machine_id=agent)

    assert agent_alarms(world.round()) == {"agent_silent"}


def test_a_clock_alarm_needs_ten_minutes_of_skew_and_clears_after_ten_without(world: World) -> None:
    agent = add_agent(world, clock_skew_seconds=-90.0)
    assert agent_alarms(world.rounds_until(NOW, NOW + 9 * MINUTE)) == set()
    assert agent_alarms(world.round(NOW + 10 * MINUTE)) == {"clock_skew"}
    change_agent(world, agent, clock_skew_seconds=45.0)
    assert agent_alarms(world.rounds_until(NOW + 11 * MINUTE, NOW + 40 * MINUTE)) == {"clock_skew"}
    change_agent(world, agent, status="offline", clock_skew_seconds=1.0)
    assert agent_alarms(world.rounds_until(NOW + 41 * MINUTE, NOW + 60 * MINUTE)) == {"clock_skew"}, "unknown"
    with world.database.reading() as session:
        assert session.scalars(select(Alarm.known).where(Alarm.kind == "clock_skew")).all() == [False]
    change_agent(world, agent, status="online")
    assert agent_alarms(world.rounds_until(NOW + 61 * MINUTE, NOW + 70 * MINUTE)) == {"clock_skew"}
    assert agent_alarms(world.round(NOW + 71 * MINUTE)) == set()


# --- storage, keys, damage ------------------------------------------------------------------------------------------


def space(world: World, repository: int, free: int, at: datetime, total: int = 1000) -> None:
    world.change(repository, storage_free_bytes=free, storage_total_bytes=total, storage_seen_at=at)


def kinds(found: set[tuple[str, str, str]]) -> set[str]:
    return {kind for kind, _, _ in found}


def test_a_storage_alarm_is_raised_below_ten_percent_free_and_cleared_above_twelve(world: World) -> None:
    repository = world.add(last_backup=NOW)
    assert world.round() == set(), "nothing is known"
    for free, expected in ((110, False), (99, True), (110, True), (120, True), (121, False), (110, False)):
        space(world, repository, free, NOW)
        assert ("storage_full" in kinds(world.round())) == expected, free
    space(world, repository, 29, NOW)
    assert ("storage_full", "critical") in named(world.round())


def test_storage_that_fills_up_within_two_weeks_raises_an_alarm_until_it_stops_growing(world: World) -> None:
    repository = world.add(last_backup=NOW + 90 * DAY)
    for day in range(11):  # 40 a day of 1000: from day 8 on there are fewer than 14 days left
        space(world, repository, 880 - 40 * day, NOW + day * DAY)
        full = "storage_full" in kinds(world.round(NOW + day * DAY))
        left = (880 - 40 * day) / 40
        assert full == (day >= 3 and left < 14), day
    for day in range(11, 40):  # it stops growing: on day 16 the growth of the last 14 days leaves 21 days, then more
        space(world, repository, 480, NOW + day * DAY)
        full = "storage_full" in kinds(world.round(NOW + day * DAY))
        assert full == (day <= 16), day


def test_absurd_sizes_reported_by_an_agent_do_not_break_a_round(world: World) -> None:
    repository = world.add(last_backup=NOW + 90 * DAY)
    for day, free in enumerate((2**63 - 1, 2**62, 5, 2**63 - 1, 0)):
        space(world, repository, free, NOW + day * DAY, total=2**63 - 1)
        world.round(NOW + day * DAY)
    assert ("storage_full", "critical") in named(world.round(NOW + 5 * DAY))
    space(world, repository, 0, NOW + 6 * DAY, total=0)
    world.round(NOW + 6 * DAY)


def test_a_missing_measurement_does_not_clear_an_alarm(world: World) -> None:
    repository = world.add(last_backup=NOW)
    space(world, repository, 50, NOW)
    assert kinds(world.round()) == {"storage_full"}
    world.change(repository, storage_free_bytes=None, storage_seen_at=None)
    assert kinds(world.round(NOW + MINUTE)) == {"storage_full"}
    with world.database.reading() as session:
        assert session.scalars(select(Alarm.known)).all() == [False]


def test_a_key_that_was_never_exported_raises_an_alarm_after_a_week(world: World) -> None:
    world.add(encryption="none", last_backup=NOW)
    world.add(encryption="repokey-blake2", created_at=NOW - 6 * DAY, last_backup=NOW)
    inside = world.add(encryption="repokey-blake2", last_backup=NOW)
    beside = world.add(encryption="keyfile-blake2", last_backup=NOW)
    assert world.round() == {
        ("key_not_exported", f"repository:{inside}", "warning"),
        ("key_not_exported", f"repository:{beside}", "critical"),
    }
    world.change(inside, key_exported_at=NOW)
    world.change(beside, key_exported_at=NOW)
    assert world.round(NOW + MINUTE) == set()


def check(world: World, repository: int, kind: str, status: str, key: str | None = None, **result: Any) -> None:
    with world.database.writing() as session:
        add_operation(
            session, kind, status, NOW, repository_id=repository, error_key=key, result={"problem_count": 0, **result}
        )


@pytest.mark.parametrize("found_by", ["check", "restore_check"])
def test_damage_is_shown_until_a_full_check_has_passed(world: World, found_by: str) -> None:
    repository = world.add(last_backup=NOW)
    check(world, repository, "check", "completed", complete=True)
    check(world, repository, found_by, "failed", "engine.damaged")
    assert named(world.round()) == {("damaged", "critical")}
    check(world, repository, "check", "failed", "engine.unreachable", complete=True)
    check(world, repository, "check", "completed", complete=False)
    check(world, repository, "check", "completed", complete=True, repair=True)
    check(world, repository, "check", "completed_with_warnings", complete=True)
    check(world, repository, "restore_check", "completed")
    assert named(world.round(NOW + MINUTE)) == {("damaged", "critical")}
    check(world, repository, "check", "completed", complete=True, repair=False)
    assert world.round(NOW + 2 * MINUTE) == set()


def test_an_alarm_clears_when_its_repository_is_forgotten(world: World) -> None:
    repository = world.add(last_backup=NOW)
    check(world, repository, "check", "failed", "engine.damaged")
    assert kinds(world.round()) == {"damaged"}
    with world.database.writing() as session:
        session.delete(session.get_one(Repository, repository))
    assert world.round(NOW + MINUTE) == set()


# --- the service ------------------------------------------------------------------------------------------------------


def tick(world: World, at: datetime, jumped_at: datetime | None = None) -> None:
    from holdfast.schedules.models import ScheduleState

    with world.database.writing() as session:
        session.execute(text("DELETE FROM schedule_state"))
        session.execute(
            insert(ScheduleState).values(
                id=1,
                paused=False,
                last_tick_at=at,
                clock_jumped_at=jumped_at,
                clock_jumped_seconds=7200 if jumped_at else None,
            )
        )


def test_a_late_tick_raises_an_alarm(world: World) -> None:
    assert world.round() == set(), "never ticked: not known"
    tick(world, NOW)
    assert world.rounds_until(NOW, NOW + 5 * MINUTE) == set()
    assert world.rounds_until(NOW + 6 * MINUTE, NOW + 9 * MINUTE) == {("tick_late", "service:0", "critical")}
    tick(world, NOW + 10 * MINUTE)
    assert world.round(NOW + 10 * MINUTE) == set()


def test_a_clock_that_was_set_back_raises_an_alarm_for_a_day(world: World) -> None:
    tick(world, NOW, jumped_at=NOW)
    assert kinds(world.round(NOW + MINUTE)) == {"clock_jumped"}
    tick(world, NOW + 24 * HOUR, jumped_at=NOW)
    assert world.round(NOW + 24 * HOUR) == set()


def test_a_destination_that_fails_for_an_hour_raises_an_alarm_until_a_message_arrives(database: Database) -> None:
    world = World(database, Rules())
    with database.writing() as session:
        values = {"enabled": True, "options": {}, "created_at": NOW, "updated_at": NOW}
        for number, name in ((1, "mail"), (2, "hook")):
            session.add(Destination(id=number, uuid=str(number), name=name, kind="webhook", **values))

    def change(number: int, **changed: Any) -> None:
        with database.writing() as session:
            session.execute(update(Destination).where(Destination.id == number).values(**changed))

    change(1, failing_since=NOW, last_error="refused")
    assert world.round(NOW + 59 * MINUTE) == set()
    assert world.round(NOW + HOUR) == {("notifications_failing", "destination:1", "warning")}
    assert world.round(NOW + 3 * DAY) == {("notifications_failing", "destination:1", "critical")}
    change(1, failing_since=None)
    change(2, failing_since=NOW, enabled=False, disabled_reason="gone")
    assert world.round(NOW + 3 * DAY + MINUTE) == {("notifications_failing", "destination:2", "critical")}
    change(2, disabled_reason=None)  # turned off by a user
    assert world.round(NOW + 3 * DAY + 2 * MINUTE) == set()


def test_services_that_do_not_restart_raise_alarms_on_local_ssh_and_agent_machines(database: Database) -> None:
    world = World(database)
    agent = add_agent(world, last_seen_at=NOW)
    failed = [{"place": place, "name": "web.service", "error": "no", "since": 1.0} for place in ("local", "ssh:7")]

    def tell(stored: list[dict[str, Any]], of_agent: list[dict[str, str]]) -> None:
        with database.writing() as session:
            limits.put(session, "services_not_started", stored)
            session.execute(update(AgentMachine).values(unstarted_services=of_agent))

    tell(failed, [{"name": "db.service", "error": "no"}])
    kind = "service_not_started"
    subjects = ("service:0", "ssh_machine:7", f"agent:{agent}")
    assert world.round() == {(kind, subject, "critical") for subject in subjects}
    with database.reading() as session:
        shown = {item.message for item in present.items(session, list(session.scalars(select(Alarm))), NOW)}
    assert all("web.service" in text or "db.service" in text for text in shown)
    tell([], [])
    assert world.round(NOW + MINUTE) == set()
