"""POST /api/operations/{id}/retry"""

from pathlib import Path
from typing import Any

from sqlalchemy import update

from holdfast.operations.models import Operation
from tests.contract.backup.jobs import missing_backup
from tests.contract.fields import error_of
from tests.support.running import Running


def cancelled_jobs(running: Running, repository: dict[str, Any], starts: dict[str, tuple[str, dict[str, Any]]]) -> Any:
    """Start one job of each kind, cancel it while it waits, and return the ids by kind."""
    jobs = {}
    with running.held_backup(repository):
        for kind, (path, body) in starts.items():
            answer = running.admin.post(path, json=body)
            assert answer.status_code == 200, answer.text
            jobs[kind] = answer.json()["job_id"]
            running.admin.post(f"/api/operations/{jobs[kind]}/cancel")
    assert {running.admin.operation(job)["status"] for job in jobs.values()} == {"cancelled"}
    return jobs


def test_a_retry_of_a_cancelled_operation_runs_with_the_same_parameters_for_every_kind(running: Running) -> None:
    repository = running.new_repository()
    first = running.admin.wait_for_end(running.admin.start_backup(repository))
    archive = first["result"]["archive"]["name"]
    base = f"/api/repositories/{repository['id']}"
    destination = str(running.new_folder("restored"))
    restore = {"repository_id": repository["id"], "archive": archive, "destination": destination}
    starts = {
        "check": (f"{base}/check", {"max_duration": None, "verify_data": True}),
        "prune": (f"{base}/prune", {"keep_last": 9}),
        "compact": (f"{base}/compact", {"threshold": 7}),
        "restore_check": (f"{base}/restore-check", {"archive": archive, "full_archive": True}),
        "restore": ("/api/restore/start", {**restore, "overwrite": "replace"}),
    }

    for kind, job in cancelled_jobs(running, repository, starts).items():
        before = running.admin.operation(job)
        assert "retry" in before["actions"]
        answer = running.admin.post(f"/api/operations/{job}/retry")
        assert answer.status_code == 200, (kind, answer.text)
        assert answer.json()["retry_of"] == job
        ended = running.admin.wait_for_end(answer.json()["job_id"])
        assert ended["status"] == "completed", (kind, ended)
        assert {name: ended[name] for name in ("kind", "params", "run_id", "archive_name")} == {
            name: before[name] for name in ("kind", "params", "run_id", "archive_name")
        }
        assert (ended["trigger"], ended["retry_of"], ended["triggered_by"]) == ("retry", job, "admin")
        again = running.admin.operation(ended["id"])
        assert again["refusals"]["retry"] == "operations.not_retryable"
        assert error_of(running.admin.post(f"/api/operations/{ended['id']}/retry")) == (409, "operations.not_retryable")
    assert any(Path(destination).rglob("*"))


def test_a_retry_requires_the_caller_to_have_the_rights_for_the_original_request(running: Running) -> None:
    repository = running.new_repository()
    viewer, operator = (running.client_with_right(repository, role) for role in ("viewer", "operator"))
    base = f"/api/repositories/{repository['id']}"
    starts = {
        "check": (f"{base}/check", {"repair": True}),
        "backup": ("/api/backup/start", {"repository": repository["path"], "source_paths": ["/etc/hostname"]}),
    }
    jobs = cancelled_jobs(running, repository, starts)

    assert error_of(viewer.post(f"/api/operations/{jobs['check']}/retry")) == (403, "access.forbidden")
    assert error_of(operator.post(f"/api/operations/{jobs['check']}/retry")) == (403, "access.forbidden")
    assert error_of(operator.post(f"/api/operations/{jobs['backup']}/retry")) == (403, "backup.sources_not_allowed")
    assert error_of(running.stranger.post(f"/api/operations/{jobs['check']}/retry")) == (404, "operations.not_found")
    assert viewer.get(f"/api/operations/{jobs['check']}").json()["refusals"]["retry"] == "access.forbidden"


def test_a_retry_does_not_change_a_repository_that_is_now_observed(running: Running) -> None:
    repository = running.new_repository()
    base = f"/api/repositories/{repository['id']}"
    starts = {"compact": (f"{base}/compact", {}), "check": (f"{base}/check", {})}
    jobs = cancelled_jobs(running, repository, starts)
    running.admin.put(base, json={"mode": "observe"})

    assert error_of(running.admin.post(f"/api/operations/{jobs['compact']}/retry")) == (409, "repository.observe_only")
    assert running.admin.post(f"/api/operations/{jobs['check']}/retry").status_code == 200


def test_index_operations_and_running_operations_cannot_be_retried(running: Running) -> None:
    repository = running.new_repository(index_mode="full")
    running.admin.wait_for_end(running.admin.start_backup(repository))
    listed = running.admin.get("/api/operations/", params={"repository_id": repository["id"], "category": "index"})
    of_the_index = running.admin.wait_for_end(listed.json()["items"][0]["id"])["id"]

    assert error_of(running.admin.post(f"/api/operations/{of_the_index}/retry")) == (409, "operations.not_retryable")
    with running.held_backup(running.scratch) as (job, _gate):
        assert error_of(running.admin.post(f"/api/operations/{job}/retry")) == (409, "operations.still_active")
        assert running.admin.operation(job)["refusals"]["retry"] == "operations.still_active"


def test_an_operation_with_unknown_parameters_cannot_be_retried(running: Running) -> None:
    repository = running.new_repository()
    path = f"/api/repositories/{repository['id']}/check"
    job = cancelled_jobs(running, repository, {"check": (path, {})})["check"]
    with running.store() as session:
        session.execute(update(Operation).where(Operation.id == job).values(params={"max_duration": "for ever"}))

    assert error_of(running.admin.post(f"/api/operations/{job}/retry")) == (409, "operations.not_retryable")


def test_a_retry_repeated_with_its_idempotency_key_is_one_operation(running: Running) -> None:
    failed = missing_backup(running, running.scratch)
    headers = {"Idempotency-Key": running.new_name("key")}

    first, again = (running.admin.post(f"/api/operations/{failed}/retry", headers=headers) for _ in range(2))

    assert first.json() == again.json()
    running.admin.wait_for_end(first.json()["job_id"])
