"""GET /api/events/stream: individual topics, who receives them, and the filter by topics"""

from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.contract.stores import both_stores
from tests.support.event_stream import Event, EventStream
from tests.support.running import Running
from tests.support.service import Client


@both_stores
def test_added_and_removed_archives_are_reported_to_users_who_may_see_them(running: Running, admin: Client) -> None:
    repository = running.new_repository()
    viewer = running.client_with_right(repository, "viewer")
    other = running.client_with_right(running.scratch, "operator")

    with EventStream(admin) as all_of_it, EventStream(viewer) as theirs, EventStream(other) as nothing:
        backup = admin.wait_for_end(admin.start_backup(repository, archive_name="first"))
        added = wait_for_archive(theirs, "archive.added", repository)
        (archive,) = added.data["archives"]
        deletion = admin.delete(f"/api/archives/{archive['id']}").json()["job_id"]
        admin.wait_for_end(deletion)
        removed = wait_for_archive(theirs, "archive.removed", repository)
        for stream in (all_of_it, theirs):
            stream.wait_for_status(deletion, "completed")

    assert (archive["name"], added.data["count"], removed.data) == (backup["archive_name"], 1, added.data)
    assert all_of_it.of("archive.added") == theirs.of("archive.added") == [added]
    assert all_of_it.of("archive.removed") == theirs.of("archive.removed") == [removed]
    assert nothing.events == []
    for event in (added, removed):
        (told,) = [one for one in changes(theirs, repository) if one.id == (event.id or 0) + 1]
        assert "archives" in told.data["changed"]


def wait_for_archive(stream: EventStream, topic: str, repository: dict[str, Any]) -> Event:
    return stream.wait_for(lambda event: event.topic == topic and event.data["repository_id"] == repository["id"])


def changes(stream: EventStream, repository: dict[str, Any]) -> list[Event]:
    return [event for event in stream.of("repository.updated") if event.data["id"] == repository["id"]]


def test_an_event_about_a_repository_lists_what_changed(running: Running, admin: Client) -> None:
    repository = running.new_repository()
    with EventStream(admin) as stream:
        admin.put(f"/api/repositories/{repository['id']}", json={"compression": "zstd"})
        admin.wait_for_end(admin.start_backup(repository))
        stream.wait_for(lambda event: event.topic == "repository.updated" and event.data["change"] == "evidence")
        admin.delete(f"/api/repositories/{repository['id']}")
        stream.wait_for(lambda event: event.topic == "repository.updated" and event.data["change"] == "deleted")

    told = {event.data["change"]: set(event.data["changed"]) for event in changes(stream, repository)}
    assert told["changed"] == {"settings"}
    assert {"archives", "sizes", "evidence"} <= told["evidence"] <= {"archives", "sizes", "evidence", "history"}
    assert told["deleted"] == {"settings", "archives", "sizes", "history", "evidence"}


@both_stores
def test_the_queue_is_reported_by_repository_and_its_settings_to_everyone(running: Running, admin: Client) -> None:
    mine, other = running.scratch, running.new_repository()
    viewer = running.client_with_right(mine, "viewer")
    limits = admin.get("/api/operations/queue").json()["limits"]

    with EventStream(viewer, params={"topics": "queue.updated"}) as theirs, EventStream(running.stranger) as nothing:
        failed = [admin.start_backup(place, source_paths=["/nowhere/at/all"]) for place in (other, mine)]
        for job_id in failed:
            admin.wait_for_end(job_id)
        same = {"max_running_total": limits["max_running_total"]}
        assert admin.put("/api/operations/limits", json=same).status_code == 200
        for stream in (theirs, nothing):
            stream.wait_for(lambda event: event.data.get("change") == "settings")

    told = [(event.topic, event.data["repository_id"], event.data["change"]) for event in theirs.events]
    assert set(told) == {("queue.updated", mine["id"], "operations"), ("queue.updated", None, "settings")}
    assert [event.data for event in nothing.events] == [{"repository_id": None, "change": "settings"}]


def test_schedule_changes_reach_everyone_without_details_and_notification_changes_reach_admins(
    running: Running, admin: Client
) -> None:
    topics = {"topics": "schedule.updated,notification.updated"}
    with EventStream(admin, params=topics) as all_of_it, EventStream(running.stranger, params=topics) as theirs:
        rule = admin.post("/api/notifications/rules", json={"name": running.new_name("rule"), "enabled": False}).json()
        wanted = {"name": running.new_name("nightly"), "cron_expression": "0 2 * * *", "enabled": False}
        body = {**wanted, "targets": {"repository_ids": [running.scratch["id"]]}}
        schedule = admin.post("/api/schedules/", json=body).json()
        for stream in (all_of_it, theirs):
            stream.wait_for(lambda event: event.topic == "schedule.updated")
    admin.delete(f"/api/schedules/{schedule['id']}")
    admin.delete(f"/api/notifications/rules/{rule['id']}")

    assert [event.data for event in all_of_it.of("notification.updated")] == [{"what": "rule", "id": rule["id"]}]
    assert [(event.topic, event.data) for event in theirs.events] == [("schedule.updated", {})]


