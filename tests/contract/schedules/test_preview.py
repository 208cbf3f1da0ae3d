"""Previews of what schedules will do."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.schedules.scheduled import FIRE, URL, Scheduled, refused


def preview(scheduled: Scheduled, **more: Any) -> dict[str, Any]:
    answer = scheduled.client.post(f"{URL}/preview", json=more)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_preview_shows_the_effect_of_a_clock_change(scheduled: Scheduled) -> None:
    repository = scheduled.running.known.repository
    body = scheduled.body(repository)
    shown = preview(scheduled, **body, **{"from": "2027-03-26T12:00:00Z", "count": 3})

    assert shown["explained"] == "At 02:30 every day (Europe/Berlin)"
    assert [set(fire) for fire in shown["fires"]] == [FIRE] * 3
    assert [(fire["local"], fire["reason"]) for fire in shown["fires"]] == [
        ("2027-03-27T02:30:00+01:00", "on_time"),
        ("2027-03-28T03:00:00+02:00", "moved_by_dst"),
        ("2027-03-29T02:30:00+02:00", "on_time"),
    ]
    assert shown["fires"][0]["targets"] == [
        {
            "repository_id": repository["id"],
            "name": repository["name"],
            "start_at": "2027-03-27T01:30:00.000000+00:00",
        }
    ]
    assert {warning["key"] for warning in shown["warnings"]} == {"clocks_change"}
    assert len(shown["warnings"]) == 2


def test_a_preview_stores_nothing(scheduled: Scheduled) -> None:
    body = scheduled.body(scheduled.running.known.repository)
    preview(scheduled, **body)

    names = [schedule["name"] for schedule in scheduled.client.get(f"{URL}/").json()["schedules"]]
    assert body["name"] not in names


def test_a_preview_has_the_same_spread_as_the_schedule_created_with_its_uuid(scheduled: Scheduled) -> None:
    two = [scheduled.shared, scheduled.running.new_repository()]
    body = scheduled.body(*two, spread_minutes=600)
    shown = preview(scheduled, **body)
    created = scheduled.client.post(f"{URL}/", json={**body, "uuid": shown["uuid"]}).json()

    assert scheduled.client.get(f"{URL}/{created['id']}/next").json()["fires"] == shown["fires"]
    again = scheduled.client.post(f"{URL}/", json={**scheduled.body(*two), "uuid": shown["uuid"]})
    assert refused(again, 409)["key"] == "schedules.uuid_taken"


def test_a_preview_respects_windows_and_blackouts(scheduled: Scheduled) -> None:
    repository = scheduled.running.new_repository(labels={"preview": "yes"})
    blackout = scheduled.client.post(
        f"{URL}/blackouts",
        json={
            "name": "inventory",
            "first_day": "2031-01-02",
            "last_day": "2031-01-02",
            "timezone": "Europe/Berlin",
            "labels": {"preview": "yes"},
        },
    )
    assert blackout.status_code == 201, blackout.text
    windows = [{"days": ["wed", "thu", "fri", "sat"], "from": "04:00", "to": "06:00"}]
    body = scheduled.body(repository, windows=windows)
    shown = preview(scheduled, **body, **{"from": "2030-12-31T12:00:00Z", "count": 5})

    assert [(fire["local"][:10], fire["reason"], fire["start_at"]) for fire in shown["fires"]] == [
        ("2031-01-01", "window_opens", "2031-01-01T03:00:00.000000+00:00"),
        ("2031-01-02", "blackout", None),
        ("2031-01-03", "window_opens", "2031-01-03T03:00:00.000000+00:00"),
        ("2031-01-04", "window_opens", "2031-01-04T03:00:00.000000+00:00"),
        ("2031-01-05", "window_closed", None),
    ]
    assert "window_closed" in {warning["key"] for warning in shown["warnings"]}
    scheduled.client.delete(f"{URL}/blackouts/{blackout.json()['id']}")


def test_a_preview_warns_if_no_repository_matches(scheduled: Scheduled) -> None:
    body = scheduled.body(targets={"labels": {"nobody": "has this"}})

    assert "no_repository" in {warning["key"] for warning in preview(scheduled, **body)["warnings"]}


def test_the_next_due_times_of_an_interval_are_exact(scheduled: Scheduled) -> None:
    starts = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    body = {"schedule_mode": "interval", "interval_minutes": 90, "starts_at": starts.isoformat()}
    created = scheduled.new(scheduled.shared, **body)
    fires = scheduled.client.get(f"{URL}/{created['id']}/next?count=3").json()["fires"]

    assert [datetime.fromisoformat(fire["due_at"]) for fire in fires] == [
        starts + number * timedelta(minutes=90) for number in range(3)
    ]


def test_the_calendar_lists_future_runs(scheduled: Scheduled) -> None:
    repository = scheduled.running.new_repository()
    created = scheduled.new(repository, steps=[{"kind": "backup"}, {"kind": "check", "every_days": 7}])
    now = datetime.now(UTC)
    span = {"since": now.isoformat(), "until": (now + timedelta(days=10)).isoformat()}
    answer = scheduled.client.get(f"{URL}/calendar", params={**span, "repository_id": repository["id"]}).json()

    assert len(answer["entries"]) == 10
    entry = answer["entries"][0]
    assert set(entry) == {*FIRE, "schedule_id", "name", "outcome", "outcome_reason", "result", "due_count"}
    assert (entry["schedule_id"], entry["name"], entry["outcome"]) == (created["id"], created["name"], None)
    assert entry["steps"] == ["backup", "check (every 7 days)"]
    assert (answer["truncated"], answer["paused"]) == (False, False)
    due = [entry["due_at"] for entry in scheduled.client.get(f"{URL}/calendar", params=span).json()["entries"]]
    assert due == sorted(due)


def test_the_calendar_shows_at_most_62_days(scheduled: Scheduled) -> None:
    span = {"since": "2026-01-01T00:00:00Z", "until": "2026-04-01T00:00:00Z"}

    assert refused(scheduled.client.get(f"{URL}/calendar", params=span), 422)["key"] == "schedules.span_too_long"


@pytest.mark.parametrize(
    ("body", "valid", "key"),
    [
        ({"cron_expression": "30 2 * * *"}, True, None),
        ({"minute": "30", "hour": "2"}, True, None),
        ({"minute": "99"}, False, "schedules.bad_cron"),
        ({"cron_expression": "* * * * *"}, False, "schedules.too_often"),
        ({"cron_expression": "0 0 31 2 *"}, False, "schedules.never_fires"),
        ({"cron_expression": "0 2 * * *", "timezone": "Mars/Base"}, False, "schedules.unknown_timezone"),
    ],
)
def test_a_cron_expression_can_be_validated(
    scheduled: Scheduled, body: dict[str, Any], valid: bool, key: str | None
) -> None:
    answer = scheduled.client.post(f"{URL}/validate-cron", json=body).json()

    assert (answer["success"], answer["valid"], len(answer["next_runs"])) == (True, valid, 5 if valid else 0)
    assert (answer["error"] or {}).get("key") == key


def test_every_preset_is_a_valid_expression(scheduled: Scheduled) -> None:
    answer = scheduled.client.get(f"{URL}/cron-presets").json()

    assert answer["success"] is True
    for preset in answer["presets"]:
        assert set(preset) == {"name", "expression", "description"}
        tried = scheduled.client.post(f"{URL}/validate-cron", json={"cron_expression": preset["expression"]})
        assert tried.json()["valid"] is True, preset


def test_upcoming_jobs_are_limited_to_the_requested_hours(scheduled: Scheduled) -> None:
    repository = scheduled.shared
    created = scheduled.new(repository)
    yearly = scheduled.new(repository, cron_expression="0 0 29 2 *")
    answer = scheduled.client.get(f"{URL}/upcoming-jobs", params={"hours": 26}).json()
    jobs = {job["id"]: job for job in answer["upcoming_jobs"]}

    assert (answer["success"], answer["hours_ahead"]) == (True, 26)
    assert jobs[created["id"]]["repository"] == repository["path"]
    assert jobs[created["id"]]["next_run"] == created["next_run"]
    assert yearly["id"] not in jobs


def test_blackouts_are_added_listed_and_removed(scheduled: Scheduled) -> None:
    body = {"name": "holidays", "first_day": "2030-12-24", "last_day": "2031-01-01", "yearly": True}
    created = scheduled.client.post(f"{URL}/blackouts", json={**body, "labels": {"x": "y"}})
    assert created.status_code == 201, created.text
    place = f"{URL}/blackouts/{created.json()['id']}"

    assert created.json() in scheduled.client.get(f"{URL}/blackouts").json()["blackouts"]
    assert created.json() in scheduled.client.get(f"{URL}/calendar").json()["blackouts"]
    assert scheduled.client.delete(place).status_code == 204
    assert refused(scheduled.client.delete(place), 404)["key"] == "schedules.blackout_not_found"
    wrong = [{"last_day": "2030-12-01"}, {"timezone": "Mars/Base"}, {"last_day": "2032-12-23"}]
    for part in wrong:
        assert scheduled.client.post(f"{URL}/blackouts", json={**body, **part}).status_code == 422
    for action in ("blackout.created", "blackout.deleted"):
        assert [entry for entry in scheduled.audit(action) if entry["object_id"] == str(created.json()["id"])]


def test_all_schedules_can_be_paused_and_resumed(scheduled: Scheduled) -> None:
    assert scheduled.client.post(f"{URL}/pause").json() == {"paused": True}
    assert scheduled.client.get(f"{URL}/").json()["paused"] is True
    assert scheduled.client.get(f"{URL}/calendar").json()["paused"] is True
    assert scheduled.client.post(f"{URL}/resume").json() == {"paused": False}
    assert scheduled.client.get(f"{URL}/").json()["paused"] is False
    assert scheduled.audit("schedules.paused")
    assert scheduled.audit("schedules.resumed")
