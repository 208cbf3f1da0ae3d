"""GET /api/backup/status/{job_id} while a backup waits and runs"""

import itertools
import os
from pathlib import Path

from tests.contract.backup.jobs import status_of
from tests.contract.fields import BACKUP_STATUS, MORE_BACKUP_STATUS, PROGRESS_DETAILS, is_timestamp
from tests.contract.stores import both_stores
from tests.support.gate import FLAG
from tests.support.running import Running
from tests.support.service import wait_until


def test_a_running_backup_reports_its_progress(running: Running) -> None:
    repository = running.scratch

    with running.held_backup_with_progress(repository) as job_id:
        status = wait_until(
            lambda: found if (found := status_of(running, job_id))["progress_details"]["nfiles"] else None,
            what="progress is reported",
        )
        assert set(status) == BACKUP_STATUS | MORE_BACKUP_STATUS
        assert (status["status"], status["completed_at"], status["queue_position"]) == ("running", None, None)
        assert is_timestamp(status["started_at"])
        assert set(status["progress_details"]) == PROGRESS_DETAILS
        assert status["progress"] == (status["progress_details"]["progress_percent"] or 0) < 100
        assert status["progress_details"]["nfiles"] >= 3
        assert status["progress_details"]["original_size"] > 0
        assert status["progress_details"]["current_file"]
        assert running.admin.get(f"/api/repositories/{repository['id']}").json()["running_operation"]["id"] == job_id


def test_a_backup_larger_than_the_last_one_shows_no_percentage(running: Running) -> None:
    repository = running.new_repository(custom_flags=[FLAG])
    running.admin.wait_for_end(running.admin.start_backup(repository))
    source = Path(repository["source_paths"][0])
    (source / "grown").write_bytes(os.urandom(100_000))

    with running.held_backup_with_progress(repository) as job_id:
        status = wait_until(
            lambda: found if (found := status_of(running, job_id))["progress_details"]["more_than_expected"] else None,
            what="more was read than before",
        )
        operation = running.admin.operation(job_id)

    assert (status["progress"], status["progress_details"]["progress_percent"]) == (0, None)
    assert status["progress_details"]["estimated_time_remaining"] is None
    assert operation["progress_percent"] is None
    ended = status_of(running, job_id)
    assert (ended["progress"], ended["progress_details"]["progress_percent"]) == (100, 100)


def test_missing_sources_are_listed_in_errors_and_warnings(running: Running) -> None:
    repository = running.new_repository()
    missing = [str(running.new_path("missing")) for _ in range(12)]

    failed = running.admin.start_backup(repository, source_paths=missing)
    running.admin.wait_for_end(failed)
    some = running.admin.start_backup(repository, source_paths=[*repository["source_paths"], *missing[:2]])
    running.admin.wait_for_end(some)

    status = status_of(running, failed)
    assert (status["status"], status["error_key"]) == ("failed", "engine.source_missing")
    assert status["error_params"] == {"missing": missing[:10], "count": 12}
    assert [warning["path"] for warning in status["warnings"]] == missing[:10]
    assert missing[0] in status["error_message"]
    warned = status_of(running, some)
    assert (warned["status"], warned["error_params"]) == ("completed_with_warnings", None)
    assert {warning["path"] for warning in warned["warnings"]} == set(missing[:2])


@both_stores
def test_two_backups_of_one_repository_run_one_after_the_other(running: Running) -> None:
    repository = running.new_repository()
    with running.held_backup(repository) as (first, _gate):
        second, third = (running.admin.start_backup(repository) for _ in range(2))

        waiting = [status_of(running, job_id) for job_id in (second, third)]

        assert [status["status"] for status in waiting] == ["pending", "pending"]
        assert [status["queued_reason"] for status in waiting] == ["repository_busy"] * 2
        assert [status["queued_behind_id"] for status in waiting] == [first, first]
        assert waiting[0]["queue_position"] < waiting[1]["queue_position"]
        assert [status["started_at"] for status in waiting] == [None, None]
        assert [status["progress"] for status in waiting] == [0, 0]
        assert [status["logs"] for status in waiting] == [None, None]
        item = running.admin.operation(second)
        assert (item["queued_reason"], item["queued_behind_id"]) == ("repository_busy", first)
    ended = [running.admin.wait_for_end(job_id) for job_id in (first, second, third)]

    assert [operation["status"] for operation in ended] == ["completed"] * 3
    for before, after in itertools.pairwise(ended):
        assert before["completed_at"] <= after["started_at"]
    assert len({operation["archive_name"] for operation in ended}) == 3
    assert len(running.outside.archives(repository["path"])) == 3


def test_two_repositories_are_backed_up_in_parallel(running: Running) -> None:
    one, other = running.scratch, running.new_repository()

    with running.held_backup(one) as (first, _), running.held_backup(other) as (second, _):
        assert [status_of(running, job_id)["status"] for job_id in (first, second)] == ["running", "running"]
        assert [status_of(running, job_id)["queued_reason"] for job_id in (first, second)] == [None, None]
