"""Restores over HTTP."""

import os
from pathlib import Path

import pytest

from tests.contract.fields import JOB_START, error_of, is_timestamp
from tests.contract.restore.known import Known

STATUS = {
    *("id", "repository", "archive", "destination", "status", "started_at", "completed_at", "progress"),
    *("error_message", "logs", "progress_details"),
}
PROGRESS = {
    *("nfiles", "current_file", "progress_percent", "restored_size", "original_size", "restore_speed"),
    "estimated_time_remaining",
}
COUNTS = {
    *("files_restored", "bytes_restored", "files_skipped", "bytes_skipped", "files_failed", "bytes_failed"),
    *("failed", "skipped"),
}


def test_a_restore_is_queued_runs_and_reports_what_it_restored(known: Known, destination: Path) -> None:
    started = known.admin.post("/api/restore/start", json=known.body(destination))
    assert started.status_code == 200
    assert set(started.json()) == JOB_START
    assert started.json()["status"] == "pending"
    known.admin.wait_for_end(started.json()["job_id"])

    status = known.admin.get(f"/api/restore/status/{started.json()['job_id']}").json()

    files = list(known.source.iterdir())
    size = sum(file.stat().st_size for file in files)
    assert set(status) >= STATUS
    assert (status["status"], status["error_message"], status["progress"]) == ("completed", None, 100.0)
    assert (status["repository"], status["archive"]) == (known.repository["path"], known.archive)
    assert status["destination"] == str(destination)
    assert is_timestamp(status["started_at"])
    assert is_timestamp(status["completed_at"])
    assert f"Restored {len(files)} files ({size} bytes)." in status["logs"]
    assert set(status["progress_details"]) == PROGRESS
    assert status["progress_details"]["estimated_time_remaining"] == 0
    assert status["progress_details"]["nfiles"] == len(files)
    assert status["progress_details"]["restored_size"] == status["progress_details"]["original_size"] == size
    assert set(status["result"]) >= COUNTS
    assert (status["result"]["files_restored"], status["result"]["bytes_restored"]) == (len(files), size)
    restored = destination / known.source.relative_to("/")
    assert {file.name: file.read_bytes() for file in restored.iterdir()} == {
        file.name: file.read_bytes() for file in files
    }


def test_a_restore_is_an_operation_with_its_own_kind(known: Known, destination: Path) -> None:
    status = known.restore(destination, paths=[str(known.source / "file-1")])

    operation = known.admin.operation(status["id"])
    assert (operation["kind"], operation["type"], operation["category"]) == ("restore", "restore", "restore")
    assert operation["archive_name"] == known.archive
    assert operation["triggered_by"] == "admin"
    assert operation["detail"]["destination"] == str(destination)
    assert operation["detail"]["paths"] == [str(known.source / "file-1")[1:]]
    assert operation["detail"]["result"]["files_restored"] == 1


def test_a_restore_accepts_an_archive_id_or_name_and_a_repository_id_or_path(known: Known, tmp_path: Path) -> None:
    by_id = known.restore(tmp_path / "by-id", archive=None, archive_id=known.archive_id)
    by_path = known.restore(tmp_path / "by-path", repository_id=None, repository=known.repository["path"])

    assert [job["status"] for job in (by_id, by_path)] == ["completed", "completed"]
    assert by_id["archive"] == by_path["archive"] == known.archive


def test_the_list_is_newest_first_without_logs_and_continues_with_its_cursor(known: Known, tmp_path: Path) -> None:
    jobs = [known.restore(tmp_path / f"out-{number}", dry_run=True)["id"] for number in range(3)]

    first = known.admin.get("/api/restore/jobs", params={"limit": 2}).json()
    second = known.admin.get("/api/restore/jobs", params={"limit": 2, "cursor": first["next_cursor"]}).json()

    listed = [*first["jobs"], *second["jobs"]]
    assert [job["id"] for job in listed][:3] == jobs[::-1]
    assert {job["logs"] for job in listed} == {None}
    assert set(listed[0]) >= STATUS


def test_a_request_repeated_with_its_idempotency_key_starts_one_restore(known: Known, destination: Path) -> None:
    headers = {"Idempotency-Key": known.running.new_name("key")}
    body = known.body(destination, dry_run=True)

    first, second = (known.admin.post("/api/restore/start", json=body, headers=headers) for _ in range(2))
    other = known.admin.post("/api/restore/start", json={**body, "overwrite": "replace"}, headers=headers)

    assert first.json() == second.json()
    assert error_of(other) == (409, "idempotency.mismatch")
    known.admin.wait_for_end(first.json()["job_id"])


def test_a_finished_restore_cannot_be_cancelled(known: Known, destination: Path) -> None:
    ended = known.restore(destination, dry_run=True)

    assert error_of(known.admin.post(f"/api/restore/cancel/{ended['id']}")) == (409, "operations.already_finished")


def test_a_preview_shows_files_bytes_conflicts_and_a_sample(known: Known, destination: Path) -> None:
    taken = destination / known.source.relative_to("/") / "file-2"
    taken.parent.mkdir(parents=True)
    taken.write_text("already there")

    answer = known.operator.post("/api/restore/preview", json=known.body(destination))

    files = list(known.source.iterdir())
    assert answer.status_code == 200
    preview = answer.json()
    assert (preview["files"], preview["bytes"]) == (len(files), sum(file.stat().st_size for file in files))
    assert preview["conflicts"] == [
        {"path": str(known.source / "file-2")[1:], "path_b64": None, "reason": "a file already exists there"}
    ]
    assert {(item["path"], item["type"]) for item in preview["sample"]} == {
        (str(known.source)[1:], "d"),
        *((str(file)[1:], "-") for file in files),
    }
    assert taken.read_text() == "already there"


@pytest.mark.parametrize(
    ("overwrite", "expected"), [("skip", (-1, 0, 1)), ("replace", (-1, 1, 0)), ("fail", (0, 0, 1))]
)
def test_a_preview_counts_new_replaced_and_kept_files_and_shows_free_space_to_operators(
    known: Known, destination: Path, overwrite: str, expected: tuple[int, int, int]
) -> None:
    taken = destination / known.source.relative_to("/") / "file-2"
    taken.parent.mkdir(parents=True)
    taken.write_text("already there")
    body = {**known.body(destination), "overwrite": overwrite}

    operator = known.operator.post("/api/restore/preview", json=body).json()
    viewer = known.viewer.post("/api/restore/preview", json=body).json()

    new, replaced, kept = expected
    new = operator["files"] + new if new else 0
    assert tuple(operator[f"would_{what}"] for what in ("write", "replace", "keep")) == (new, replaced, kept)
    space = os.statvfs(destination)
    assert 0 < operator["free_bytes"] <= space.f_blocks * space.f_frsize
    assert {viewer[name] for name in ("would_write", "would_replace", "would_keep", "free_bytes")} == {None}


def test_the_activity_route_returns_the_log_of_a_restore(known: Known, destination: Path) -> None:
    ended = known.restore(destination)

    answer = known.admin.get(f"/api/activity/restore/{ended['id']}/logs")

    assert answer.status_code == 200
    assert any(line["content"].startswith("Restoring ") for line in answer.json()["lines"])
