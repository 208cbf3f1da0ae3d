"""The service's processes killed, stopped and restarted around a real backup."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from holdfast.operations import runners, transitions
from holdfast.operations.models import Operation
from holdfast.storage.session import Database
from tests.support import networks
from tests.support.engines import ENGINES
from tests.support.installation import Installation
from tests.support.paced_engine import PacedEngine, lines_by_run
from tests.support.postgres import postgres_server
from tests.support.processes import children_of, command_line, processes_naming
from tests.support.service import PATIENCE, PROGRAM, ServiceProcess, wait_until

ENGINE = ENGINES[max(ENGINES)]
GRACE_SECONDS = 2


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One installation on SQLite for all tests of this file."""
    folder = tmp_path_factory.mktemp("embedded")
    environment = {"HOLDFAST_CANCEL_GRACE_SECONDS": str(GRACE_SECONDS)}
    installation = Installation(folder, PacedEngine(folder / "engine", ENGINE), environment=environment)
    with prepared(installation, "all"):
        yield installation


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One installation on PostgreSQL, in processes of different roles."""
    folder = tmp_path_factory.mktemp("split")
    with postgres_server().database() as url:
        installation = Installation(folder, PacedEngine(folder / "engine", ENGINE), database_url=url)
        with prepared(installation, "api"):
            yield installation


@contextlib.contextmanager
def prepared(installation: Installation, role: str) -> Iterator[None]:
    installation.main = installation.service(role)
    try:
        installation.prepare(installation.main.start())
        yield
    finally:
        installation.end_everything()


@pytest.fixture
def service(embedded: Installation) -> Iterator[ServiceProcess]:
    """The service of the embedded installation, up; a test may kill it and need not start it again."""
    yield embedded.up()
    assert not embedded.engine.overlaps()


@pytest.fixture
def api(split: Installation) -> Iterator[ServiceProcess]:
    yield split.up()
    assert not split.engine.overlaps()


@contextlib.contextmanager
def runner_of(installation: Installation) -> Iterator[ServiceProcess]:
    runner = installation.service("runner").start()
    try:
        yield runner
    finally:
        assert runner.process is not None
        if runner.process.poll() is None:
            runner.stop()


def key_of(installation: Installation, run: str) -> str:
    return next(found.key for found in installation.engine.runs() if found.id == run)


def is_there(pid: int) -> bool:
    return bool(command_line(pid))


def completed_with_one_start(installation: Installation, service: ServiceProcess, operation_id: int, run: str) -> None:
    """The engine, let go, was started once and made one archive, and the log holds each of its lines once."""
    with installation.engine.let_go(), installation.client(service) as client:
        ended = client.wait_for_end(operation_id)
        log = client.log_lines(operation_id)
    key = key_of(installation, run)
    assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["error_message"]
    assert installation.engine.starts_of(key) == [run]
    assert installation.archives_with(key) == 1
    assert lines_by_run(log) == {run: list(range(1, installation.engine.said(run) + 1))}


# --- the service goes, the engine stays -----------------------------------------------------------------------------


def test_a_backup_goes_on_when_the_service_is_killed_and_is_found_again(
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
def test_a_stopped_service_leaves_its_engine_running_and_the_next_start_finishes_the_record(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "held")
    run = embedded.wait_for_lines(operation_id)
    engine = embedded.engine_pid(operation_id)

    assert service.stop() == 0
    assert is_there(engine)
    service.restart()

    completed_with_one_start(embedded, service, operation_id, run)


def test_a_backup_that_finished_while_nobody_watched_is_recorded_as_finished_when_its_engine_ended(
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


def test_an_archive_that_was_made_before_shim_and_service_were_killed_is_found_in_the_repository(
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


def test_a_backup_whose_engine_was_killed_is_tried_again(embedded: Installation, service: ServiceProcess) -> None:
    operation_id = embedded.start_backup(service, "held")
    run = embedded.wait_for_lines(operation_id)

    os.kill(embedded.engine_pid(operation_id), signal.SIGKILL)

    with embedded.engine.let_go(), embedded.client(service) as client:
        ended = client.wait_for_end(operation_id)
    assert (ended["status"], ended["attempt"]) == ("completed", 2)
    assert len(embedded.engine.starts_of(key_of(embedded, run))) == 2
    assert embedded.archives_with(key_of(embedded, run)) == 1


def test_a_service_that_is_told_to_stop_while_it_starts_stops(embedded: Installation, service: ServiceProcess) -> None:
    assert service.stop() == 0
    said = len(service.own_log())
    service.launch()
    wait_until(lambda: "listening" in service.own_log()[said:], pause=0.001, what="the service listens")

    assert service.stop() == 0


def test_a_second_service_on_the_same_folder_says_so_and_ends(embedded: Installation, service: ServiceProcess) -> None:
    second = subprocess.run(
        [PROGRAM, "serve", "--port", "0", "--data-dir", embedded.data_dir],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert second.returncode == 75
    assert len(second.stderr.splitlines()) == 1
    assert str(embedded.data_dir) in second.stderr
    assert second.stdout == ""


def test_a_full_disk_under_the_service_does_not_make_it_lie(tmp_path: Path) -> None:
    """Logs, spools and store on a disk that fills up while the engine runs; the repository is elsewhere."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    installation = Installation(tmp_path, PacedEngine(tmp_path / "engine", ENGINE))
    installation.data_dir.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", installation.data_dir], check=True)
    service = installation.service().start()
    try:
        installation.prepare(service)
        operation_id = installation.start_backup(service, "around")
        run = installation.wait_for_lines(operation_id)
        fill = installation.data_dir / "fill"
        with contextlib.suppress(OSError), fill.open("wb") as file:
            while True:
                file.write(b"\0" * 65536)
        wait_until(lambda: not installation.processes_of(operation_id), what="shim and engine have ended")
        fill.unlink()
        with installation.client(service) as client:
            ended = client.wait_for_end(operation_id)
        made = installation.archives_with(key_of(installation, run))
        assert (ended["status"] in ("completed", "completed_with_warnings")) == (made == 1), ended
        assert made <= 1
    finally:
        service.stop()
        installation.end_everything()
        subprocess.run(["umount", "--lazy", installation.data_dir], check=True)


