"""Daily and weekly reports: sent once, even when all is well, with what users need to know."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from holdfast.kit import clock
from holdfast.notifications import edit
from holdfast.notifications.reports.findings import Sources
from holdfast.notifications.reports.times import next_time
from holdfast.notifications.schemas import ReportBody
from tests.support import evidence
from tests.support.receivers import WebReceiver
from tests.unit.notifications.world import ADMIN, World, at


def add_report(world: World, **more: Any) -> None:
    with world.database.writing() as session:
        edit.REPORTS.add(session, ADMIN, ReportBody(**{"name": "daily", **more}))


def add_repository(world: World, name: str, **more: Any) -> None:
    with world.database.writing() as session:
        evidence.add_repository(session, name=name, **more)


@pytest.mark.parametrize(
    ("at_time", "zone", "weekday", "after", "expected"),
    [
        ("07:00", "UTC", None, "2026-11-16T06:59:00+00:00", "2026-11-16T07:00:00+00:00"),
        ("07:00", "UTC", None, "2026-11-16T07:00:00+00:00", "2026-11-17T07:00:00+00:00"),
        ("07:00", "Europe/Berlin", None, "2026-11-16T07:00:00+00:00", "2026-11-17T06:00:00+00:00"),
        ("07:00", "UTC", 7, "2026-11-16T07:00:00+00:00", "2026-11-22T07:00:00+00:00"),
        ("07:00", "UTC", 1, "2026-11-16T07:00:00+00:00", "2026-11-23T07:00:00+00:00"),
        ("02:30", "Europe/Berlin", None, "2026-03-29T00:00:00+00:00", "2026-03-29T01:00:00+00:00"),
        ("02:30", "Europe/Berlin", None, "2026-10-24T12:00:00+00:00", "2026-10-25T00:30:00+00:00"),
        ("02:30", "Europe/Berlin", None, "2026-10-25T00:30:00+00:00", "2026-10-26T01:30:00+00:00"),
        ("02:15", "Australia/Lord_Howe", None, "2026-10-03T12:00:00+00:00", "2026-10-03T15:30:00+00:00"),
        ("07:00", "Gone/Zone", 7, "2026-11-16T07:00:00+00:00", "2026-11-22T07:00:00+00:00"),
    ],
)
def test_the_next_report_is_due_at_its_local_time(
    at_time: str, zone: str, weekday: int | None, after: str, expected: str
) -> None:
    assert next_time(at_time, zone, weekday, at(after)) == at(expected)


def test_reports_go_on_after_the_clock_was_ahead(world: World, receiver: WebReceiver) -> None:
    with time_machine.travel("2026-11-16T05:00:00+00:00", tick=False) as traveller:
        world.webhook(receiver.url)
        add_report(world)
        traveller.shift(timedelta(days=365))
        world.notifications.tick()
        world.send()
        traveller.shift(timedelta(days=-365))
        world.notifications.tick()
        world.send()
        assert len(receiver.received) == 2, "that of the 16th, and the one that counts as due"
        receiver.received.clear()
        for _ in range(72):
            traveller.shift(timedelta(hours=1))
            world.notifications.tick()
            world.send()

    assert len(receiver.received) == 2


def test_a_report_is_sent_once_a_day_even_when_all_is_well(world: World, receiver: WebReceiver) -> None:
    with time_machine.travel("2026-11-16T05:00:00+00:00", tick=False) as traveller:
        world.webhook(receiver.url)
        add_repository(world, "photos", last_backup=clock.now())
        add_report(world)
        for _ in range(48):
            traveller.shift(timedelta(hours=1))
            world.notifications.tick()
            world.notifications.tick()
            world.send()

    assert len(receiver.received) == 2
    data = receiver.received[0].json["data"]
    assert receiver.received[0].json["type"] == "report"
    assert data["summary"] == "1 repository: all well"
    assert [each["name"] for each in data["repositories"]] == ["photos"]


def test_days_of_downtime_result_in_one_report(world: World, receiver: WebReceiver) -> None:
    with time_machine.travel("2026-11-16T05:00:00+00:00", tick=False) as traveller:
        world.webhook(receiver.url)
        add_report(world)
        traveller.shift(timedelta(days=5))
        for _ in range(3):
            world.notifications.tick()
            world.send()

    assert len(receiver.received) == 1


def test_a_report_for_labels_or_schedules_lists_their_repositories(world: World, receiver: WebReceiver) -> None:
    world.notifications = world.started_with(
        Sources(targets=lambda _session, ids: frozenset({2} if ids == [5] else ()))
    )
    with time_machine.travel("2026-11-16T05:00:00+00:00", tick=False) as traveller:
        world.webhook(receiver.url)
        with world.database.writing() as session:
            evidence.add_agent_machine(session, id=1, labels={"site": "north"})
        add_repository(world, "photos", id=1, agent_machine_id=1)
        add_repository(world, "music", id=2)
        for name, scope in (("labels", {"labels": {"site": "north"}}), ("schedules", {"schedule_ids": [5]})):
            add_report(world, name=name, scope=scope)
        traveller.shift(timedelta(days=1))
        world.notifications.tick()
        world.send()

    shown = [each.json["data"]["repositories"] for each in receiver.received]
    assert [[one["name"] for one in lines] for lines in shown] == [["photos"], ["music"]]


def test_a_report_starts_with_repositories_that_need_attention_and_escapes_names(world: World) -> None:
    with time_machine.travel("2026-11-16T05:00:00+00:00", tick=False) as traveller:
        world.webhook("http://127.0.0.1:9/")
        add_repository(world, "alpha", last_backup=clock.now() - timedelta(hours=2), id=1)
        add_repository(world, "<script>zeta", last_backup=None, id=2)
        add_report(world)
        world.ends("completed", repository=1, name="alpha")
        world.ends("failed", repository=2, name="zeta")
        world.read()
        traveller.shift(timedelta(hours=3))
        world.notifications.tick()

    report = next(delivery for delivery in world.deliveries() if delivery.type == "report")
    assert report.body is not None
    text, html = report.body["text"], report.body["html"]
    assert "2 repositories, 1 need attention" in report.body["subject"]
    assert text.index("zeta") < text.index("alpha")
    assert "last backup never" in text
    assert "age 5 h" in text
    assert "<script>" not in html
    assert "&lt;script&gt;zeta" in html
