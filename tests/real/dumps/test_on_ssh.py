"""Dumps on an ssh machine: complete, despite kills of either side, with passwords that are never stored on its disk."""

import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.real.dumps.world import (
    PausedProgram,
    add_database,
    archives,
    extracted,
    new_sqlite,
    rows_of,
    start_dump,
)
from tests.support.engines import ENGINES
from tests.support.postgres import postgres_server, server_programs
from tests.support.running import Running, Services
from tests.support.service import wait_until
from tests.support.sshd import Sshd, sshd
from tests.support.trees import files_with
from tests.support.warm_engines import warm_program

SECRET = "a password of dumps #1"


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> PausedProgram:
    program = PausedProgram(tmp_path_factory.mktemp("there") / "programs")
    program.install()
    return program


@pytest.fixture(scope="module")
def running(services: Services, paused: PausedProgram) -> Iterator[Running]:
    with services.own(HOLDFAST_DATABASE_PROGRAMS=f"{paused.folder}:{server_programs()}") as running:
        yield running


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as machine:
        yield machine


@pytest.fixture(scope="module")
def connection(running: Running, machine: Sshd) -> int:
    return machine.connection(running.admin, "machine", engine_path=str(warm_program(ENGINES["1.4"])))


@pytest.fixture
def repository(running: Running, connection: int) -> dict[str, Any]:
    return running.new_repository(execution_target="ssh", ssh_connection_id=connection)


def ended(running: Running, number: int) -> dict[str, Any]:
    found = running.admin.wait_for_end(number)
    return {**found, "log": "\n".join(running.admin.log_lines(number))}


def test_an_ssh_machine_completes_dumps_despite_kills_and_keeps_none_that_broke_off(
    running: Running, machine: Sshd, repository: dict[str, Any], paused: PausedProgram
) -> None:
    file = new_sqlite(running.new_folder("database"), rows=2_000)
    add_database(running, repository, name="app", kind="sqlite", database=str(file), password=SECRET)

    paused.hold()
    number = start_dump(running, repository)
    wait_until(lambda: paused.pid, what="the dump is in its middle")
    assert files_with(machine.home, SECRET) == []
    running.process.kill()
    for session in machine.sessions():
        session.kill()
    running.process.restart()
    paused.release()
    made = ended(running, number)
    assert made["status"] == "completed", made
    [shown] = made["detail"]["dumps"]
    assert (shown["name"], shown["file"], len(shown["sha256"])) == ("app", "app.sql", 64)
    [(name, folder)] = extracted(running, repository).items()
    assert "-databases-" in name
    assert (folder / "app.sql").stat().st_size == shown["bytes"]
    subprocess.run("sqlite3 again.db < app.sql", shell=True, cwd=folder, check=True)
    assert rows_of(folder / "again.db") == rows_of(file)

    paused.hold()
    number = start_dump(running, repository)
    wait_until(lambda: paused.pid, what="the dump is in its middle")
    assert paused.pid is not None
    os.kill(paused.pid, signal.SIGKILL)
    paused.release()
    broken = ended(running, number)
    assert (broken["status"], broken["error_key"]) == ("failed", "backup.dump_failed"), broken
    assert archives(running, repository) == [name]
    assert SECRET not in made["log"] + broken["log"]
    assert files_with(machine.home, SECRET) == []


def test_an_ssh_connection_to_the_services_own_machine_cannot_dump_the_services_data(
    running: Running, repository: dict[str, Any]
) -> None:
    store = running.process.data_dir / "holdfast.db"
    add_database(running, repository, name="own", kind="sqlite", database=str(store))

    refused = ended(running, start_dump(running, repository))

    assert (refused["status"], refused["error_key"]) == ("failed", "backup.own_places"), refused
    assert archives(running, repository) == []


def test_a_machine_without_python_is_refused_with_a_hint(
    running: Running, machine: Sshd, repository: dict[str, Any]
) -> None:
    file = new_sqlite(running.new_folder("database"), rows=1)
    add_database(running, repository, name="app", kind="sqlite", database=str(file))
    before = python_of(running, None)

    refused = ended(running, start_dump(running, repository))

    python_of(running, before)
    assert (refused["status"], refused["error_key"]) == ("failed", "backup.dump_not_here"), refused
    assert "python3" in refused["error_message"]


def python_of(running: Running, program: str | None) -> str | None:
    """Set the Python that the last test of the connection found; return the previous value."""
    with closing(sqlite3.connect(Path(running.process.data_dir) / "holdfast.db", timeout=60)) as store, store:
        before: str | None = store.execute("SELECT python_program FROM ssh_connections").fetchone()[0]
        store.execute("UPDATE ssh_connections SET python_program = ?", (program,))
    return before


@pytest.mark.campaign
def test_a_postgresql_database_is_dumped_on_an_ssh_machine(
    running: Running, machine: Sshd, repository: dict[str, Any]
) -> None:
    with postgres_server().database() as url:
        name, host = urlsplit(url).path[1:], parse_qs(urlsplit(url).query)["host"][0]
        with psycopg.connect(host=host, user="postgres", dbname=name) as session:
            session.execute("CREATE TABLE letters AS SELECT n FROM generate_series(1, 20000) n")
        common = {"host": host, "user": "postgres", "password": SECRET}
        add_database(running, repository, name="roles", kind="postgresql_globals", **common)
        add_database(running, repository, name="shop", kind="postgresql", database=name, **common)
        made = ended(running, start_dump(running, repository))
    assert made["status"] == "completed", made
    [folder] = extracted(running, repository).values()
    assert "CREATE ROLE postgres" in (folder / "roles.sql").read_text()
    assert made["detail"]["dumps"][1]["bytes"] > 20_000
    assert files_with(machine.home, SECRET) == []
    assert SECRET not in made["log"]
