"""The mirror of a repository over HTTP: settings, syncs that follow, and refusals."""

from typing import Any

import pytest

from tests.contract.fields import error_of, is_timestamp
from tests.contract.mirror.mirrored import local_remote, mirrored, shared
from tests.support.running import Running
from tests.support.service import Client

DEFAULTS = {
    "mode": "after_backup",
    "interval_minutes": None,
    "bandwidth_limit_kib": None,
    "shrink_threshold_percent": 50,
    "verify": True,
}


def test_a_new_mirror_has_the_defaults_and_gets_its_initial_sync(running: Running, admin: Client) -> None:
    repository, remote_id, folder = running.new_repository(), local_remote(running), running.new_path("mirror")
    place = f"/api/repositories/{repository['id']}"
    assert error_of(admin.get(f"{place}/mirror")) == (404, "mirror.not_configured")
    assert admin.get(place).json()["latest_sync_job"] is None

    made = admin.put(f"{place}/mirror", json={"remote_id": remote_id, "path": str(folder)}).json()
    ended = admin.wait_for_end(made["sync_operation_id"])

    assert {name: made[name] for name in DEFAULTS} == DEFAULTS
    assert (ended["status"], ended["trigger"], ended["type"]) == ("completed", "initial", "rclone_sync")
    latest = admin.get(place).json()["latest_sync_job"]
    assert (latest["id"], latest["triggered_by"], latest["operation"]) == (ended["id"], "initial", "sync")
    told = admin.get(f"{place}/mirror").json()
    assert is_timestamp(told["last_sync_at"])
    assert is_timestamp(told["verified_at"])
    assert told["mirrored_bytes"] == ended["result"]["source_bytes"] > 0
    activity = admin.get("/api/activity/recent", params={"job_type": "rclone_sync"}).json()
    assert ended["id"] in [item["id"] for item in activity]


def test_changed_settings_do_not_start_a_sync_but_a_new_path_does(running: Running) -> None:
    made = mirrored(running)
    body = {"remote_id": made.remote_id, "path": str(made.folder), "mode": "manual", "bandwidth_limit_kib": 9000}

    changed = made.admin.put(made.url, json=body).json()
    moved = made.admin.put(made.url, json={**body, "path": str(running.new_path("moved"))}).json()

    assert (changed["bandwidth_limit_kib"], changed["sync_operation_id"]) == (9000, None)
    assert is_timestamp(changed["last_sync_at"])
    assert moved["last_sync_at"] is None
    assert made.admin.wait_for_end(moved["sync_operation_id"])["status"] == "completed"


def test_a_backup_is_followed_by_a_sync_of_its_run(running: Running) -> None:
    made = shared(running)
    before = len(made.syncs())

    with made.following():
        backup = made.admin.wait_for_end(made.admin.start_backup(made.repository))
        follow_up = made.wait_for_syncs(before + 1)[0]

    told = (follow_up["trigger"], follow_up["parent_id"], follow_up["run_id"])
    assert told == ("followup", backup["id"], backup["run_id"])
    assert follow_up["status"] == "completed"
    assert (made.cell()["status"], made.cell()["source"]) == ("completed", f"operation:{follow_up['id']}")


def test_neither_a_failed_backup_nor_a_manual_mirror_leads_to_a_sync(running: Running) -> None:
    made = shared(running)
    before = len(made.syncs())

    by_hand = made.admin.wait_for_end(made.admin.start_backup(made.repository))
    with made.following():
        missing = [str(running.new_path("missing"))]
        failed = made.admin.wait_for_end(made.admin.start_backup(made.repository, source_paths=missing))

    assert (by_hand["status"], failed["status"]) == ("completed", "failed")
    assert len(made.syncs()) == before


def test_a_sync_waits_for_the_running_backup(running: Running) -> None:
    made = shared(running)

    with running.held_backup(made.repository) as (backup, _gate):
        job = made.admin.post(f"{made.url}/sync").json()["job_id"]
        waiting = made.admin.operation(job)
        told = (waiting["status"], waiting["queued_reason"], waiting["queued_behind_id"])
        assert told == ("pending", "repository_busy", backup)

    assert made.admin.wait_for_end(job)["status"] == "completed"


