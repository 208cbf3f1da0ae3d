"""GET /api/events/stream and POST /api/events/ticket"""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.fields import MORE_OPERATION, OPERATION, error_of
from tests.contract.stores import both_stores
from tests.support.event_stream import EventStream
from tests.support.running import PASSWORD, Running
from tests.support.service import Client, wait_until


def quick_failure(running: Running, repository: dict[str, Any]) -> int:
    """Run an operation that ends without running the engine, and return its id."""
    job_id = running.admin.start_backup(repository, source_paths=[str(running.new_path("missing"))])
    running.admin.wait_for_end(job_id)
    return job_id


@both_stores
def test_the_stream_shows_a_backup_from_its_request_to_its_end(running: Running, admin: Client) -> None:
    with EventStream(admin) as stream:
        job_id = admin.start_backup(running.scratch)
        completed = stream.wait_for_status(job_id, "completed")

    assert stream.answer is not None
    assert stream.answer.headers["Content-Type"].startswith("text/event-stream")
    assert stream.answer.headers["Cache-Control"] == "no-store"
    assert stream.statuses_of(job_id) == ["pending", "running", "completed"]
    numbers = [event.id for event in stream.events if event.topic == "operation.updated"]
    assert numbers == sorted(set(numbers), key=lambda number: number or 0)
    assert set(completed.data["operation"]) == OPERATION | MORE_OPERATION
    assert completed.data["operation"]["archive_name"]


def test_a_new_stream_sends_only_new_events(running: Running, admin: Client) -> None:
    old = quick_failure(running, running.scratch)

    with EventStream(admin) as stream:
        new = quick_failure(running, running.scratch)
        stream.wait_for_status(new, "failed")

    assert stream.statuses_of(old) == []


def test_progress_is_sent_at_most_once_per_second(running: Running, admin: Client) -> None:
    repository = running.new_repository()

    with EventStream(admin) as stream, running.held_backup_with_progress(repository) as job_id:
        stream.wait_for(
            lambda event: (
                event.topic == "operation.progress"
                and event.data["id"] == job_id
                and event.data["progress"]["nfiles"] >= 3
            )
        )
        told = [event for event in stream.events if event.topic == "operation.progress" and event.data["id"] == job_id]
        assert len(told) <= admin.operation(job_id)["duration_seconds"] + 1
        assert {event.id for event in told} == {None}, "progress is not kept, so it cannot be resumed from"


@both_stores
def test_creating_changing_and_forgetting_a_repository_are_reported(running: Running, admin: Client) -> None:
    with EventStream(admin) as stream:
        repository = running.new_repository()

        def told(change: str) -> None:
            stream.wait_for(
                lambda event: (
                    event.topic == "repository.updated"
                    and (event.data["id"], event.data["change"]) == (repository["id"], change)
                )
            )

        told("created")
        admin.put(f"/api/repositories/{repository['id']}", json={"compression": "zstd"})
        told("changed")
        admin.wait_for_end(admin.start_backup(repository))
        told("evidence")
        admin.delete(f"/api/repositories/{repository['id']}")
        told("deleted")


def test_inline_calls_do_not_appear_in_the_stream(running: Running, admin: Client) -> None:
    """They hold the lane only briefly and leave no record, so their end could not be reported."""
    repository = running.new_repository(encryption="repokey")

    with EventStream(admin) as stream, running.held_backup(repository) as (job_id, _gate):
        with ThreadPoolExecutor(1) as request:
            refused = request.submit(
                running.client_of(running.new_user("admin")).get, f"/api/repositories/{repository['id']}/key"
            )
            wait_until(lambda: "inline" in queued_kinds(admin), pause=0.01, what="the request waits for its turn")
            kinds = {item["kind"] for item in admin.get("/api/operations/").json()["items"]}
        assert refused.result().status_code == 423
    assert admin.get(f"/api/repositories/{repository['id']}/key").status_code == 200
    with EventStream(admin, headers={"Last-Event-ID": str(stream.wait_for_status(job_id, "running").id)}) as again:
        again.wait_for_status(job_id, "completed")

    assert "inline" not in kinds
    for event in (*stream.events, *again.events):
        assert event.topic != "operation.updated" or event.data["operation"]["kind"] != "inline"


def queued_kinds(client: Client) -> set[str]:
    lanes = client.get("/api/operations/queue").json()["repositories"]
    return {operation["kind"] for lane in lanes for operation in lane["operations"]}


@both_stores
def test_a_returning_client_receives_missed_events_once_and_in_order(running: Running, admin: Client) -> None:
    repository = running.scratch
    with EventStream(admin) as stream:
        last = stream.wait_for_status(quick_failure(running, repository), "failed")
    missed = [quick_failure(running, repository) for _ in range(3)]

    with EventStream(admin, headers={"Last-Event-ID": str(last.id)}) as stream:
        after = quick_failure(running, repository)
        stream.wait_for_status(after, "failed")

    for job_id in (*missed, after):
        assert stream.statuses_of(job_id)[-1] == "failed"
    ids = [event.id for event in stream.events if event.id is not None]
    assert ids == sorted(set(ids))
    assert min(ids) > (last.id or 0)


@both_stores
def test_the_first_event_shows_where_a_stream_starts(running: Running, admin: Client) -> None:
    old = quick_failure(running, running.scratch)
    with EventStream(admin) as stream:
        hello = stream.wait_for_hello()
    missed = quick_failure(running, running.scratch)

    with EventStream(admin, headers={"Last-Event-ID": str(hello.id)}) as again:
        again.wait_for_status(missed, "failed")

    assert stream.events == []
    assert hello.id == hello.data["id"] > 0
    assert again.statuses_of(old) == []
    returned = again.wait_for_hello()
    assert returned.data["id"] >= hello.data["id"]
    assert returned.id is None, "a client that leaves before it has what it missed returns with its own id"


