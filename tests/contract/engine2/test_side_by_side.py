"""Engine 2 lets backups and readers share a repository; an operation that removes something locks it exclusively."""

import pytest

from tests.contract.engine2.world import live, new_repository, run
from tests.support.running import Running
from tests.support.service import Client


def test_two_backups_and_a_reader_run_concurrently_and_a_check_waits_for_both(running: Running, admin: Client) -> None:
    repository = new_repository(running)
    with running.held_backup(repository) as (first, _), running.held_backup(repository) as (second, _):
        assert [admin.operation(job)["status"] for job in (first, second)] == ["running", "running"]
        assert live(running, repository) == {}, "asked while both backups hold the repository"
        answer = admin.post(f"/api/repositories/{repository['id']}/check")
        waiting = admin.operation(answer.json()["job_id"])
        assert (waiting["status"], waiting["queued_reason"]) == ("pending", "repository_busy")
        assert waiting["queued_behind_id"] in {first, second}
        refused = admin.post(f"/api/repositories/{repository['id']}/break-lock")
        assert refused.status_code == 409, refused.text

    assert admin.wait_for_end(waiting["id"])["status"] == "completed"
    assert [admin.operation(job)["status"] for job in (first, second)] == ["completed", "completed"]
    assert len(live(running, repository)) == 2


@pytest.mark.campaign
def test_a_cancelled_backup_leaves_no_archive_and_no_lock(running: Running, admin: Client) -> None:
    repository = new_repository(running)
    with running.held_backup(repository) as (job, _):
        assert admin.post(f"/api/operations/{job}/cancel").status_code == 200
        ended = admin.wait_for_end(job)

    assert (ended["status"], ended["archive_name"]) == ("cancelled", None)
    assert live(running, repository) == {}
    assert run(running, repository, "compact")["status"] == "completed", "it wants the repository alone"
