"""GET /api/backup/jobs and POST /api/backup/jobs/{job_id}/retry"""

import pytest

from tests.contract.backup.jobs import missing_backup, status_of, traces
from tests.contract.fields import BACKUP_STATUS, JOB_START, MORE_BACKUP_STATUS, error_of
from tests.contract.stores import both_stores
from tests.support.running import Running


def test_jobs_are_listed_newest_first_with_the_fields_of_the_status(running: Running) -> None:
    repository, jobs = running.several

    answer = running.admin.get("/api/backup/jobs", params={"repository_id": repository["id"]})

    assert answer.status_code == 200
    assert set(answer.json()) == {"jobs", "next_cursor"}
    listed = answer.json()["jobs"]
    assert [job["id"] for job in listed] == sorted(jobs.values(), reverse=True)
    assert {job["status"]: job["id"] for job in listed} == jobs
    assert all(set(job) == BACKUP_STATUS | MORE_BACKUP_STATUS for job in listed)
    assert {job["repository"] for job in listed} == {repository["path"]}
    assert {job["logs"] for job in listed} == {None}, "a list does not read logs"
    assert answer.json()["next_cursor"] is None


@both_stores
def test_pages_continue_where_the_last_one_ended_even_if_new_jobs_arrive(running: Running) -> None:
    repository = running.new_repository()
    old = [missing_backup(running, repository) for _ in range(3)]

    def page(**params: object) -> tuple[list[int], str | None]:
        answer = running.admin.get("/api/backup/jobs", params={"repository_id": repository["id"], **params})
        return [job["id"] for job in answer.json()["jobs"]], answer.json()["next_cursor"]

    first, cursor = page(limit=2)
    missing_backup(running, repository)
    second, end = page(limit=2, cursor=cursor)

    assert (first, second, end) == ([old[2], old[1]], [old[0]], None)


def test_only_jobs_of_visible_repositories_are_listed(running: Running) -> None:
    repository, jobs = running.several
    viewer = running.client_with_right(repository, "viewer")
    known = running.known.repository["id"]

    assert {job["id"] for job in viewer.get("/api/backup/jobs").json()["jobs"]} == set(jobs.values())
    assert viewer.get("/api/backup/jobs", params={"repository_id": known}).json()["jobs"] == []
    assert running.stranger.get("/api/backup/jobs").json() == {"jobs": [], "next_cursor": None}


@pytest.mark.parametrize("params", [{"limit": 0}, {"limit": 501}, {"limit": "x"}, {"repository_id": "x"}])
def test_invalid_list_parameters_are_refused_with_422(running: Running, params: dict[str, object]) -> None:
    assert running.admin.get("/api/backup/jobs", params=params).status_code == 422


@pytest.mark.parametrize("cursor", ["x", "bm90IGpzb24", "WzEsMl0", "WyJhIl0"])
def test_an_invalid_cursor_is_refused(running: Running, cursor: str) -> None:
    answer = running.admin.get("/api/backup/jobs", params={"cursor": cursor})

    assert error_of(answer) == (422, "paging.bad_cursor")


def test_failed_and_cancelled_backups_can_be_retried(running: Running) -> None:
    _repository, jobs = running.several

    for ended in ("failed", "cancelled"):
        answer = running.admin.post(f"/api/backup/jobs/{jobs[ended]}/retry")

        assert answer.status_code == 200
        assert set(answer.json()) == JOB_START | {"retry_of"}
        assert (answer.json()["status"], answer.json()["retry_of"]) == ("pending", jobs[ended])
        running.admin.wait_for_end(answer.json()["job_id"])
        retried = status_of(running, answer.json()["job_id"])
        assert (retried["retry_of"], retried["trigger"], retried["attempt"]) == (jobs[ended], "retry", 1)
        assert retried["run_id"] == status_of(running, jobs[ended])["run_id"]
        operation, first = running.admin.operation(retried["id"]), running.admin.operation(jobs[ended])
        assert operation["params"] == first["params"], "it is asked for the same again"
        running.admin.delete(f"/api/activity/backup/{retried['id']}")


@pytest.mark.parametrize("ended", ["completed", "completed_with_warnings"])
def test_a_successful_backup_cannot_be_retried(running: Running, ended: str) -> None:
    _, jobs = running.several
    before = traces(running)

    answer = running.admin.post(f"/api/backup/jobs/{jobs[ended]}/retry")

    assert error_of(answer) == (409, "operations.not_retryable")
    assert traces(running) == before


def test_an_unfinished_backup_cannot_be_retried(running: Running) -> None:
    with running.held_backup(running.scratch) as (job_id, _gate):
        answer = running.admin.post(f"/api/backup/jobs/{job_id}/retry")

        assert error_of(answer) == (409, "operations.still_active")


def test_a_retry_repeated_with_its_idempotency_key_starts_one_backup(running: Running) -> None:
    failed = missing_backup(running, running.scratch)
    headers = {"Idempotency-Key": running.new_name("key")}

    first, again = (running.admin.post(f"/api/backup/jobs/{failed}/retry", headers=headers) for _ in range(2))

    assert first.json() == again.json()
    running.admin.wait_for_end(first.json()["job_id"])