def test_as_the_first_process_of_a_container_it_leaves_no_zombie_and_stops_when_told(tmp_path: Path) -> None:
    of_a_container = ("--pid", "--fork", "--kill-child", "--mount-proc")
    if reason := networks.why_not(*of_a_container):
        pytest.skip(reason)  # as in a chroot, where no namespace of mounts can be made
    installation = Installation(tmp_path, PacedEngine(tmp_path / "engine", ENGINE))
    service = installation.service()
    service.prefix = ("unshare", *of_a_container)
    service.start()
    try:
        installation.prepare(service)
        operation_id = installation.start_backup(service, "held")
        installation.wait_for_lines(operation_id)
        assert service.process is not None
        (first,) = children_of(service.process.pid)
        for shim in installation.processes_of(operation_id):
            os.kill(shim, signal.SIGKILL)

        def orphans() -> list[int]:
            return [pid for pid in children_of(first) if str(installation.engine.program) in command_line(pid)]

        wait_until(orphans, what="the engine outlives its shim")
        left = set(orphans())
        with installation.engine.let_go(), installation.client(service) as client:
            ended = client.wait_for_end(operation_id)
        assert ended["status"] == "completed", ended
        wait_until(lambda: not left & set(children_of(first)), what="the orphan was taken leave of")

        os.kill(first, signal.SIGTERM)
        assert service.process.wait(PATIENCE) == 0
    finally:
        service.kill()
        installation.end_everything()


