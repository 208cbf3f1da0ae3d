"""The service is killed while engine 2 runs a backup: the backup is recorded once, with its real outcome."""

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from tests.contract.archives.world import get
from tests.support.engines import ENGINE_2
from tests.support.processes import processes_naming
from tests.support.running import Running, Services
from tests.support.service import wait_until

pytestmark = pytest.mark.skipif(ENGINE_2 is None, reason="`tools/setup.sh test` builds engine 2")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    services = Services(tmp_path_factory.mktemp("kills-2"))
    try:
        running = services.new()
        yield running
    finally:
        services.stop()


def archives(running: Running, repository: dict[str, int]) -> list[str]:
    """The comments of the archives that the engine lists."""
    found = get(running.admin, f"/api/repositories/{repository['id']}/archives/live")["archives"]
    return [archive["comment"] for archive in found]


def kill_engine(running: Running, job: int, repository: str) -> None:
    """Kill the shim first and then the engine, so that no exit record is written."""
    for text in (f"{running.process.data_dir}/spool/{job}/", repository):
        for pid in processes_naming(text):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes_naming(repository), what="the engine is gone")


def test_a_backup_that_continues_without_the_service_is_picked_up_and_recorded_once(running: Running) -> None:
    repository = running.new_repository(engine_version=2)
    gate = running.gate()
    job = running.admin.start_backup(repository, source_paths=[*repository["source_paths"], str(gate.path)])
    gate.wait_until_reached()

    running.process.kill()
    gate.open()
    running.process.restart()

    ended = running.admin.wait_for_end(job)
    assert (ended["status"], ended["attempt"]) == ("completed", 1), running.admin.log_lines(job)
    assert len(archives(running, repository)) == 1


@pytest.mark.campaign
def test_a_backup_whose_engine_dies_with_the_service_is_repeated_and_exists_once(running: Running) -> None:
    repository = running.new_repository(engine_version=2)
    gate = running.gate()
    job = running.admin.start_backup(repository, source_paths=[*repository["source_paths"], str(gate.path)])
    gate.wait_until_reached()

    running.process.kill()
    kill_engine(running, job, repository["path"])
    gate.forget()
    running.process.restart()
    gate.wait_until_reached()
    gate.open()

    ended = running.admin.wait_for_end(job)
    assert (ended["status"], ended["attempt"]) == ("completed", 2), running.admin.log_lines(job)
    assert len(archives(running, repository)) == 1, "and the lock that the dead engine left was no hindrance"
