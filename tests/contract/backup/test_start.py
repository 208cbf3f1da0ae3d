"""POST /api/backup/start and its alias /run"""

from pathlib import Path
from typing import Any

import pytest

from tests.contract.backup.jobs import status_of, traces
from tests.contract.fields import (
    BACKUP_STATUS,
    JOB_START,
    MORE_BACKUP_STATUS,
    PROGRESS_DETAILS,
    error_of,
    is_timestamp,
)
from tests.contract.stores import both_stores
from tests.support.running import Running


@both_stores
@pytest.mark.parametrize("word", ["start", "run"])
def test_a_backup_is_queued_and_runs_to_completion(running: Running, word: str) -> None:
    repository = running.new_repository()

    answer = running.admin.post(f"/api/backup/{word}", json={"repository": repository["path"]})

    assert answer.status_code == 200
    assert set(answer.json()) == JOB_START
    assert isinstance(answer.json()["job_id"], int)
    assert answer.json()["status"] == "pending"
    assert answer.json()["message"] == f"The backup of {repository['name']} is queued."
    job_id = answer.json()["job_id"]
    assert running.admin.wait_for_end(job_id)["status"] == "completed"
    status = status_of(running, job_id)
    assert set(status) == BACKUP_STATUS | MORE_BACKUP_STATUS
    assert (status["id"], status["repository"], status["progress"]) == (job_id, repository["path"], 100)
    assert (status["trigger"], status["triggered_by"], status["attempt"]) == ("manual", "admin", 1)
    assert [status[name] for name in ("error_message", "error_key", "retry_of", "queue_position")] == [None] * 4
    assert status["warnings"] == []
    assert is_timestamp(status["started_at"])
    assert is_timestamp(status["completed_at"])
    assert status["archive_name"] in status["logs"]


def test_final_sizes_are_available_as_soon_as_the_status_is_completed(running: Running) -> None:
    """The status is polled without a pause: the first response with this status has all sizes."""
    source = running.new_folder("sized")
    (source / "a").write_bytes(b"x" * 70_000)
    (source / "b").write_bytes(b"y" * 30_000)
    job_id = running.admin.start_backup(running.scratch, source_paths=[str(source)])

    while (status := status_of(running, job_id))["status"] in ("pending", "running"):
        pass

    details = status["progress_details"]
    assert status["status"] == "completed"
    assert set(details) == PROGRESS_DETAILS
    assert details["progress_percent"] == status["progress"] == 100
    assert (details["nfiles"], details["estimated_time_remaining"]) == (2, 0)
    assert details["original_size"] >= 100_000
    assert 0 < details["compressed_size"] < details["original_size"]
    assert 0 < details["deduplicated_size"] <= details["compressed_size"]
    assert isinstance(details["current_file"], str)


def test_optional_fields_set_the_sources_the_archive_name_and_the_comment(running: Running) -> None:
    repository, source = running.scratch, running.new_source(2)
    name = running.new_name("chosen")
    extras = {"source_paths": [str(source)], "archive_name": name, "comment": "before the move"}

    job_id = running.admin.start_backup(repository, **extras)
    operation = running.admin.wait_for_end(job_id)

    assert status_of(running, job_id)["archive_name"] == name
    assert operation["params"] == extras
    comment = running.outside.archives(repository["path"])[name]
    assert comment.startswith("before the move holdfast:")
    inside = running.outside.files(repository["path"], name)
    assert {Path(entry).name for entry in inside if "file-" in entry} == {"file-0", "file-1"}


def test_an_unregistered_path_is_refused_and_creates_no_operation(running: Running) -> None:
    before = traces(running)

    answer = running.admin.post("/api/backup/start", json={"repository": "/nowhere/at/all"})

    assert error_of(answer) == (404, "repository.not_registered")
    assert traces(running) == before


def test_a_hidden_repository_is_refused_exactly_like_a_missing_one(running: Running) -> None:
    path = running.known.repository["path"]
    before = traces(running)

    hidden = running.stranger.post("/api/backup/start", json={"repository": path})
    missing = running.stranger.post("/api/backup/start", json={"repository": "/nowhere/at/all"})

    assert error_of(hidden) == error_of(missing) == (404, "repository.not_registered")
    assert hidden.text.replace(path, "") == missing.text.replace("/nowhere/at/all", "")
    assert traces(running) == before


