"""Deletions of archives over HTTP."""

from typing import Any

import pytest

from tests.contract.fields import JOB_START, error_of
from tests.contract.maintenance.jobs import STATUS, Made
from tests.support.archive_sets import OwnEngine
from tests.support.running import Running
from tests.support.service import Client, wait_until


def delete_by_name(made: Made, name: str, **options: Any) -> Any:
    params = {"repository": made.repository["path"]}
    return made.admin.delete(f"/api/archives/{name}", params=params, **options)


def test_an_archive_is_deleted_by_name(archived: Made) -> None:
    answer = delete_by_name(archived, "second")
    assert answer.status_code == 200
    assert set(answer.json()) == JOB_START
    assert answer.json()["status"] == "pending"

    job = archived.end_of("delete", answer.json()["job_id"])

    assert set(job) >= STATUS
    assert (job["status"], job["archive_name"]) == ("completed", "second")
    assert job["result"]["archive"]["name"] == "second"
    assert archived.names() == {"first", "third"}
    listed = archived.admin.get(f"{archived.url}/delete-jobs").json()["jobs"]
    assert [entry["id"] for entry in listed] == [job["id"]]


def test_deleting_a_missing_archive_fails_and_deletes_nothing_else(archived: Made) -> None:
    job = archived.end_of("delete", delete_by_name(archived, "fourth").json()["job_id"])

    assert (job["status"], job["error_key"]) == ("failed", "archives.not_found")
    assert "no longer" not in job["error_message"]
    assert archived.names() == {"first", "second", "third"}


def indexed(running: Running) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A repository with two archives in the index and no work left to do."""
    admin = running.admin
    repository = running.new_repository()
    admin.put(f"/api/repositories/{repository['id']}", json={"index_mode": "archives"})
    for _ in range(2):
        assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"
    place = f"/api/repositories/{repository['id']}/archives"
    archives = wait_until(
        lambda: found if len(found := admin.get(place).json()["archives"]) == 2 else None, 120, what="two archives"
    )
    work = {"repository_id": repository["id"], "status": ["pending", "running"]}
    wait_until(lambda: not admin.get("/api/operations/", params=work).json()["items"], what="the index is at rest")
    return repository, archives


def ended(admin: Client, job_id: int) -> dict[str, Any]:
    admin.wait_for_end(job_id)
    found: dict[str, Any] = admin.get(f"/api/archives/delete-jobs/{job_id}").json()
    return found


def test_an_archive_is_deleted_by_id_together_with_its_row(running: Running) -> None:
    admin = running.admin
    repository, archives = indexed(running)
    gone, kept = archives

    job = ended(admin, admin.delete(f"/api/archives/{gone['id']}").json()["job_id"])

    assert job["status"] == "completed"
    assert job["result"]["archive"]["id"] == gone["engine_id"]
    assert error_of(admin.delete(f"/api/archives/{gone['id']}")) == (404, "archives.not_found")
    place = f"/api/repositories/{repository['id']}"
    assert [row["id"] for row in admin.get(f"{place}/archives").json()["archives"]] == [kept["id"]]
    assert admin.get(place).json()["archive_count"] == 1
    detail = admin.operation(job["id"])
    assert {followup["kind"] for followup in detail["followups"]} >= {"archives"}
    for followup in detail["followups"]:
        admin.wait_for_end(followup["id"])


def test_deleting_by_id_spares_another_archive_of_the_same_name(running: Running) -> None:
    admin = running.admin
    repository, archives = indexed(running)
    meant = archives[0]
    source = repository["source_paths"][0]
    engine = OwnEngine.of(running)
    engine.run("delete", f"{repository['path']}::{meant['name']}")
    engine.run("create", f"{repository['path']}::{meant['name']}", source)
    before = engine.archives(repository)

    job = ended(admin, admin.delete(f"/api/archives/{meant['id']}").json()["job_id"])

    assert (job["status"], job["error_key"]) == ("failed", "archives.gone")
    assert engine.archives(repository) == before


@pytest.mark.parametrize(
    ("archive", "expected"),
    [
        ("999999", (404, "archives.not_found")),
        ("first", (422, "archives.bad_id")),
        ("-1", (422, "archives.bad_id")),
        ("99999999999999999999", (422, "archives.bad_id")),
    ],
)
def test_an_unknown_or_malformed_archive_id_is_refused(
    archive: str, expected: tuple[int, str], unchanged: Made
) -> None:
    before = unchanged.traces()

    assert error_of(unchanged.admin.delete(f"/api/archives/{archive}")) == expected
    assert unchanged.traces() == before


def test_a_user_without_rights_does_not_find_an_archive_and_a_viewer_may_not_delete_it(running: Running) -> None:
    repository, archives = indexed(running)
    place = f"/api/archives/{archives[0]['id']}"

    assert error_of(running.stranger.delete(place)) == (404, "archives.not_found")
    viewer = running.client_with_right(repository, "viewer")
    assert error_of(viewer.delete(place)) == (403, "access.forbidden")
