"""The service goes, the engine stays: what a killed or stopped service finds when it is back."""

import contextlib
import json
import os
import signal
import threading
import time
from datetime import datetime

import pytest

from tests.real.processes.paced_backups import completed_with_one_start, is_there, key_of
from tests.support.installation import Installation
from tests.support.processes import processes_naming
from tests.support.service import PATIENCE, ServiceProcess, wait_until


def test_a_backup_continues_when_the_service_is_killed_and_is_found_again(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "held")
    run = embedded.wait_for_lines(operation_id)
    engine = embedded.engine_pid(operation_id)

    service.kill()
    assert is_there(engine)
    service.restart()

    assert is_there(engine)
    assert embedded.engine_pid(operation_id) == engine
    completed_with_one_start(embedded, service, operation_id, run)


@pytest.mark.campaign
def test_a_stopped_service_leaves_its_engine_running_and_completes_the_record_on_its_next_start(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "held")
    run = embedded.wait_for_lines(operation_id)
    engine = embedded.engine_pid(operation_id)

    assert service.stop() == 0
    assert is_there(engine)
    service.restart()

    completed_with_one_start(embedded, service, operation_id, run)


def test_a_backup_that_finished_while_the_service_was_down_is_recorded_with_its_real_end_time(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "around")
    run = embedded.wait_for_lines(operation_id)

    service.kill()
    wait_until(lambda: not embedded.processes_of(operation_id), what="shim and engine have ended")
    (record,) = embedded.spools.glob(f"{operation_id}/*/create/exit.json")
    engine_ended = json.loads(record.read_bytes())["finished_at"]
    restarted = time.time()
    service.restart()

    completed_with_one_start(embedded, service, operation_id, run)
    client = embedded.client(service)
    ended = client.operation(operation_id)
    repository = client.get(f"/api/repositories/{ended['repository_id']}").json()
    for moment in (ended["completed_at"], repository["last_backup"]):
        assert datetime.fromisoformat(moment).timestamp() == pytest.approx(engine_ended, abs=0.001)
    assert ended["duration_seconds"] < restarted - datetime.fromisoformat(ended["started_at"]).timestamp()


def test_an_archive_created_before_shim_and_service_were_killed_is_found_in_the_repository(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "made")
    run = embedded.wait_for_lines(operation_id)
    wait_until(lambda: run in embedded.engine.made(), pause=0.01, what="the archive is made")

    service.kill()
    for pid in embedded.processes_of(operation_id):
        os.kill(pid, signal.SIGKILL)
    os.killpg(embedded.engine_pid(operation_id), signal.SIGKILL)
    service.restart()

    completed_with_one_start(embedded, service, operation_id, run)


def test_a_backup_whose_engine_was_killed_is_retried(embedded: Installation, service: ServiceProcess) -> None:
    operation_id = embedded.start_backup(service, "held")
    run = embedded.wait_for_lines(operation_id)

    os.kill(embedded.engine_pid(operation_id), signal.SIGKILL)

    with embedded.engine.let_go(), embedded.client(service) as client:
        ended = client.wait_for_end(operation_id)
    assert (ended["status"], ended["attempt"]) == ("completed", 2)
    assert len(embedded.engine.starts_of(key_of(embedded, run))) == 2
    assert embedded.archives_with(key_of(embedded, run)) == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.campaign)])
def test_the_engine_of_an_inline_call_keeps_its_repository_locked_when_the_service_goes(
    embedded: Installation, service: ServiceProcess, how: signal.Signals
) -> None:
    with embedded.engine.slowly("key", 6):
        asking = threading.Thread(target=ask_for_key, args=(embedded, service))
        asking.start()
        wait_until(lambda: processes_naming("key export"), what="the engine exports the key")
        assert service.process is not None
        service.process.send_signal(how)
        service.process.wait(PATIENCE)
        asking.join(PATIENCE)
        assert processes_naming(f"{embedded.spools}/"), "the engine of the request is still there"

        service.restart()
        operation_id = embedded.start_backup(service, "quick")

        with embedded.client(service) as client:
            assert client.wait_for_end(operation_id)["status"] == "completed"
    assert not embedded.engine.overlaps()
    wait_until(lambda: not list(embedded.spools.iterdir()), what="no spool is left")


def ask_for_key(installation: Installation, service: ServiceProcess) -> None:
    with contextlib.suppress(Exception), installation.client(service) as client:
        client.get(f"/api/repositories/{installation.repository['id']}/key")