@both_stores
def test_changes_to_users_rights_and_tokens_are_reported_only_to_admins(running: Running, admin: Client) -> None:
    viewer = running.client_with_right(running.scratch, "viewer")
    operator = running.client_with_right(running.scratch, "operator")
    topics = {"topics": "user.updated,queue.updated"}
    with (
        EventStream(admin, params=topics) as all_of_it,
        EventStream(viewer, params=topics) as watched,
        EventStream(operator, params=topics) as operated,
    ):
        user = running.new_user("operator")
        path = f"/api/users/{user['id']}"
        body = {"name": running.new_name("token")}
        token = running.client_of(user).post("/api/settings/tokens", json=body)
        right = admin.put(f"{path}/repositories/{running.scratch['id']}", json={"role": "viewer"})
        invited = admin.post(f"{path}/invitation")
        assert (token.status_code, right.status_code, invited.status_code) == (201, 200, 201)
        refused = admin.put(f"{path}/repositories/987654", json={"role": "viewer"})
        assert (refused.status_code, admin.delete(path).status_code) == (404, 204)
        same = admin.get("/api/operations/queue").json()["limits"]["max_running_total"]
        assert admin.put("/api/operations/limits", json={"max_running_total": same}).status_code == 200
        for stream in (all_of_it, watched, operated):
            stream.wait_for(lambda event: event.data.get("change") == "settings")

    told = [event.data for event in all_of_it.of("user.updated") if event.data["id"] == user["id"]]
    assert told == [
        {"id": user["id"], "change": change} for change in ("created", "changed", "changed", "changed", "deleted")
    ]
    assert watched.of("user.updated") == operated.of("user.updated") == []


@both_stores
@pytest.mark.parametrize(
    "query", [{"topics": "schedule.run,repository.updated"}, {"topics": ["repository.updated", "schedule.run"]}]
)
def test_a_stream_can_be_limited_to_some_topics(running: Running, admin: Client, query: dict[str, Any]) -> None:
    with EventStream(admin, params=query) as stream:
        hello = stream.wait_for_hello()
        repository = running.new_repository()
        admin.wait_for_end(admin.start_backup(repository))
        stream.wait_for(lambda event: event.data.get("change") == "evidence")
    with EventStream(admin, params=query, headers={"Last-Event-ID": str(hello.id)}) as again:
        again.wait_for(lambda event: event.data.get("change") == "evidence")

    assert {event.topic for event in (*stream.events, *again.events)} == {"repository.updated"}


@pytest.mark.parametrize("wrong", ["", "nothing.updated", "repository.updated,x", "repository.updated,", "x" * 1001])
def test_an_unknown_topic_is_refused(admin: Client, wrong: str) -> None:
    answer = admin.get("/api/events/stream", params={"topics": wrong})

    assert answer.status_code == 422
    if 0 < len(wrong) < 1000:
        assert error_of(answer) == (422, "filters.unknown_value")
        assert "repository.updated" in answer.json()["detail"]["params"]["allowed"]


def test_too_many_topics_are_refused(admin: Client) -> None:
    assert admin.get("/api/events/stream", params={"topics": ["hello"] * 51}).status_code == 422


def test_overview_changes_are_reported_only_for_visible_repositories(running: Running, admin: Client) -> None:
    mine = running.new_repository()
    viewer = running.client_with_right(mine, "viewer")
    only = {"topics": "overview.updated,operation.updated"}

    with EventStream(viewer, params=only) as theirs, EventStream(running.stranger, params=only) as nothing:
        job_id = admin.start_backup(mine)
        theirs.wait_for_status(job_id, "completed")
        theirs.wait_for(lambda _event: theirs.events[-1].topic == "overview.updated")

    topics = [event.topic for event in theirs.events]
    assert set(topics) == {"overview.updated", "operation.updated"}
    assert all((event.id, event.data) == (None, {}) for event in theirs.of("overview.updated"))
    assert nothing.events == []


def test_progress_of_all_operations_is_sent_as_one_event_on_request(running: Running, admin: Client) -> None:
    with (
        EventStream(admin, params={"topics": "operations.progress"}) as together,
        EventStream(running.stranger, params={"topics": "operations.progress"}) as nothing,
        EventStream(admin) as each,
        running.held_backup_with_progress(running.new_repository()) as job_id,
    ):
        told = together.wait_for(lambda event: any(one["id"] == job_id for one in event.data["operations"]))
        each.wait_for(lambda event: event.topic == "operation.progress" and event.data["id"] == job_id)

    assert told.id is None
    assert {event.topic for event in together.events} == {"operations.progress"}
    assert each.of("operations.progress") == nothing.events == []