def test_a_viewer_may_not_start_a_backup_but_an_operator_may(running: Running) -> None:
    repository = running.scratch
    body = {"repository": repository["path"], "source_paths": [f"{repository['source_paths'][0]}/missing"]}
    before = traces(running)

    refused = running.client_with_right(repository, "viewer").post("/api/backup/start", json=body)

    assert error_of(refused) == (403, "access.forbidden")
    assert traces(running) == before
    operator = running.client_with_right(repository, "operator")
    job_id = operator.post("/api/backup/start", json=body).json()["job_id"]
    running.admin.wait_for_end(job_id)
    assert status_of(running, job_id)["triggered_by"] == operator.get("/api/auth/me").json()["username"]


@pytest.mark.parametrize(
    ("body", "status", "key"),
    [
        ({}, 422, None),
        ([], 422, None),
        ({"repository": ""}, 422, None),
        ({"repository": 7}, 422, None),
        ({"repository": "{path}\0"}, 422, None),
        ({"repository": "{path}", "source_paths": []}, 422, None),
        ({"repository": "{path}", "source_paths": "/etc"}, 422, None),
        ({"repository": "{path}", "comment": "x" * 2001}, 422, None),
        ({"repository": "{path}", "source_paths": ["etc"]}, 422, "repository.source_not_absolute"),
        ({"repository": "{path}", "archive_name": "{{hostname}}"}, 422, "backup.unknown_placeholder"),
        ({"repository": "{path}", "archive_name": "//"}, 422, "backup.bad_archive_name"),
    ],
)
def test_a_malformed_request_is_refused_and_changes_nothing(
    running: Running, body: Any, status: int, key: str | None
) -> None:
    path = running.known.repository["path"]
    if "repository" in body and isinstance(body["repository"], str):
        body = {**body, "repository": body["repository"].replace("{path}", path)}
    if "archive_name" in body:
        body = {**body, "archive_name": body["archive_name"].replace("{{", "{").replace("}}", "}")}
    before = traces(running)

    answer = running.admin.post("/api/backup/start", json=body)

    assert answer.status_code == status
    if key is None:
        assert all({"loc", "msg", "type"} == set(item) for item in answer.json()["detail"])
    else:
        assert error_of(answer) == (status, key)
    assert traces(running) == before


def test_a_repository_that_is_observed_or_has_no_sources_is_not_backed_up(running: Running) -> None:
    empty = running.new_repository(source_paths=[])
    running.admin.put(f"/api/repositories/{empty['id']}", json={"mode": "observe"})
    observed = running.admin.post("/api/backup/start", json={"repository": empty["path"], "source_paths": ["/etc"]})
    running.admin.put(f"/api/repositories/{empty['id']}", json={"mode": "full"})
    without = running.admin.post("/api/backup/start", json={"repository": empty["path"]})

    assert error_of(observed) == (409, "repository.observe_only")
    assert error_of(without) == (422, "backup.no_sources")
    assert running.admin.get("/api/backup/jobs", params={"repository_id": empty["id"]}).json()["jobs"] == []


@both_stores
def test_a_request_repeated_with_its_idempotency_key_starts_one_backup(running: Running) -> None:
    repository = running.scratch
    headers = {"Idempotency-Key": running.new_name("key")}
    body = {"repository": repository["path"], "source_paths": [f"{repository['source_paths'][0]}/missing"]}

    first, again = (running.admin.post("/api/backup/start", json=body, headers=headers) for _ in range(2))
    other = running.admin.post("/api/backup/start", json={**body, "comment": "other"}, headers=headers)
    elsewhere = running.admin.post("/api/backup/run", json=body, headers=headers)
    of_another = running.client_with_right(repository, "operator").post("/api/backup/start", json=body, headers=headers)

    assert first.json() == again.json()
    assert error_of(other) == (409, "idempotency.mismatch")
    jobs = {answer.json()["job_id"] for answer in (first, again, elsewhere, of_another)}
    assert len(jobs) == 3, "a key belongs to one user and one route"
    for job_id in jobs:
        running.admin.wait_for_end(job_id)


def test_a_refused_request_does_not_use_up_its_idempotency_key(running: Running) -> None:
    headers = {"Idempotency-Key": running.new_name("key")}
    path = running.new_path()
    body = {"repository": str(path), "source_paths": [str(running.new_path("missing"))]}

    refused = running.admin.post("/api/backup/start", json=body, headers=headers)
    running.new_repository(path=path)
    accepted = running.admin.post("/api/backup/start", json=body, headers=headers)

    assert error_of(refused) == (404, "repository.not_registered")
    assert accepted.status_code == 200
    running.admin.wait_for_end(accepted.json()["job_id"])
