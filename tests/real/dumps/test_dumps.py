"""Dumps of real databases: once restored, they contain what the database contained; a failed dump leaves no archive."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.real.dumps.world import add_database, archives, extracted, new_sqlite, rows_of, start_dump
from tests.support.mariadb import MISSING, has_mariadb, mariadb_server
from tests.support.postgres import postgres_server, server_programs
from tests.support.running import Running, Services
from tests.support.trees import files_with

SECRET = "p'ss\"w\\rd-of-dumps #1"


@pytest.fixture(scope="module")
def running(services: Services) -> Iterator[Running]:
    with services.own(HOLDFAST_DATABASE_PROGRAMS=str(server_programs())) as running:
        yield running


def completed(running: Running, operation: int) -> dict[str, Any]:
    ended = running.admin.wait_for_end(operation)
    assert ended["status"] == "completed", (ended["error_message"], running.admin.log_lines(operation))
    return ended


def only_archive(running: Running, repository: dict[str, Any]) -> Path:
    [(name, folder)] = extracted(running, repository).items()
    assert "-databases" in name
    return folder


@pytest.mark.parametrize("engine", [1, 2])
def test_an_sqlite_file_is_dumped_and_restored_row_by_row(running: Running, engine: int) -> None:
    file = new_sqlite(running.new_folder("database"))
    repository = running.new_repository(engine_version=engine)
    added = add_database(running, repository, name="app", kind="sqlite", database=str(file))

    ended = completed(running, start_dump(running, repository))

    folder = only_archive(running, repository)
    restored = folder / "restored.db"
    command = added["restore_command"].replace(str(file), str(restored))
    subprocess.run(["/bin/sh", "-c", command], cwd=folder, check=True)
    assert rows_of(restored) == rows_of(file)
    assert "app.sql" in "\n".join(running.admin.log_lines(ended["id"]))
    shown = running.admin.get(f"/api/repositories/{repository['id']}").json()
    assert shown["last_backup"] is None, "a dump is no backup of the sources"


def test_a_postgresql_database_and_its_roles_are_dumped_without_exposing_the_password(running: Running) -> None:
    server = postgres_server()
    with server.database() as url, server.database() as other:
        name, host = urlsplit(url).path[1:], parse_qs(urlsplit(url).query)["host"][0]
        connection = {"host": host, "user": "postgres"}
        with psycopg.connect(**connection, dbname=name) as session:
            session.execute("CREATE TABLE letters AS SELECT n, md5(n::text) AS words FROM generate_series(1, 20000) n")
        repository = running.new_repository()
        common = {"host": host, "user": "postgres", "password": SECRET}
        add_database(running, repository, name="app", kind="postgresql", database=name, **common)
        add_database(running, repository, name="roles", kind="postgresql_globals", **common)

        operation = start_dump(running, repository)
        completed(running, operation)

        folder = only_archive(running, repository)
        assert "CREATE ROLE postgres" in (folder / "roles.sql").read_text()
        target = urlsplit(other).path[1:]
        loading = ["--host", host, "--username", "postgres", "--dbname", target, "--exit-on-error", "app.dump"]
        subprocess.run([server_programs() / "pg_restore", *loading], cwd=folder, check=True, capture_output=True)
        with (
            psycopg.connect(**connection, dbname=name) as before,
            psycopg.connect(**connection, dbname=target) as after,
        ):
            wanted = before.execute("SELECT * FROM letters ORDER BY n").fetchall()
            assert after.execute("SELECT * FROM letters ORDER BY n").fetchall() == wanted
    assert files_with(running.process.data_dir, SECRET) == []
    assert SECRET not in "\n".join(running.admin.log_lines(operation)) + running.process.own_log()
    assert SECRET not in running.admin.get(f"/api/repositories/{repository['id']}/databases").text


@pytest.mark.skipif(not has_mariadb(), reason=MISSING)
def test_a_mariadb_database_is_dumped_by_a_user_with_a_password(running: Running) -> None:
    with mariadb_server() as server:
        quoted = SECRET.replace("\\", "\\\\").replace("'", "\\'")
        server.run("CREATE DATABASE app; CREATE DATABASE restored")
        server.run("CREATE TABLE letters (n INT PRIMARY KEY, words TEXT) ENGINE=InnoDB", "app")
        server.run("INSERT INTO letters SELECT seq, MD5(seq) FROM seq_1_to_20000", "app")
        server.run(f"CREATE USER dumper@localhost IDENTIFIED BY '{quoted}'; GRANT ALL ON *.* TO dumper@localhost")
        repository = running.new_repository()
        common = {"host": str(server.socket), "user": "dumper", "password": SECRET}
        add_database(running, repository, name="app", kind="mysql", database="app", **common)

        completed(running, start_dump(running, repository))

        folder = only_archive(running, repository)
        server.load(folder / "app.sql", "restored")
        everything = "SELECT * FROM letters ORDER BY n"
        assert server.run(everything, "restored") == server.run(everything, "app")
        assert files_with(running.process.data_dir, SECRET) == []

        for number in range(12):
            server.run(f"CREATE TABLE old_{number:02} (n INT) ENGINE={'Aria' if number % 2 else 'MyISAM'}", "app")
        ended = running.admin.wait_for_end(start_dump(running, repository))
        assert ended["status"] == "completed_with_warnings"
        (warning,) = [one["message"] for one in ended["warnings"] if "The dump of app" in one["message"]]
        assert ": " + ", ".join(f"old_{number:02}" for number in range(10)) + " and 2 more. " in warning

        wrong = running.new_repository()
        add_database(running, wrong, **{**common, "password": "another"}, name="app", kind="mysql", database="app")
        refused = running.admin.wait_for_end(start_dump(running, wrong))
        assert (refused["status"], refused["error_key"]) == ("failed", "backup.dump_failed")
        assert archives(running, wrong) == []


def test_a_failed_dump_leaves_no_archive_and_names_its_database(running: Running) -> None:
    folder = running.new_folder("database")
    repository = running.new_repository()
    broken = folder / "broken.db"
    broken.write_bytes(new_sqlite(folder).read_bytes()[:40_000])
    add_database(running, repository, name="app", kind="sqlite", database=str(folder / "app.db"))
    add_database(running, repository, name="broken", kind="sqlite", database=str(broken))

    ended = running.admin.wait_for_end(start_dump(running, repository))

    assert (ended["status"], ended["error_key"]) == ("failed", "backup.dump_failed")
    assert "broken" in ended["error_message"]
    assert archives(running, repository) == []


def test_invalid_databases_are_refused_and_not_stored(running: Running) -> None:
    repository = running.new_repository()
    place = f"/api/repositories/{repository['id']}/databases"
    own = str(running.process.data_dir / "holdfast.db")
    wrong = [
        {"name": "a/b", "kind": "sqlite", "database": "/srv/app.db"},
        {"name": "app", "kind": "oracle", "database": "x"},
        {"name": "app", "kind": "sqlite", "database": "app.db"},
        {"name": "app", "kind": "sqlite"},
        {"name": "app", "kind": "sqlite", "database": own},
        {"name": "app", "kind": "postgresql", "database": "app", "port": 0},
        {"name": "app", "kind": "postgresql", "database": "a\0b"},
        {"name": "app", "kind": "mysql", "database": "app", "command": "rm"},
    ]
    for body in wrong:
        assert running.admin.post(place, json=body).status_code == 422, body
    assert running.admin.get(place).json() == {"databases": []}
    assert (
        running.admin.post(f"/api/repositories/{repository['id']}/dump").json()["detail"]["key"]
        == "backup.no_databases"
    )

    added = add_database(running, repository, name="app", kind="sqlite", database="/srv/app.db")
    again = running.admin.post(place, json={"name": "app", "kind": "sqlite", "database": "/srv/app.db"})
    assert (again.status_code, again.json()["detail"]["key"]) == (409, "backup.database_name_taken")
    changed = running.admin.put(f"{place}/{added['id']}", json={"name": "other", "kind": "mysql", "database": "app"})
    assert (changed.json()["name"], changed.json()["file"]) == ("other", "other.sql")
    assert running.admin.delete(f"{place}/{added['id']}").status_code == 204
    assert running.admin.delete(f"{place}/{added['id']}").status_code == 404