# --- requests that ask the engine ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.campaign)])
def test_the_engine_of_a_request_keeps_its_repository_when_the_service_goes(
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


# --- several runners -------------------------------------------------------------------------------------------------


def test_two_runners_share_the_work_and_never_the_same_operation(split: Installation, api: ServiceProcess) -> None:
    with runner_of(split), runner_of(split), split.client(api) as client:
        repositories = [split.repository, *(second_repository(split, api, number) for number in (1, 2))]
        by_runner: set[str] = set()
        started: list[int] = []

        def share_some_work() -> bool:
            """One runner may be quick enough for all of a round."""
            source = [str(split.engine.source("exec"))]
            new = [client.start_backup(one, source_paths=source) for one in repositories for _ in range(2)]
            started.extend(new)
            while any(client.operation(number)["status"] in ("pending", "running") for number in new):
                by_runner.update(runners_at_work(split))
            return len(by_runner) == 2

        wait_until(share_some_work, what="both runners had work")
        ended = [client.operation(number) for number in started]

    assert [operation["status"] for operation in ended] == ["completed"] * len(started)
    starts = [run.key for run in split.engine.runs()][-len(started) :]
    assert len(set(starts)) == len(started)


def second_repository(split: Installation, api: ServiceProcess, number: int) -> dict[str, object]:
    with split.client(api) as client:
        return client.create_repository(split.folder / f"other-{number}", [split.engine.source("quick")])


def runners_at_work(split: Installation) -> set[str]:
    assert split.database_url is not None
    database = Database(split.database_url, pool_size=1)
    try:
        with database.reading() as session:
            return set(runners.running_by_runner(session))
    finally:
        database.dispose()


def test_what_a_killed_runner_left_is_taken_over_by_another_one(split: Installation, api: ServiceProcess) -> None:
    with runner_of(split) as first:
        operation_id = split.start_backup(api, "held")
        run = split.wait_for_lines(operation_id)
        engine = split.engine_pid(operation_id)
        with runner_of(split):
            first.kill()
            assert is_there(engine)

            completed_with_one_start(split, api, operation_id, run)


def test_a_process_that_only_answers_executes_nothing(split: Installation, api: ServiceProcess) -> None:
    with runner_of(split) as runner:
        operation_id = split.start_backup(api, "around")
        run = split.wait_for_lines(operation_id)
        runner.kill()
    wait_until(lambda: not split.processes_of(operation_id), what="shim and engine have ended")
    with split.client(api) as client:
        assert client.operation(operation_id)["status"] == "running"

    with runner_of(split):
        completed_with_one_start(split, api, operation_id, run)


def test_a_backup_outlives_a_store_that_is_away_for_a_while(split: Installation, api: ServiceProcess) -> None:
    with runner_of(split):
        operation_id = split.start_backup(api, "around")
        run = split.wait_for_lines(operation_id)
        with store_away(split):
            wait_until(lambda: not split.processes_of(operation_id), what="shim and engine have ended")

        completed_with_one_start(split, api, operation_id, run)


@contextlib.contextmanager
def store_away(split: Installation) -> Iterator[None]:
    """Refuse new connections to the store, and end those that there are."""
    assert split.database_url is not None
    url = make_url(split.database_url)
    host, name = str(url.query["host"]), url.database
    with psycopg.connect(host=host, user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        try:
            yield
        finally:
            connection.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS true')


# --- cancelling --------------------------------------------------------------------------------------------------------


def test_a_pending_backup_is_cancelled_at_once(embedded: Installation, service: ServiceProcess) -> None:
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


def test_a_backup_is_cancelled_when_its_engine_has_really_stopped(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "held")
    run = embedded.wait_for_lines(operation_id)
    engine = embedded.engine_pid(operation_id)

    ended = cancel(embedded, service, operation_id)

    assert ended["status"] == "cancelled"
    assert not is_there(engine)
    assert embedded.archives_with(key_of(embedded, run)) == 0


def test_a_backup_is_cancelled_while_the_engine_itself_works(embedded: Installation, service: ServiceProcess) -> None:
    operation_id = embedded.start_backup(service, "quick")
    run = embedded.wait_for_lines(operation_id, 3)
    wait_until(lambda: run in embedded.engine.became_engine(), pause=0.001, what="the engine itself runs")
    engine = embedded.engine_pid(operation_id)

    ended = cancel(embedded, service, operation_id)

    assert not is_there(engine)
    # It may have been quicker than the signal: what counts is that the record and the repository agree.
    assert (ended["status"] == "completed") == (embedded.archives_with(key_of(embedded, run)) == 1)
    assert ended["status"] in ("completed", "cancelled")


def test_a_backup_that_is_cancelled_after_its_archive_was_made_is_completed(
    embedded: Installation, service: ServiceProcess
) -> None:
    operation_id = embedded.start_backup(service, "made")
    run = embedded.wait_for_lines(operation_id)
    wait_until(lambda: run in embedded.engine.made(), pause=0.01, what="the archive is made")

    ended = cancel(embedded, service, operation_id)

    assert ended["status"] == "completed"
    assert embedded.archives_with(key_of(embedded, run)) == 1


def test_an_engine_that_does_not_heed_the_request_to_stop_is_killed_after_the_grace(
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
def test_a_cancel_that_was_asked_for_while_the_service_was_away_is_carried_out(
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


def test_a_backup_that_finished_before_the_cancel_reached_it_is_completed(
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
