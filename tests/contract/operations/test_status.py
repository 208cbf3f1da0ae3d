"""`GET /api/activity/status`: whether everything is backed up."""

from typing import Any

from tests.contract.backup.jobs import missing_backup
from tests.support.running import Running
from tests.support.service import wait_until


def health_of(status: dict[str, Any], repository: dict[str, Any]) -> dict[str, Any]:
    (found,) = [one for one in status["repositories"] if one["repository_id"] == repository["id"]]
    return dict(found)


def test_a_failed_backup_is_reported_until_the_next_success(running: Running) -> None:
    admin = running.admin
    repository = running.new_repository()
    assert health_of(admin.get("/api/activity/status").json(), repository)["health"] == "never"
    failed = missing_backup(running, repository)

    status = admin.get("/api/activity/status").json()

    assert status["verdict"] == "attention"
    assert health_of(status, repository) | {"summary": ""} == {
        "repository_id": repository["id"],
        "name": repository["name"],
        "health": "failed",
        "summary": "",
        "last_backup": None,
        "last_operation_id": failed,
        "overdue": False,
    }
    assert [one["error_key"] for one in status["failed"] if one["id"] == failed] == ["engine.source_missing"]
    job = admin.start_backup(repository)
    assert admin.wait_for_end(job)["status"] == "completed"
    status = admin.get("/api/activity/status").json()
    assert health_of(status, repository)["health"] == "ok"
    assert failed not in [one["id"] for one in status["failed"]]


def test_running_jobs_show_their_progress(running: Running) -> None:
    def shown_progress(job: int) -> dict[str, Any]:
        (shown,) = [one for one in running.admin.get("/api/activity/status").json()["running"] if one["id"] == job]
        return dict(shown["progress_details"])

    with running.held_backup_with_progress(running.scratch) as job:
        wait_until(lambda: "nfiles" in shown_progress(job), what="the engine's progress is shown")
        progress = shown_progress(job)
        detail = running.admin.get(f"/api/operations/{job}").json()

    assert progress["nfiles"] == detail["progress_details"]["nfiles"]
    assert {"current_file", "original_size"} <= set(detail["progress_details"])


def test_a_user_without_rights_sees_no_repositories_failures_or_machines(running: Running) -> None:
    missing_backup(running, running.new_repository())

    status = running.stranger.get("/api/activity/status").json()

    assert (status["verdict"], status["repositories"], status["failed"]) == ("ok", [], [])
    assert status["machines_offline"] is None
