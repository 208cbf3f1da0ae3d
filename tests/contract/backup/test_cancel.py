"""POST /api/backup/cancel/{job_id}"""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.contract.backup.jobs import status_of
from tests.contract.fields import CANCEL, error_of, is_timestamp
from tests.contract.stores import both_stores
from tests.support.processes import children_of, processes_naming
from tests.support.running import Running
from tests.support.service import wait_until


@both_stores
def test_a_pending_backup_is_cancelled_immediately_and_never_runs(running: Running) -> None:
    repository = running.scratch
    with running.held_backup(repository) as (holder, _gate):
        waiting = running.admin.start_backup(repository)

        answer = running.admin.post(f"/api/backup/cancel/{waiting}")

        assert answer.status_code == 200
        assert set(answer.json()) == CANCEL
        assert (answer.json()["id"], answer.json()["status"]) == (waiting, "cancelled")
        assert answer.json()["cancel_requested"] is True
        status = status_of(running, waiting)
        assert (status["status"], status["started_at"], status["queue_position"]) == ("cancelled", None, None)
        assert is_timestamp(status["completed_at"])
        assert status_of(running, holder)["status"] == "running"
    again = running.admin.post(f"/api/backup/cancel/{waiting}")
    assert error_of(again) == (409, "operations.already_finished")
    assert again.json()["detail"]["params"]["status"] == "cancelled"


@both_stores
def test_a_running_backup_is_cancelled_once_its_engine_is_gone(running: Running) -> None:
    repository = running.new_repository()
    with running.held_backup(repository) as (job_id, gate):
        assert processes_naming(str(gate.path))
        operator = running.client_with_right(repository, "operator")

        answer = operator.post(f"/api/backup/cancel/{job_id}").json()
        left = processes_naming(str(gate.path))

        assert (answer["status"], answer["cancel_requested"]) == ("cancelled", True)
        assert left == {}
    status = status_of(running, job_id)
    assert (status["status"], status["error_key"]) == ("cancelled", None)
    assert running.outside.archives(repository["path"]) == {}
    assert running.admin.wait_for_end(running.admin.start_backup(repository))["status"] == "completed"


def test_a_cancelled_backup_stays_running_while_its_engine_is_alive(running: Running) -> None:
    """A stopped process does not handle the signal to end, so the engine is still alive when the response arrives."""
    with running.held_backup(running.new_repository()) as (job_id, gate):
        engine = engine_of(str(gate.path))
        with stopped(engine):
            answer = running.admin.post(f"/api/backup/cancel/{job_id}").json()

            assert (answer["status"], answer["cancel_requested"]) == ("running", True)
            status = status_of(running, job_id)
            assert (status["status"], status["cancel_requested"], status["completed_at"]) == ("running", True, None)
            assert str(gate.path) in processes_naming(str(gate.path))[engine]
        running.admin.wait_for_end(job_id)
        assert status_of(running, job_id)["status"] == "cancelled"
        assert processes_naming(str(gate.path)) == {}


def test_a_backup_that_finished_before_the_cancel_reached_it_is_completed(running: Running) -> None:
    """The service does not know yet that the engine has ended, because the engine's parent is stopped."""
    repository = running.new_repository()
    with running.held_backup(repository) as (job_id, gate), ThreadPoolExecutor(1) as request:
        engine = engine_of(str(gate.path))
        with stopped(parent_of(engine)):
            gate.open()
            wait_until(lambda: has_ended(engine), what="the engine ends")
            answer = request.submit(running.admin.post, f"/api/backup/cancel/{job_id}")
            wait_until(lambda: status_of(running, job_id)["cancel_requested"], what="the cancel is recorded")
        said = answer.result().json()
        running.admin.wait_for_end(job_id)

    assert said["status"] in ("completed", "running")
    assert status_of(running, job_id)["status"] == "completed"
    assert list(running.outside.archives(repository["path"])) == [status_of(running, job_id)["archive_name"]]


def test_a_finished_backup_cannot_be_cancelled(running: Running) -> None:
    _, jobs = running.several

    for status, job_id in jobs.items():
        answer = running.admin.post(f"/api/backup/cancel/{job_id}")
        assert error_of(answer) == (409, "operations.already_finished")
        assert status_of(running, job_id)["status"] == status


def engine_of(path: str) -> int:
    """The engine with this path among its arguments: the one process with it whose children do not have it."""
    found = processes_naming(path)
    (engine,) = [pid for pid in found if not any(child in found for child in children_of(pid))]
    return engine


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
