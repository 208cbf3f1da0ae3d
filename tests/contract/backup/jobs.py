"""Helpers for the tests of the manual backup routes."""

from typing import Any

from tests.support.running import Running

NOBODY = 999_999
# Each route of manual backups, for an existing job.
ROUTES: list[tuple[str, str]] = [
    ("POST", "/api/backup/start"),
    ("POST", "/api/backup/run"),
    ("GET", "/api/backup/jobs"),
    ("GET", "/api/backup/status/{job}"),
    ("GET", "/api/backup/logs/{job}/stream"),
    ("GET", "/api/backup/logs/{job}/download"),
    ("POST", "/api/backup/cancel/{job}"),
    ("POST", "/api/backup/jobs/{job}/retry"),
]
JOB_ROUTES = [route for route in ROUTES if "{job}" in route[1]]


def status_of(running: Running, job_id: int) -> dict[str, Any]:
    answer = running.admin.get(f"/api/backup/status/{job_id}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def stream_of(running: Running, job_id: int, **params: int) -> dict[str, Any]:
    answer = running.admin.get(f"/api/backup/logs/{job_id}/stream", params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def missing_backup(running: Running, repository: dict[str, Any]) -> int:
    """Run a backup that fails before the engine starts, and return its id."""
    job_id = running.admin.start_backup(repository, source_paths=[str(running.new_path("missing"))])
    running.admin.wait_for_end(job_id)
    return job_id


def traces(running: Running) -> tuple[Any, ...]:
    """The state that a refused request must leave unchanged, read once the service is idle."""
    _ = running.known  # created now, unless an earlier test has used it
    running.wait_until_idle()
    admin = running.admin
    operations = admin.get("/api/operations/", params={"limit": 500}).json()["items"]
    repositories = admin.get("/api/repositories/").json()["repositories"]
    return [(item["id"], item["status"]) for item in operations], repositories