def test_removing_a_mirror_removes_its_evidence_and_keeps_the_files(running: Running) -> None:
    made = mirrored(running)
    assert made.cell()["age_seconds"] is not None

    assert made.admin.delete(made.url).status_code == 204

    assert error_of(made.admin.get(made.url)) == (404, "mirror.not_configured")
    assert error_of(made.admin.post(f"{made.url}/sync")) == (404, "mirror.not_configured")
    assert (made.folder / "config").is_file()
    assert (made.cell()["age_seconds"], made.cell()["overdue"]) == (None, None)


def test_a_remote_in_use_cannot_be_removed(running: Running) -> None:
    made = shared(running)

    refused = made.admin.delete(f"/api/rclone/remotes/{made.remote_id}")

    assert error_of(refused) == (409, "rclone.remote_in_use")
    assert refused.json()["detail"]["params"]["repository_ids"] == [made.repository["id"]]


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"mode": "interval"}, (422, "mirror.interval_missing")),
        ({"path": "relative"}, (422, "mirror.bad_path")),
        ({"path": "/"}, (422, "mirror.bad_path")),
        ({"path": "{repository}"}, (422, "mirror.bad_path")),
        ({"path": "{repository}/below"}, (422, "mirror.bad_path")),
        ({"remote_id": 7_654_321}, (404, "rclone.remote_not_found")),
        ({"mode": "sometimes"}, (422, None)),
        ({"shrink_threshold_percent": 0}, (422, None)),
        ({"bandwidth_limit_kib": 0}, (422, None)),
        ({"colour": "red"}, (422, None)),
    ],
)
def test_invalid_settings_are_refused_and_nothing_is_stored(
    running: Running, wrong: dict[str, Any], refusal: tuple[int, str | None]
) -> None:
    repository = running.scratch
    remote_id = local_remote(running)
    body = {"remote_id": remote_id, "path": str(running.new_path("mirror")), "mode": "manual", **wrong}
    body["path"] = body["path"].replace("{repository}", repository["path"])

    answer = running.admin.put(f"/api/repositories/{repository['id']}/mirror", json=body)

    assert answer.status_code == refusal[0]
    if refusal[1] is not None:
        assert error_of(answer) == refusal
    assert running.admin.get(f"/api/repositories/{repository['id']}/mirror").status_code == 404


def test_two_mirrors_can_neither_share_a_path_nor_be_nested(running: Running) -> None:
    made = shared(running)
    other = f"/api/repositories/{running.scratch['id']}/mirror"

    refused = [
        running.admin.put(other, json={"remote_id": made.remote_id, "path": str(path), "mode": "manual"})
        for path in (made.folder, made.folder / "below", made.folder.parent)
    ]

    assert [error_of(answer) for answer in refused] == [(409, "mirror.path_taken")] * 3


def test_a_mirror_is_read_by_viewers_synced_by_operators_and_changed_by_admins(running: Running) -> None:
    made = shared(running)
    viewer = running.client_with_right(made.repository, "viewer")
    operator = running.client_with_right(made.repository, "operator")
    body = {"remote_id": made.remote_id, "path": str(made.folder)}
    destination = {"destination": str(running.new_path("hydrated")), "confirm": True}

    assert viewer.get(made.url).status_code == 200
    assert viewer.post(f"{made.url}/sync").status_code == 403
    assert operator.put(made.url, json=body).status_code == 403
    assert operator.delete(made.url).status_code == 403
    assert operator.post(f"{made.url}/sync", json={"override_sanity": True}).status_code == 403
    assert operator.post(f"{made.url}/hydrate", json=destination).status_code == 403
    assert running.stranger.get(made.url).status_code == 404
    started = operator.post(f"{made.url}/sync")
    assert (started.status_code, started.json()["status"]) == (200, "pending")
    assert made.admin.wait_for_end(started.json()["job_id"])["status"] == "completed"
    by_token = {"X-Backup-Authorization": f"Bearer {running.token}"}
    assert running.anonymous().post(f"{made.url}/sync", headers=by_token).status_code == 403


def test_the_mirror_of_an_unknown_repository_is_not_found(admin: Client) -> None:
    assert error_of(admin.get("/api/repositories/7654321/mirror")) == (404, "repository.not_found")
    assert error_of(admin.post("/api/repositories/7654321/mirror/sync")) == (404, "repository.not_found")
