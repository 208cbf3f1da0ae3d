"""Messages announce changes: a failure, another error, a reminder, a recovery."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from sqlalchemy import update

from holdfast.agents import store
from holdfast.agents.models import AgentMachine
from holdfast.kit import clock
from holdfast.notifications.edit import delete_destination
from holdfast.notifications.models import Incident
from holdfast.repositories import store as repositories
from holdfast.repositories.models import Repository
from holdfast.schedules import edit
from holdfast.schedules.models import Schedule
from tests.support.evidence import add_agent_machine, add_repository
from tests.support.receivers import WebReceiver, web_receiver
from tests.unit.notifications.world import ADMIN, World, a_schedule


def states(receiver: WebReceiver) -> list[str]:
    return [item["incident"]["state"] for item in receiver.items]


@pytest.fixture
def told(world: World, receiver: WebReceiver) -> World:
    """A destination and a rule of the default kind, without grouping."""
    world.webhook(receiver.url)
    world.rule()
    return world


def test_a_repository_that_stays_broken_is_reported_once(told: World, receiver: WebReceiver) -> None:
    for _ in range(5):
        told.ends("failed")
        told.flow()

    assert states(receiver) == ["opened"]
    (incident,) = told.incidents()
    assert (incident.count, incident.closed_at) == (5, None)


def test_a_recovery_shows_since_when_and_how_often_the_backup_failed(told: World, receiver: WebReceiver) -> None:
    for status in ("failed", "failed", "failed", "completed"):
        told.ends(status)
        told.flow()

    assert states(receiver) == ["opened", "recovered"]
    recovery = receiver.items[-1]
    assert recovery["title"] == "Recovered: Backup of photos failed"
    assert "Failing since" in recovery["text"]
    assert "3 times" in recovery["text"]
    assert told.incidents()[0].closed_at is not None


def test_a_different_error_is_reported(told: World, receiver: WebReceiver) -> None:
    told.ends("failed")
    told.flow()
    told.ends("failed", error_key="engine.disk_full")
    told.flow()

    assert states(receiver) == ["opened", "changed"]


def test_each_kind_of_operation_of_each_repository_is_a_separate_incident(told: World, receiver: WebReceiver) -> None:
    told.ends("failed")
    told.ends("failed", kind="check")
    told.ends("failed", repository=8, name="music")
    told.ends("completed", kind="check")
    told.flow()

    assert sorted(incident.key for incident in told.incidents() if incident.closed_at is None) == [
        *("repository:7:backup", "repository:8:backup"),
    ]


def test_successful_and_background_operations_are_not_reported(told: World, receiver: WebReceiver) -> None:
    for status in ("completed", "cancelled", "skipped", "running", "pending"):
        told.ends(status)
    told.ends("failed", kind="history")
    told.flow()

    assert receiver.items == []
    assert told.incidents() == []


def test_a_reminder_is_sent_after_each_day(told: World, receiver: WebReceiver) -> None:
    told.ends("failed")
    told.flow()
    for hours, expected in ((23, 1), (25, 2), (30, 2), (50, 3)):
        with told.later(hours * 3600):
            told.notifications.tick()
            told.send()
            assert len(receiver.items) == expected, hours

    assert states(receiver) == ["opened", "reminder", "reminder"]


def test_a_reminder_planned_while_the_clock_was_ahead_is_due(told: World, receiver: WebReceiver) -> None:
    with time_machine.travel(clock.now(), tick=False) as traveller:
        traveller.shift(timedelta(days=365))
        told.ends("failed")
        told.flow()
        traveller.shift(timedelta(days=-365))
        for expected in (1, 0, 1, 0):
            told.notifications.tick()
            assert told.send() == expected
            traveller.shift(timedelta(hours=12))

    assert states(receiver) == ["opened", "reminder", "reminder"]


def three_days(world: World) -> None:
    with time_machine.travel(clock.now(), tick=False) as traveller:
        for _ in range(3):
            traveller.shift(timedelta(days=1))
            world.notifications.tick()
            world.flow()


@pytest.mark.parametrize("kind", ["restore", "script_execution"])
def test_one_off_work_sends_no_reminders(told: World, receiver: WebReceiver, kind: str) -> None:
    told.ends("failed", kind=kind)
    told.flow()
    with told.database.writing() as session:  # as an earlier version planned it
        session.execute(update(Incident).values(remind_at=clock.now()))
    three_days(told)

    assert states(receiver) == ["opened"]


def test_a_script_of_a_schedule_sends_reminders(told: World, receiver: WebReceiver) -> None:
    told.ends("failed", kind="script_execution", schedule_id=3, schedule_name="nightly")
    told.flow()
    three_days(told)

    assert states(receiver) == ["opened", *["reminder"] * 3]


def test_the_incidents_of_a_deleted_repository_end_without_a_message(told: World, receiver: WebReceiver) -> None:
    with told.database.writing() as session:
        add_repository(session, id=7)
        add_repository(session, id=8)
    for repository in (7, 8):
        told.ends("failed", repository=repository)
    told.flow()
    receiver.received.clear()
    with told.database.writing() as session:
        session.delete(session.get_one(Repository, 7))
        repositories.publish(session, 7, "deleted")
    told.flow()
    three_days(told)

    assert [item["repository_id"] for item in receiver.items] == [8] * 3
    assert open_keys(told) == ["repository:8:backup"]


def test_the_incidents_of_a_deleted_schedule_end_without_a_message(told: World, receiver: WebReceiver) -> None:
    with told.database.writing() as session:
        for number in (3, 31):
            session.add(a_schedule(number))
    for number in (3, 31):
        told.tell("schedule.run", 7, **run(outcome="missed", reason="service_down", schedule_id=number))
        told.ends("failed", kind="script_execution", repository=0, schedule_id=number)
    told.flow()
    receiver.received.clear()
    with told.database.writing() as session:
        edit.delete(session, ADMIN, session.get_one(Schedule, 3))
    told.flow()
    three_days(told)

    assert {item["schedule_id"] for item in receiver.items} == {31}
    assert open_keys(told) == ["schedule:31:7", "schedule:31:script"]


def test_the_incidents_of_a_deleted_agent_end_without_a_message(world: World, receiver: WebReceiver) -> None:
    world.webhook(receiver.url)
    world.rule(least_severity="info")
    with world.database.writing() as session:
        agent = add_agent_machine(session)
    for number in (agent.id, 777):
        world.tell("agent.updated", id=number, name="laptop", status="offline")
    world.flow()
    with world.database.writing() as session:
        store.forget(session, session.get_one(AgentMachine, agent.id))
    world.flow()

    assert open_keys(world) == ["agent:777"]
    assert len(receiver.items) == 2


def test_the_failure_of_a_deleted_destination_ends_without_a_message(told: World, receiver: WebReceiver) -> None:
    with web_receiver() as broken:
        broken.answer = lambda _got: (422, {})
        failing = told.webhook(broken.url, "broken")
        told.ends("failed")
        told.flow()
        told.flow()
    assert open_keys(told) == [f"alarm:notifications_failing:destination:{failing}", "repository:7:backup"]
    with told.database.writing() as session:
        delete_destination(session, ADMIN, failing)
    three_days(told)

    assert open_keys(told) == ["repository:7:backup"]
    assert {item["event"] for item in receiver.items[2:]} == {"backup.failed"}


def open_keys(world: World) -> list[str]:
    return sorted(incident.key for incident in world.incidents() if incident.closed_at is None)


def test_a_rule_without_reminders_sends_none(world: World, receiver: WebReceiver) -> None:
    world.webhook(receiver.url)
    world.rule(remind_hours=0)
    world.ends("failed")
    world.flow()

    with world.later(100 * 3600):
        world.notifications.tick()
        world.send()
    assert states(receiver) == ["opened"]


def test_an_unsent_failure_and_its_recovery_become_one_message(told: World, receiver: WebReceiver) -> None:
    told.ends("failed")
    told.read()
    told.ends("completed")
    told.flow()

    assert states(receiver) == ["recovered"]
    assert len(receiver.received) == 1


def test_a_recovery_is_not_reported_if_the_failure_never_arrived(told: World, receiver: WebReceiver) -> None:
    receiver.answer = lambda _got: (410, {})
    told.ends("failed")
    told.flow()
    receiver.answer = lambda _got: (204, {})
    with told.database.writing() as session:
        from holdfast.notifications.models import Destination

        for destination in session.query(Destination):
            destination.enabled = True
    told.ends("completed")
    told.flow()

    assert receiver.items == []


def test_a_destination_added_later_gets_a_message_at_the_next_failure(told: World, receiver: WebReceiver) -> None:
    told.ends("failed")
    told.flow()
    told.webhook(receiver.url, "second")
    told.ends("failed")
    told.flow()

    assert states(receiver) == ["opened", "again"]


def test_warnings_are_an_incident_and_end_a_failure(told: World, receiver: WebReceiver) -> None:
    told.ends("failed")
    told.flow()
    told.ends("completed_with_warnings", warnings=[{"key": "engine.file_changed", "message": "A file changed."}])
    told.flow()
    told.ends("completed_with_warnings", warnings=[{"key": "engine.file_changed", "message": "A file changed."}])
    told.flow()

    assert [(item["event"], item["incident"]["state"]) for item in receiver.items] == [
        ("backup.failed", "opened"),
        ("backup.failed", "recovered"),
        ("backup.warning", "opened"),
    ]


def run(**more: Any) -> dict[str, Any]:
    return {"id": 1, "schedule_id": 3, "schedule_name": "nightly", "repository_id": 7, "due_at": "2026-11-16", **more}


def test_a_retried_scheduled_failure_is_reported_only_after_all_tries_failed(
    told: World, receiver: WebReceiver
) -> None:
    failure = {"schedule_id": 3, "schedule_name": "nightly", "error_key": "engine.locked", "run_id": "a" * 32}
    told.ends("failed", **failure)
    told.flow()
    assert receiver.items == []
    told.ends("failed", **failure)
    told.tell("schedule.run", 7, **run(outcome="ran", result="failed", run_id="a" * 32))
    told.flow()

    assert [(item["event"], item["error_key"]) for item in receiver.items] == [("backup.failed", "engine.locked")]


def test_a_scheduled_failure_that_needs_a_person_is_reported_immediately(told: World, receiver: WebReceiver) -> None:
    told.ends("failed", schedule_id=3, error_key="engine.passphrase_wrong")
    told.flow()

    assert len(receiver.items) == 1


def test_a_missed_run_is_reported_and_its_next_run_is_the_recovery(told: World, receiver: WebReceiver) -> None:
    told.tell("schedule.run", 7, **run(outcome="missed", reason="service_down"))
    told.flow()
    told.tell("schedule.run", 7, **run(outcome="ran", result="completed", run_id="b" * 32))
    told.flow()

    assert [(item["event"], item["incident"]["state"]) for item in receiver.items] == [
        ("schedule.missed", "opened"),
        ("schedule.missed", "recovered"),
    ]


def test_a_laptop_that_is_offline_causes_no_message(told: World, receiver: WebReceiver) -> None:
    told.tell("agent.updated", id=2, name="laptop", status="offline")
    for _ in range(3):
        told.tell("schedule.run", 7, **run(outcome="missed", reason="machine_offline"))
    told.tell("agent.updated", id=2, name="laptop", status="online")
    told.flow()

    assert receiver.items == []


def test_only_a_rule_for_agent_events_reports_agents_going_offline_and_online(
    world: World, receiver: WebReceiver
) -> None:
    with web_receiver() as other:
        for name, url in (("agent", receiver.url), ("backup", other.url)):
            to = [world.webhook(url, name)]
            world.rule(name, events=[f"{name}.*"], least_severity="info", destination_ids=to)
        for status in ("offline", "offline", "online", "online"):
            world.tell("agent.updated", id=2, name="laptop", status=status)
            world.flow()
        world.ends("failed")
        world.flow()
        assert [item["event"] for item in other.items] == ["backup.failed"]

    assert [item["title"] for item in receiver.items] == [
        "Agent laptop is offline",
        "Recovered: Agent laptop is offline",
    ]


def test_alarms_are_reported_when_raised_when_worse_and_when_cleared(told: World, receiver: WebReceiver) -> None:
    alarm = {
        "kind": "storage_full",
        "subject": {"type": "repository", "id": 7, "name": "photos"},
        "message": "9 % free.",
    }
    told.tell("alarm.raised", 7, **alarm, severity="warning")
    told.flow()
    told.tell("alarm.changed", 7, **alarm, severity="critical")
    told.flow()
    told.tell("alarm.cleared", 7, **alarm, severity="critical")
    told.flow()

    assert states(receiver) == ["opened", "changed", "recovered"]


def test_an_acknowledged_alarm_sends_no_reminder_until_it_gets_worse_or_the_acknowledgement_ends(
    told: World, receiver: WebReceiver
) -> None:
    alarm = {"kind": "storage_full", "subject": {"type": "repository", "id": 7, "name": "photos"}}
    with time_machine.travel(clock.now(), tick=False) as traveller:

        def happens(topic: str, severity: str, **more: str) -> list[str]:
            told.tell(topic, 7, **alarm, severity=severity, **more)
            told.flow()
            for _ in range(3):
                traveller.shift(timedelta(days=1))
                told.notifications.tick()
                told.flow()
            return states(receiver)

        assert happens("alarm.raised", "warning") == ["opened", *["reminder"] * 3]
        assert happens("alarm.changed", "warning", reason="acknowledged") == ["opened", *["reminder"] * 3]
        receiver.received.clear()
        assert happens("alarm.changed", "warning", reason="acknowledgement_ended") == ["reminder"] * 3
        receiver.received.clear()
        assert happens("alarm.changed", "warning", reason="acknowledged") == []
        assert happens("alarm.changed", "critical", reason="worse") == ["changed", *["reminder"] * 3]


def test_a_rule_for_every_event_reports_every_event(world: World, receiver: WebReceiver) -> None:
    world.webhook(receiver.url)
    world.rule(send="every", least_severity="info", events=["backup.*"])
    for status in ("failed", "failed", "completed", "completed"):
        world.ends(status)
    world.ends("failed", kind="check")
    world.flow()

    assert [item["event"] for item in receiver.items] == [
        *("backup.failed", "backup.failed", "backup.failed", "backup.completed"),
    ]
    assert receiver.items[2]["incident"]["state"] == "recovered"


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, 2),
        ({"repository_ids": [7]}, 1),
        ({"repository_ids": [9]}, 0),
        ({"schedule_ids": [3]}, 1),
        ({"all": True}, 2),
        ({"labels": {"site": "north"}}, 1),
        ({"labels": {"site": "south"}}, 0),
        ({"labels": {"room": "attic", "site": "north"}}, 1),
    ],
)
def test_a_rule_reports_only_its_scope(
    world: World, receiver: WebReceiver, scope: dict[str, Any], expected: int
) -> None:
    """A repository has its own labels and those of its agent; its own take precedence."""
    world.webhook(receiver.url)
    world.rule(scope=scope)
    with world.database.writing() as session:
        agent = add_agent_machine(session, labels={"room": "attic", "site": "south"})
        add_repository(session, id=7, agent_machine_id=agent.id, labels={"site": "north"})
    world.ends("failed")
    world.ends("failed", repository=8, name="music", schedule_id=3)
    world.flow()

    assert len(receiver.items) == expected


def test_the_default_rule_is_added_once_and_stays_deleted(world: World) -> None:
    world.notifications._add_default_rule()
    assert [rule.name for rule in world.rules()] == ["Failures, warnings and recoveries"]
    with world.database.writing() as session:
        session.delete(session.merge(world.rules()[0]))
    world.notifications._add_default_rule()

    assert world.rules() == []


def test_processes_that_start_together_for_the_first_time_add_one_default_rule(world: World) -> None:
    together = threading.Barrier(4)

    def start() -> None:
        together.wait()
        world.notifications._add_default_rule()

    with ThreadPoolExecutor(4) as processes:
        for started in [processes.submit(start) for _ in range(4)]:
            started.result()

    assert len(world.rules()) == 1
