"""Dumps on a real agent: only what its machine allows, complete, and with passwords that never touch its disk."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.real.dumps.world import PausedProgram, new_sqlite, rows_of
from tests.support.agent_site import AgentSite
from tests.support.postgres import postgres_server, server_programs
from tests.support.service import wait_until
from tests.support.trees import files_with

SECRET = "a password of dumps #1"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentSite]:
    built = AgentSite.build(tmp_path_factory.mktemp("site"))
    yield built
    built.end()


def allow(site: AgentSite, *databases: str, programs: Path) -> None:
    """Write what the owner of the machine allows into its configuration."""
    file = next(site.agent.folder.rglob("config.toml"))
    before = file.read_text().partition("[databases]")[0]
    named = ", ".join(f'"{name}"' for name in databases)
    file.write_text(f'{before}[databases]\nallow = [{named}]\nprograms = ["{programs}"]\n')
    site.agent.stop()
    site.agent.start()


def add(site: AgentSite, **values: Any) -> dict[str, Any]:
    answer = site.admin.post(f"/api/repositories/{site.repository['id']}/databases", json=values)
    assert answer.status_code == 201, answer.text
    added: dict[str, Any] = answer.json()
    return added


def start(site: AgentSite) -> int:
    answer = site.admin.post(f"/api/repositories/{site.repository['id']}/dump")
    assert answer.status_code == 200, answer.text
    number: int = answer.json()["job_id"]
    return number


def archives(site: AgentSite) -> list[str]:
    listed = site.agent.ask_engine(site.engine.engine, "list", "--format={archive}{NL}", str(site.repository["path"]))
    return [name for name in listed.splitlines() if "-databases-" in name]


def restored(site: AgentSite, archive: str, file: str) -> Path:
    """The file of an archive, extracted by the engine itself."""
    folder = site.folder / f"restored-{len(list(site.folder.glob('restored-*')))}"
    folder.mkdir()
    content = site.agent.ask_engine(
        site.engine.engine, "extract", "--stdout", f"{site.repository['path']}::{archive}", file
    )
    (folder / file).write_text(content)
    return folder / file


def test_an_agent_dumps_only_what_its_machine_allows_and_completes_dumps_despite_kills(site: AgentSite) -> None:
    file = new_sqlite(site.folder, rows=2_000)
    paused = PausedProgram(site.folder / "programs")
    paused.install()
    add(site, name="app", kind="sqlite", database=str(file), password=SECRET)

    refused = site.wait_for_end(start(site))
    assert (refused["status"], refused["error_key"]) == ("failed", "backup.dump_refused")
    assert str(file) in refused["error_message"]
    assert archives(site) == []

    allow(site, f"sqlite:{file}", programs=paused.folder)
    made = site.wait_for_end(start(site))
    assert made["status"] == "completed", (made, site.admin.log_lines(made["id"]))
    [archive] = archives(site)
    [shown] = made["detail"]["dumps"]
    assert (shown["name"], shown["file"], len(shown["sha256"])) == ("app", "app.sql", 64)
    assert made["detail"]["archive"]["name"] == archive
    assert site.admin.get(f"/api/repositories/{site.repository['id']}").json()["last_backup"] is None
    dump = restored(site, archive, "app.sql")
    subprocess.run(f"sqlite3 again.db < {dump}", shell=True, cwd=dump.parent, check=True)
    assert rows_of(dump.parent / "again.db") == rows_of(file)

    paused.hold()
    number = start(site)
    wait_until(lambda: paused.pid, what="the dump is in its middle")
    site.agent.kill()
    site.service.kill()
    site.bring_up()
    paused.release()
    ended = site.wait_for_end(number)
    assert ended["status"] == "completed", (ended, site.admin.log_lines(number))
    assert len(archives(site)) == 2
    assert files_with(site.agent.folder, SECRET) == []


@pytest.mark.campaign
def test_an_agent_dumps_a_postgresql_database_without_storing_its_password_on_disk(site: AgentSite) -> None:
    server = postgres_server()
    for known in site.admin.get(f"/api/repositories/{site.repository['id']}/databases").json()["databases"]:
        site.admin.delete(f"/api/repositories/{site.repository['id']}/databases/{known['id']}")
    with server.database() as url:
        name, host = urlsplit(url).path[1:], parse_qs(urlsplit(url).query)["host"][0]
        with psycopg.connect(host=host, user="postgres", dbname=name) as session:
            session.execute("CREATE TABLE letters AS SELECT n FROM generate_series(1, 20000) n")
        common = {"host": host, "user": "postgres", "password": SECRET}
        add(site, name="roles", kind="postgresql_globals", **common)
        add(site, name="shop", kind="postgresql", database=name, **common)
        allow(site, "postgresql_globals:*", f"postgresql:{name}", programs=server_programs())
        before = archives(site)
        made = site.wait_for_end(start(site))
    assert made["status"] == "completed", (made, site.admin.log_lines(made["id"]))
    [archive] = [found for found in archives(site) if found not in before]
    assert re.search(r"CREATE ROLE postgres", restored(site, archive, "roles.sql").read_text())
    assert made["detail"]["dumps"][1]["bytes"] > 20_000
    assert files_with(site.agent.folder, SECRET) == []
    assert SECRET not in "\n".join(site.admin.log_lines(made["id"])) + site.agent.own_log()
