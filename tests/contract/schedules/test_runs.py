"""Running schedules by hand, and reading their results."""

from datetime import UTC, datetime, timedelta

from tests.contract.schedules.scheduled import RUN, URL, Scheduled, refused


def test_a_manual_run_executes_all_steps_under_one_run_id(scheduled: Scheduled) -> None:
    repository = scheduled.running.new_repository()
    created = scheduled.new(repository, steps=[{"kind": "backup"}, {"kind": "prune", "keep_daily": 7}])
    started = scheduled.run(created)

    assert set(started) == {"run_id", "runs"}
    row = started["runs"][0]
    assert (row["repository_id"], len(row["operations"])) == (repository["id"], 2)
    ended = scheduled.settled(row["id"])
    assert set(ended) == {*RUN, "operations"}
    assert (ended["outcome"], ended["result"], ended["origin"]) == ("ran", "completed", "manual")
    assert [step["kind"] for step in ended["steps"]] == ["backup", "prune"]
    assert {(each["kind"], each["status"], each["run_id"]) for each in ended["operations"]} == {
        ("backup", "completed", started["run_id"]),
        ("prune", "completed", started["run_id"]),
    }
    assert all(each["schedule_id"] == created["id"] for each in ended["operations"])
    read = scheduled.read(created)
    assert (read["last_result"], read["last_run"]) == ("completed", ended["released_at"])
    listed = scheduled.client.get(f"{URL}/{created['id']}/runs").json()["runs"]
    assert [each["id"] for each in listed] == [row["id"]]
    assert set(listed[0]) == RUN
    assert [e for e in scheduled.audit("schedule.run") if e["object_id"] == str(created["id"])]


def test_a_past_run_is_in_the_calendar(scheduled: Scheduled) -> None:
    repository = scheduled.running.new_repository()
    created = scheduled.new(repository)
    scheduled.settled(scheduled.run(created)["runs"][0]["id"])
    now = datetime.now(UTC)
    span = {"since": (now - timedelta(hours=1)).isoformat(), "until": (now + timedelta(minutes=1)).isoformat()}
    entries = scheduled.client.get(f"{URL}/calendar", params={**span, "repository_id": repository["id"]}).json()

    entry = entries["entries"][0]
    assert (entry["schedule_id"], entry["outcome"], entry["result"]) == (created["id"], "ran", "completed")
    assert [target["repository_id"] for target in entry["targets"]] == [repository["id"]]


def test_a_request_repeated_with_its_idempotency_key_runs_once(scheduled: Scheduled) -> None:
    created = scheduled.new(scheduled.running.new_repository())
    key = {"Idempotency-Key": scheduled.running.new_name("key")}
    place = f"{URL}/{created['id']}/run"
    first = scheduled.client.post(place, json={}, headers=key).json()
    again = scheduled.client.post(place, json={}, headers=key)

    assert again.json() == first
    assert again.headers["Idempotency-Replayed"] == "true"
    other = scheduled.client.post(place, json={"respect_windows": True}, headers=key)
    assert refused(other, 409)["key"] == "idempotency.mismatch"
    scheduled.settled(first["runs"][0]["id"])


def test_a_second_run_is_refused_while_the_first_is_active(scheduled: Scheduled) -> None:
    repository = scheduled.running.new_repository()
    created = scheduled.new(repository)
    with scheduled.running.held_backup(repository):
        first = scheduled.run(created)["runs"][0]
        again = scheduled.client.post(f"{URL}/{created['id']}/run", json={})
        assert refused(again, 409)["key"] == "schedules.already_running"
    assert scheduled.settled(first["id"])["result"] == "completed"


def test_a_run_can_be_limited_to_chosen_targets_and_steps(scheduled: Scheduled) -> None:
    chosen, other = (scheduled.running.new_repository() for _ in range(2))
    created = scheduled.new(chosen, other, steps=[{"kind": "backup"}, {"kind": "check"}])
    started = scheduled.run(created, repository_ids=[chosen["id"]], steps=["backup"])

    assert [row["repository_id"] for row in started["runs"]] == [chosen["id"]]
    ended = scheduled.settled(started["runs"][0]["id"])
    assert [step["kind"] for step in ended["steps"]] == ["backup"]
    stranger = scheduled.shared["id"]
    place = f"{URL}/{created['id']}/run"
    assert refused(scheduled.client.post(place, json={"repository_ids": [stranger]}), 422)["key"] == (
        "schedules.not_a_target"
    )
    assert refused(scheduled.client.post(place, json={"steps": ["prune"]}), 422)["key"] == "schedules.no_such_step"


def test_a_run_that_waits_for_a_window_can_be_cancelled(scheduled: Scheduled) -> None:
    created, row = scheduled.waiting(scheduled.shared)

    cancelled = scheduled.client.post(f"{URL}/runs/{row['id']}/cancel").json()
    assert (cancelled["outcome"], cancelled["reason"]) == ("skipped", "cancelled")
    again = scheduled.client.post(f"{URL}/runs/{row['id']}/cancel")
    assert again.status_code == 409
    assert scheduled.read(created)["waiting"] == []
    assert [e for e in scheduled.audit("schedule_run.cancelled") if e["object_id"] == str(row["id"])]


def test_disabling_a_schedule_skips_its_waiting_run(scheduled: Scheduled) -> None:
    created, row = scheduled.waiting(scheduled.shared)
    scheduled.client.post(f"{URL}/{created['id']}/disable")

    skipped = scheduled.run_row(row["id"])
    assert (skipped["outcome"], skipped["reason"]) == ("skipped", "disabled")


def test_runs_can_be_filtered_and_paged(scheduled: Scheduled) -> None:
    repository = scheduled.shared
    created, first_row = scheduled.waiting(repository)
    numbers = [first_row["id"]]
    for _ in range(3):
        scheduled.client.post(f"{URL}/runs/{numbers[0]}/cancel")
        numbers.insert(0, scheduled.run(created, respect_windows=True)["runs"][0]["id"])
    place = f"{URL}/{created['id']}/runs"

    first = scheduled.client.get(place, params={"limit": 2}).json()
    second = scheduled.client.get(place, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [row["id"] for page in (first, second) for row in page["runs"]] == numbers
    assert second["next_cursor"] is None
    assert len(scheduled.client.get(place, params={"outcome[]": "skipped"}).json()["runs"]) == 3
    assert scheduled.client.get(place, params={"outcome": "ran"}).json()["runs"] == []
    assert scheduled.client.get(place, params={"repository_id": repository["id"]}).json()["runs"]
    other = scheduled.running.scratch["id"]
    assert scheduled.client.get(place, params={"repository_id": other}).json()["runs"] == []
    assert refused(scheduled.client.get(place, params={"outcome": "lost"}), 422)["key"] == "schedules.unknown_outcome"
    assert refused(scheduled.client.get(f"{URL}/runs/7654321"), 404)["key"] == "schedules.run_not_found"


def test_a_run_requires_a_login_token(scheduled: Scheduled) -> None:
    created = scheduled.new(scheduled.shared)
    client = scheduled.running.anonymous()
    client.headers["X-Backup-Authorization"] = f"Bearer {scheduled.running.token}"

    answer = client.post(f"{URL}/{created['id']}/run", json={})
    assert refused(answer, 403)["key"] == "auth.login_token_required"
