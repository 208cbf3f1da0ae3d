"""Restore checks over HTTP: what they report as proven, and what they do not."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.contract.fields import JOB_START, error_of, is_timestamp
from tests.contract.maintenance.jobs import STATUS, Made

RESULT = {"mode", "archive", "files_proven", "bytes_proven", "files_checked", "bytes_checked", "problems", "read_by"}


def source_of(made: Made) -> Path:
    return Path(made.repository["source_paths"][0])


def size_of(made: Made) -> int:
    return sum(file.stat().st_size for file in source_of(made).iterdir())


def archived_path(path: Path) -> str:
    return str(path).lstrip("/")


def test_a_check_of_the_whole_newest_archive_reports_the_files_and_bytes_proven(archived: Made) -> None:
    answer = archived.admin.post(f"{archived.url}/restore-check", json={"full_archive": True})
    assert set(answer.json()) == JOB_START

    job = archived.end_of("restore-check", answer.json()["job_id"])

    assert set(job) >= STATUS
    assert (job["status"], job["archive_name"]) == ("completed", "third")
    result = job["result"]
    assert set(result) >= RESULT
    assert (result["mode"], result["files_proven"], result["bytes_proven"]) == ("full", 3, size_of(archived))
    assert result["problems"] == []
    assert result["read_by"] == "engine"
    reason = "the engine is a standalone program without its own Python"
    assert f"Read by the engine: {reason}." in archived.admin.log_lines(job["id"])
    assert is_timestamp(archived.read()["last_restore_check"])
    detail = archived.admin.operation(job["id"])
    assert (detail["kind"], detail["type"], detail["category"]) == ("restore_check", "restore_check", "restore")
    listed = archived.admin.get(f"{archived.url}/restore-check-jobs").json()["jobs"]
    assert [entry["id"] for entry in listed] == [job["id"]]


def test_a_sample_is_checked_by_default_and_no_more_is_claimed(unchanged: Made) -> None:
    job = unchanged.run("restore-check", sample=2)

    result = job["result"]
    assert (job["status"], result["mode"]) == ("completed", "sample")
    assert (result["files_proven"], result["files_checked"], result["files_in_archive"]) == (2, 2, 3)
    assert result["bytes_proven"] == result["bytes_checked"] < size_of(unchanged)
    started = unchanged.admin.post(f"{unchanged.url}/restore-check")
    assert unchanged.end_of("restore-check", started.json()["job_id"])["result"]["mode"] == "sample"


def test_paths_of_a_named_archive_are_checked_with_or_without_their_leading_slash(unchanged: Made) -> None:
    files = sorted(source_of(unchanged).iterdir())
    exact = base64.b64encode(archived_path(files[1]).encode()).decode()

    job = unchanged.run("restore-check", archive="first", paths=[str(files[0]), {"path_b64": exact}])

    assert (job["status"], job["archive_name"]) == ("completed", "first")
    assert job["result"]["files_proven"] == 2
    assert job["result"]["bytes_proven"] == sum(file.stat().st_size for file in files[:2])


def test_a_path_missing_from_the_archive_is_not_proven(unchanged: Made) -> None:
    present = str(min(source_of(unchanged).iterdir()))

    job = unchanged.run("restore-check", paths=[present, "no/such/file"])

    assert (job["status"], job["error_key"]) == ("failed", "restore_check.path_missing")
    assert "no/such/file" in job["error_message"]
    assert job["result"]["files_proven"] == 1


def test_an_archive_that_never_existed_is_not_reported_as_gone(unchanged: Made) -> None:
    job = unchanged.run("restore-check", archive="fourth")

    assert (job["status"], job["error_key"]) == ("failed", "archives.not_found")
    assert "no longer" not in job["error_message"]


def test_a_canary_is_compared_with_its_known_checksum(unchanged: Made) -> None:
    file = min(source_of(unchanged).iterdir())
    known = hashlib.sha256(file.read_bytes()).hexdigest()

    right = unchanged.run("restore-check", canary={"path": str(file), "sha256": known})
    wrong = unchanged.run("restore-check", canary={"path": str(file), "sha256": "0" * 64})
    own = unchanged.run("restore-check", canary={"path": str(file)})

    assert (right["status"], right["result"]["files_proven"], right["result"]["sha256"]) == ("completed", 1, known)
    assert right["result"]["bytes_proven"] == file.stat().st_size
    assert (wrong["status"], wrong["error_key"]) == ("failed", "restore_check.not_proven")
    assert (wrong["result"]["files_proven"], wrong["result"]["bytes_proven"]) == (0, 0)
    assert (own["status"], own["result"]["files_proven"]) == ("completed", 1)


def test_a_canary_that_is_not_a_file_proves_nothing(unchanged: Made) -> None:
    job = unchanged.run("restore-check", canary={"path": str(source_of(unchanged))})

    assert (job["status"], job["error_key"]) == ("failed", "restore_check.path_missing")
    assert job["result"]["files_proven"] == 0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"sample": 1, "full_archive": True}, (422, "restore_check.contradiction")),
        ({"paths": ["a"], "canary": {"path": "a"}}, (422, "restore_check.contradiction")),
        ({"archive": "first", "archive_id": 1}, (422, "restore_check.contradiction")),
        ({"paths": ["../etc/passwd"]}, (422, "engine.invalid_request")),
        ({"paths": [{"path_b64": "not base64!"}]}, (422, "engine.invalid_request")),
        ({"canary": {"path": "a/../b"}}, (422, "engine.invalid_request")),
        ({"archive_id": 999_999}, (404, "archives.not_found")),
    ],
)
def test_contradictory_and_invalid_requests_are_refused(
    body: dict[str, Any], expected: tuple[int, str], unchanged: Made
) -> None:
    before = unchanged.operations()

    assert error_of(unchanged.admin.post(f"{unchanged.url}/restore-check", json=body)) == expected
    assert unchanged.operations() == before


@pytest.mark.parametrize(
    "body", [{"sample": 0}, {"sample": 1001}, {"paths": []}, {"canary": {"path": "a", "sha256": "1"}}]
)
def test_values_of_the_wrong_type_or_out_of_range_are_refused_with_422(body: dict[str, Any], unchanged: Made) -> None:
    assert unchanged.admin.post(f"{unchanged.url}/restore-check", json=body).status_code == 422
