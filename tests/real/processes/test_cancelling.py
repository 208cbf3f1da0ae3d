"""A backup is cancelled once its engine has stopped, and completed if its archive was created before that."""

import time

import pytest

from holdfast.operations import transitions
from holdfast.operations.models import Operation
from holdfast.storage.session import Database
from tests.real.processes.paced_backups import GRACE_SECONDS, completed_with_one_start, is_there, key_of
from tests.support.installation import Installation
from tests.support.service import ServiceProcess, wait_until


def test_a_pending_backup_is_cancelled_immediately(embedded: Installation, service: ServiceProcess) -> None:
    holder = embedded.start_backup(service, "held")
    run = embedded.wait_for_lines(holder)
    waiting = embedded.start_backup(service, "quick")
    with embedded.client(service) as client:
        answer = client.post(f"/api/operations/{waiting}/cancel").json()
        assert answer["status"] == "cancelled"
        assert client.operation(holder)["status"] == "running"
        with embedded.engine.let_go():
            assert client.wait_for_end(holder)["status"] == "completed"
        assert client.operation(waiting)["status"] == "cancelled"
    assert embedded.engine.runs()[-1].id == run


def test_a_running_backup_is_cancelled_only_after_its_engine_has_stopped(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "held")
    run = embedded.wait_for_lines(operation_id)
    engine = embedded.engine_pid(operation_id)

    ended = cancel(embedded, service, operation_id)

    assert ended["status"] == "cancelled"
    assert not is_there(engine)
    assert embedded.archives_with(key_of(embedded, run)) == 0


def test_a_backup_cancelled_while_the_engine_works_is_recorded_as_the_repository_shows(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "quick")
    run = embedded.wait_for_lines(operation_id, 3)
    wait_until(lambda: run in embedded.engine.became_engine(), pause=0.001, what="the engine itself runs")
    engine = embedded.engine_pid(operation_id)

    ended = cancel(embedded, service, operation_id)

    assert not is_there(engine)
    # The engine may have been quicker than the signal: the record and the repository must agree.
    assert (ended["status"] == "completed") == (embedded.archives_with(key_of(embedded, run)) == 1)
    assert ended["status"] in ("completed", "cancelled")


def test_a_backup_cancelled_after_its_archive_was_created_is_completed(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "made")
    run = embedded.wait_for_lines(operation_id)
    wait_until(lambda: run in embedded.engine.made(), pause=0.01, what="the archive is made")

    ended = cancel(embedded, service, operation_id)

    assert ended["status"] == "completed"
    assert embedded.archives_with(key_of(embedded, run)) == 1


def test_an_engine_that_ignores_the_request_to_stop_is_killed_after_the_grace_period(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "deaf")
    run = embedded.wait_for_lines(operation_id)
    engine = embedded.engine_pid(operation_id)

    begin = time.monotonic()
    ended = cancel(embedded, service, operation_id)

    assert time.monotonic() - begin >= GRACE_SECONDS
    assert ended["status"] == "cancelled"
    assert not is_there(engine)
    assert embedded.archives_with(key_of(embedded, run)) == 0


@pytest.mark.campaign
def test_a_cancel_requested_while_the_service_was_down_is_carried_out(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "deaf")
    run = embedded.wait_for_lines(operation_id)
    service.kill()

    ask_the_store_to_cancel(embedded, operation_id)
    service.restart()

    with embedded.client(service) as client:
        assert client.wait_for_end(operation_id)["status"] == "cancelled"
    assert embedded.archives_with(key_of(embedded, run)) == 0


def test_a_backup_that_finished_before_its_cancel_arrived_is_completed(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "around")
    run = embedded.wait_for_lines(operation_id)
    service.kill()
    wait_until(lambda: not embedded.processes_of(operation_id), what="shim and engine have ended")

    ask_the_store_to_cancel(embedded, operation_id)
    service.restart()

    completed_with_one_start(embedded, service, operation_id, run)
    with embedded.client(service) as client:
        refused = client.post(f"/api/operations/{operation_id}/cancel")
    assert (refused.status_code, refused.json()["detail"]["key"]) == (409, "operations.already_finished")


def cancel(installation: Installation, service: ServiceProcess, operation_id: int) -> dict[str, object]:
    with installation.client(service) as client:
        answer = client.post(f"/api/operations/{operation_id}/cancel")
        assert answer.status_code == 200, answer.text
        return client.wait_for_end(operation_id)


def ask_the_store_to_cancel(installation: Installation, operation_id: int) -> None:
    database = Database(f"sqlite:///{installation.data_dir / 'holdfast.db'}")
    try:
        with database.writing() as session:
            transitions.request_cancel(session, operation_id)
            asked = session.get(Operation, operation_id)
            assert asked is not None
            assert asked.status == "running"
    finally:
        database.dispose()
