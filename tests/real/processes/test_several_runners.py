"""Several processes of different roles on one store: they share the work and take over from a killed one."""

import contextlib
from collections.abc import Iterator

import psycopg
from sqlalchemy import make_url

from holdfast.operations import runners
from holdfast.storage.session import Database
from tests.real.processes.paced_backups import completed_with_one_start, is_there
from tests.support.installation import Installation
from tests.support.service import ServiceProcess, wait_until


@contextlib.contextmanager
def runner_of(installation: Installation) -> Iterator[ServiceProcess]:
    runner = installation.service("runner").start()
    try:
        yield runner
    finally:
        assert runner.process is not None
        if runner.process.poll() is None:
            runner.stop()


def test_two_runners_share_the_work_but_never_an_operation(split: Installation, api: ServiceProcess) -> None:
    with runner_of(split), runner_of(split), split.client(api) as client:
        repositories = [split.repository, *(second_repository(split, api, number) for number in (1, 2))]
        by_runner: set[str] = set()
        started: list[int] = []

        def share_some_work() -> bool:
            """A single runner may be quick enough for all the work of a round."""
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


def test_the_work_of_a_killed_runner_is_taken_over_by_another_runner(split: Installation, api: ServiceProcess) -> None:
    with runner_of(split) as first:
        operation_id = split.start_backup(api, "held")
        run = split.wait_for_lines(operation_id)
        engine = split.engine_pid(operation_id)
        with runner_of(split):
            first.kill()
            assert is_there(engine)

            completed_with_one_start(split, api, operation_id, run)


def test_an_api_process_executes_no_operations(split: Installation, api: ServiceProcess) -> None:
    with runner_of(split) as runner:
        operation_id = split.start_backup(api, "around")
        run = split.wait_for_lines(operation_id)
        runner.kill()
    wait_until(lambda: not split.processes_of(operation_id), what="shim and engine have ended")
    with split.client(api) as client:
        assert client.operation(operation_id)["status"] == "running"

    with runner_of(split):
        completed_with_one_start(split, api, operation_id, run)


def test_a_backup_survives_a_temporary_outage_of_the_store(split: Installation, api: ServiceProcess) -> None:
    with runner_of(split):
        operation_id = split.start_backup(api, "around")
        run = split.wait_for_lines(operation_id)
        with store_away(split):
            wait_until(lambda: not split.processes_of(operation_id), what="shim and engine have ended")

        completed_with_one_start(split, api, operation_id, run)


@contextlib.contextmanager
def store_away(split: Installation) -> Iterator[None]:
    """Refuse new connections to the store, and terminate the existing ones."""
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
