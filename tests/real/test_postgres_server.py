"""The PostgreSQL server of the tests: provides fresh databases and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import Engine, create_engine, inspect, make_url, text
from sqlalchemy.exc import OperationalError

from tests.support import postgres
from tests.support.postgres import PostgresServer, PostgresServerFailed, postgres_server, start_postgres_server

ROOT = Path(__file__).resolve().parents[2]
OWNER = """
import sys
from tests.support.postgres import postgres_server
server = postgres_server()
server.create_database()
print(server.folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server() -> PostgresServer:
    return postgres_server()


@pytest.fixture
def owner() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with its own server, and the folder of that server."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def tables(url: str) -> list[str]:
    engine = create_engine(url)
    try:
        return inspect(engine).get_table_names()
    finally:
        engine.dispose()


def execute(url: str, statement: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def server_processes(folder: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(folder / "data") in (process.info["cmdline"] or []) and process.status() != psutil.STATUS_ZOMBIE
    ]


def test_two_fresh_databases_are_empty_and_separate(server: PostgresServer) -> None:
    with server.database() as one, server.database() as other:
        execute(one, "CREATE TABLE mark (id integer)")

        assert tables(one) == ["mark"]
        assert tables(other) == []


def test_a_database_from_a_template_starts_with_its_tables_and_does_not_change_the_template(
    server: PostgresServer,
) -> None:
    built: list[str] = []

    def build(url: str) -> None:
        built.append(url)
        execute(url, "CREATE TABLE seed (id integer)")

    for _ in range(2):
        template = server.ensure_template("with_seed", build)
        with server.database(template) as url:
            execute(url, "CREATE TABLE extra (id integer)")
            assert sorted(tables(url)) == ["extra", "seed"]

    assert len(built) == 1


def test_a_template_that_failed_to_build_is_built_again(server: PostgresServer) -> None:
    def fail(url: str) -> None:
        execute(url, "CREATE TABLE half (id integer)")
        raise LookupError

    with pytest.raises(LookupError):
        server.ensure_template("rebuilt", fail)
    template = server.ensure_template("rebuilt", lambda url: execute(url, "CREATE TABLE whole (id integer)"))

    with server.database(template) as url:
        assert tables(url) == ["whole"]


def test_a_database_is_dropped_although_a_client_is_connected(server: PostgresServer) -> None:
    engine: Engine
    with server.database() as url:
        engine = create_engine(url)
        connection = engine.connect()

    with pytest.raises(OperationalError):
        connection.execute(text("SELECT 1"))
    with pytest.raises(OperationalError, match="does not exist"):
        create_engine(url).connect()
    engine.dispose()


def test_text_is_ordered_by_code_point_as_in_sqlite(server: PostgresServer) -> None:
    with server.database() as url:
        engine = create_engine(url)
        with engine.connect() as connection:
            ordered = connection.scalars(text("SELECT x FROM (VALUES ('a'), ('B'), ('ä')) AS v (x) ORDER BY x")).all()
        engine.dispose()

    assert list(ordered) == ["B", "a", "ä"]


def test_the_server_has_no_network_port(server: PostgresServer) -> None:
    postmaster = server_processes(server.folder)[0]

    assert postmaster.net_connections(kind="inet") == []
    assert make_url(server.url("postgres")).query == {"host": str(server.folder)}


def test_a_killed_owner_leaves_no_server_and_no_folder(owner: tuple[subprocess.Popen[str], Path]) -> None:
    process, folder = owner
    assert server_processes(folder)

    process.kill()

    wait_until(lambda: not folder.exists() and not server_processes(folder))


def test_an_owner_that_ends_leaves_no_server_and_no_folder(owner: tuple[subprocess.Popen[str], Path]) -> None:
    process, folder = owner

    process.communicate()

    assert process.returncode == 0
    wait_until(lambda: not folder.exists() and not server_processes(folder))


def test_a_killed_guard_stops_its_server_and_the_next_start_removes_the_folder(
    owner: tuple[subprocess.Popen[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, folder = owner
    monkeypatch.setattr(postgres, "STALE_AFTER_SECONDS", 0.0)
    postgres.remove_stale_folders()
    assert folder.exists()

    for guard in psutil.Process(process.pid).children():
        os.kill(guard.pid, signal.SIGKILL)
    wait_until(lambda: not server_processes(folder))
    postgres.remove_stale_folders()

    assert not folder.exists()


def test_a_server_that_cannot_start_reports_why_and_leaves_no_folder() -> None:
    before = set(postgres.MEMORY_FOLDER.glob(f"{postgres.FOLDER_PREFIX}*"))

    with pytest.raises(PostgresServerFailed, match="shared_buffers"):
        start_postgres_server({"shared_buffers": "nonsense"})

    wait_until(lambda: set(postgres.MEMORY_FOLDER.glob(f"{postgres.FOLDER_PREFIX}*")) <= before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand the programs to another user")
def test_programs_that_the_servers_user_cannot_reach_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    programs = postgres.copy_programs(postgres.server_programs(), closed)
    monkeypatch.setenv(postgres.PROGRAMS_VARIABLE, str(programs))

    with start_postgres_server() as server, server.database() as url:
        assert tables(url) == []
        assert closed.stat().st_mode & 0o077 == 0