@pytest.mark.parametrize("wrong", ["abc", "-1", "1.5", "9" * 30])
def test_a_last_event_id_that_is_not_a_number_is_refused(admin: Client, wrong: str) -> None:
    assert admin.get("/api/events/stream", headers={"Last-Event-ID": wrong}).status_code == 422


@both_stores
def test_only_events_of_visible_repositories_are_sent(running: Running) -> None:
    mine, other = running.scratch, running.new_repository()
    viewer = running.client_with_right(mine, "viewer")

    with EventStream(viewer) as theirs, EventStream(running.stranger) as nothing:
        hidden = quick_failure(running, other)
        seen = quick_failure(running, mine)
        theirs.wait_for_status(seen, "failed")

    assert theirs.statuses_of(hidden) == []
    assert {event.data["operation"]["repository_id"] for event in theirs.of("operation.updated")} == {mine["id"]}
    assert {event.data["repository_id"] for event in theirs.of("queue.updated")} == {mine["id"]}
    assert {event.topic for event in theirs.events} == {"operation.updated", "queue.updated", "overview.updated"}
    assert nothing.events == []


def test_a_ticket_opens_a_stream_without_headers(running: Running, admin: Client) -> None:
    answer = admin.post("/api/events/ticket")

    assert answer.status_code == 200
    assert answer.json()["expires_in"] == 60
    with EventStream(running.anonymous(), params={"ticket": answer.json()["ticket"]}) as stream:
        job_id = quick_failure(running, running.scratch)
        stream.wait_for_status(job_id, "failed")


def test_a_ticket_grants_no_more_rights_than_its_owner_has(running: Running) -> None:
    ticket = running.stranger.post("/api/events/ticket").json()["ticket"]

    with EventStream(running.anonymous(), params={"ticket": ticket}) as theirs, EventStream(running.admin) as all_of_it:
        all_of_it.wait_for_status(quick_failure(running, running.scratch), "failed")

    assert theirs.events == []


def test_an_invalid_ticket_or_one_of_an_ended_session_is_refused(running: Running) -> None:
    user = running.new_user("viewer")
    client = running.client_of(user)
    ticket = client.post("/api/events/ticket").json()["ticket"]
    assert client.post("/api/auth/logout").status_code == 204

    for wrong in ("nonsense", ticket, ticket[:-3] + "abc", ticket.upper()):
        answer = running.anonymous().get("/api/events/stream", params={"ticket": wrong})
        assert error_of(answer) == (401, "events.bad_ticket")
    assert running.anonymous().get("/api/events/stream").status_code == 401
    assert running.anonymous().get("/api/events/stream", params={"ticket": ""}).status_code == 422


def test_an_account_token_may_open_a_stream(running: Running) -> None:
    headers = {"X-Backup-Authorization": f"Bearer {running.token}"}

    with EventStream(running.anonymous(), headers=headers) as stream:
        stream.wait_for_status(quick_failure(running, running.scratch), "failed")


def test_open_streams_follow_logins_and_rights(running: Running) -> None:
    """One test for a logout, a disabled user, a new password and a new right: the service checks every few seconds."""
    repository = running.new_repository()
    gone, disabled, reset, given = (running.new_user("viewer") for _ in range(4))
    leaving = running.client_of(gone)

    with (
        EventStream(leaving) as first,
        EventStream(running.client_of(disabled)) as second,
        EventStream(running.client_of(reset), params={"topics": "alarm.raised"}) as other,
        EventStream(running.client_of(given)) as third,
    ):
        hidden = quick_failure(running, repository)
        running.anonymous().post("/api/auth/logout", headers=login_of(leaving))
        running.admin.put(f"/api/users/{disabled['id']}", json={"disabled": True})
        running.admin.put(f"/api/users/{reset['id']}", json={"password": "another horse battery"})
        running.admin.put(f"/api/users/{given['id']}/repositories/{repository['id']}", json={"role": "viewer"})
        first.wait_for_end()
        second.wait_for_end()
        other.wait_for_end()
        wait_until(lambda: quick_failure(running, repository) and third.events, pause=0.5, what="the right is noticed")

    assert third.statuses_of(hidden) == []
    ends = [stream.events[-1] for stream in (first, second, other)]
    assert [(event.id, event.topic, event.data["reason"]) for event in ends] == [
        (None, "session.ended", "auth.session_ended"),
        (None, "session.ended", "auth.token_invalid"),
        (None, "session.ended", "auth.session_ended"),
    ]
    assert third.of("session.ended") == []
    assert leaving.get("/api/repositories/").status_code == 401


def test_many_tabs_receive_the_same_events(running: Running, admin: Client) -> None:
    with contextlib.ExitStack() as tabs:
        streams = [
            tabs.enter_context(EventStream(running.process.client(), headers=login_of(admin))) for _ in range(20)
        ]
        job_id = quick_failure(running, running.scratch)
        for stream in streams:
            stream.wait_for_status(job_id, "failed")
        assert admin.get("/api/repositories/").status_code == 200, "there is room for other requests"


def login_of(client: Client) -> dict[str, str]:
    return {"X-Backup-Authorization": client.headers["X-Backup-Authorization"]}


def test_a_user_who_must_change_the_password_may_not_open_a_stream(running: Running) -> None:
    user = running.new_user("viewer", must_change_password=True)
    client = running.process.client().login(user["username"], PASSWORD)

    assert error_of(client.get("/api/events/stream")) == (403, "auth.password_change_required")
    assert error_of(client.post("/api/events/ticket")) == (403, "auth.password_change_required")
