"""The verbs of `holdfast` against a running service with a real engine."""

import json
import os
import pty
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from holdfast.entry.main import cli
from tests.support.engines import ENGINE_2
from tests.support.running import Running, Services
from tests.support.service import ADMIN_PASSWORD, PATIENCE, PROGRAM, wait_until

DONE, FAILED, USAGE, NOT_ALLOWED, NOT_FOUND, CONFLICT, UNREACHABLE, WARNINGS = range(8)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    services = Services(tmp_path_factory.mktemp("services"))
    yield services.get()
    services.stop()


class Terminal:
    """Runs commands as a person who has a home of their own."""

    def __init__(self, running: Running, home: Path) -> None:
        self.running = running
        self.environment = {"XDG_CONFIG_HOME": str(home), "HOME": str(home)}
        self.login_file = home / "holdfast" / "login.json"

    def run(self, *words: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(cli, list(words), input=typed, env=self.environment)

    def says(self, *words: str, code: int = DONE, typed: str | None = None) -> str:
        """What a command prints, after checking how it ended."""
        result = self.run(*words, typed=typed)
        assert result.exit_code == code, result.output
        return result.output

    def json(self, *words: str, code: int = DONE) -> Any:
        result = self.run(*words, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)


@pytest.fixture(scope="module")
def terminal(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    terminal = Terminal(running, tmp_path_factory.mktemp("home"))
    words = ("login", "--server", running.process.url, "--username", "admin", "--password-stdin")
    assert "Logged in" in terminal.says(*words, typed=f"{ADMIN_PASSWORD}\n")
    yield terminal
    terminal.says("logout")
    assert not terminal.login_file.exists()


@pytest.fixture(scope="module")
def repository(terminal: Terminal) -> dict[str, Any]:
    """A repository with one archive in its index, made by the command line."""
    made = terminal.running.new_repository(index_mode="full")
    terminal.says("backup", made["name"])
    place = f"/api/repositories/{made['id']}/archives"
    wait_until(
        lambda: [one for one in terminal.running.admin.get(place).json()["archives"] if one["history_indexed_at"]],
        120,
        what="the archive is indexed",
    )
    return made


def source_of(repository: dict[str, Any]) -> Path:
    return Path(repository["source_paths"][0])


def test_the_login_is_kept_where_nobody_else_reads_it(terminal: Terminal) -> None:
    assert stat.S_IMODE(terminal.login_file.stat().st_mode) == 0o600
    assert ADMIN_PASSWORD not in terminal.login_file.read_text()


def test_a_wrong_password_is_not_allowed(terminal: Terminal, tmp_path: Path) -> None:
    other = Terminal(terminal.running, tmp_path)
    words = ("login", "--server", terminal.running.process.url, "--username", "admin", "--password-stdin")

    assert "password" in other.says(*words, typed="wrong\n", code=NOT_ALLOWED).lower()
    assert not other.login_file.exists()
    assert "holdfast login" in other.says("repos", code=NOT_ALLOWED)


def test_a_service_that_is_not_there_is_unreachable(terminal: Terminal, tmp_path: Path) -> None:
    other = Terminal(terminal.running, tmp_path)
    other.environment |= {"HOLDFAST_SERVER": "http://127.0.0.1:9", "HOLDFAST_TOKEN": "none"}

    assert "cannot reach" in other.says("repos", code=UNREACHABLE)


def test_a_backup_is_followed_to_its_end(terminal: Terminal, repository: dict[str, Any]) -> None:
    lines = terminal.says("backup", repository["name"]).splitlines()

    assert lines[-1].endswith(": completed")
    ended = terminal.json("backup", str(repository["id"]))
    assert (ended["kind"], ended["status"]) == ("backup", "completed")


def test_a_backup_may_be_left_to_itself(terminal: Terminal, repository: dict[str, Any]) -> None:
    started = terminal.json("backup", repository["path"], "--no-wait")

    assert started["status"] == "pending"
    assert terminal.says("ops", "follow", str(started["job_id"])).splitlines()[-1].endswith(": completed")
    assert terminal.says("ops", "cancel", str(started["job_id"]), code=CONFLICT)


def test_a_backup_with_warnings_and_one_that_failed_say_so_by_their_codes(terminal: Terminal) -> None:
    running = terminal.running
    missing = str(running.new_path("missing"))
    warned = running.new_repository(source_paths=[running.new_source(), missing])
    failed = running.new_repository(source_paths=[missing])

    terminal.says("backup", warned["name"], code=WARNINGS)
    assert "None of the source paths exists" in terminal.says("backup", failed["name"], code=FAILED)


def test_what_there_is_not_is_not_found(terminal: Terminal, repository: dict[str, Any]) -> None:
    assert "nowhere" in terminal.says("backup", "nowhere", code=NOT_FOUND)
    terminal.says("ops", "show", "999999", code=NOT_FOUND)
    terminal.says("browse", repository["name"], "no-such-archive", code=NOT_FOUND)
    terminal.says("packages", "install", "no-such-package", code=NOT_FOUND)


def test_repositories_archives_and_what_is_in_them_are_listed(terminal: Terminal, repository: dict[str, Any]) -> None:
    names = [line.split("\t")[1] for line in terminal.says("repos").splitlines()]
    assert repository["name"] in names
    archives = terminal.json("archives", repository["name"])["archives"]
    folder = str(source_of(repository)).lstrip("/")

    listed = terminal.says("browse", repository["name"], archives[-1]["name"], folder).splitlines()
    assert [line.split("\t")[-1] for line in listed] == ["file-0", "file-1", "file-2"]
    found = terminal.says("search", repository["name"], "file-1").splitlines()
    assert found[0].startswith(f"{folder}/file-1\t")
    told = terminal.says("history", repository["name"], f"{folder}/file-1").splitlines()
    assert [line.split("\t")[2] for line in told] == ["added"]


def test_a_file_is_downloaded_and_never_over_another(
    terminal: Terminal, repository: dict[str, Any], tmp_path: Path
) -> None:
    file = source_of(repository) / "file-2"
    target = tmp_path / "fetched"
    words = ("download", repository["name"], "latest", str(file).lstrip("/"), "--output", str(target))

    terminal.says(*words)

    assert target.read_bytes() == file.read_bytes()
    assert "already" in terminal.says(*words, code=CONFLICT)


def test_a_restore_writes_what_was_asked_for(terminal: Terminal, repository: dict[str, Any], tmp_path: Path) -> None:
    file = source_of(repository) / "file-0"

    terminal.says("restore", repository["name"], "latest", str(tmp_path / "out"), "--path", str(file).lstrip("/"))

    restored = tmp_path / "out" / str(file).lstrip("/")
    assert restored.read_bytes() == file.read_bytes()
    assert terminal.says("restore", repository["name"], "latest", "/", "--path", "../up", code=USAGE)


def test_a_repository_is_cared_for(terminal: Terminal, repository: dict[str, Any]) -> None:
    terminal.says("check", repository["name"])
    terminal.says("compact", repository["name"])
    proven = terminal.json("restore-check", repository["name"], "--full")

    assert proven["result"]["files_proven"] == 3


@pytest.mark.campaign
def test_a_prune_is_seen_before_it_is_done_and_an_archive_deleted_only_after_a_yes(terminal: Terminal) -> None:
    made = terminal.running.new_repository(index_mode="archives")
    for _ in range(3):
        terminal.says("backup", made["name"])

    planned = [
        line.split("\t")[0]
        for line in terminal.says("prune", made["name"], "--dry-run", "--keep-last", "2").splitlines()
    ]
    assert planned == ["keep", "keep", "remove"]
    terminal.says("prune", made["name"], "--keep-last", "2")
    live = terminal.running.admin.get(f"/api/repositories/{made['id']}/archives/live").json()["archives"]
    assert len(live) == 2
    assert "--yes" in terminal.says("delete", made["name"], live[0]["name"], code=USAGE)
    terminal.says("delete", made["name"], live[0]["name"], "--yes")
    terminal.says("wipe", made["name"], code=USAGE)
    terminal.says("wipe", made["name"], "--confirm", "WIPE another", code=USAGE)
    wiped = terminal.json("wipe", made["name"], "--confirm", f"WIPE {made['name']}")
    assert (wiped["result"]["deleted_count"], wiped["result"]["remaining_count"]) == (1, 0)


@pytest.mark.campaign
@pytest.mark.skipif(ENGINE_2 is None, reason="`tools/setup.sh test` builds engine 2")
def test_an_archive_is_deleted_by_its_id_and_brought_back(terminal: Terminal) -> None:
    made = terminal.running.new_repository(engine_version=2)
    terminal.says("backup", made["name"])
    (archive,) = terminal.running.admin.get(f"/api/repositories/{made['id']}/archives").json()["archives"]

    terminal.says("delete", made["name"], str(archive["id"]), "--yes")
    assert archive["engine_id"] in terminal.says("undelete", made["name"])
    back = terminal.json("undelete", made["name"], archive["engine_id"])

    assert back["result"]["archive"]["id"] == archive["engine_id"]
    assert terminal.json("undelete", made["name"])["archives"] == []


def test_a_rule_that_keeps_nothing_is_wrong(terminal: Terminal, repository: dict[str, Any]) -> None:
    terminal.says("prune", repository["name"], code=USAGE)


def test_packages_are_added_installed_and_forgotten(terminal: Terminal) -> None:
    terminal.says("packages", "add", "greeting", "--", "echo", "hello there")
    installed = terminal.json("packages", "install", "greeting")

    assert installed["status"] == "completed"
    assert "hello there" in terminal.says("logs", str(installed["id"]))
    assert any(
        line.split("\t")[1:3] == ["greeting", "installed"] for line in terminal.says("packages", "list").splitlines()
    )
    terminal.says("packages", "remove", "greeting")


@pytest.mark.campaign
def test_a_mirror_is_tried_filled_told_of_and_brought_back(terminal: Terminal) -> None:
    running = terminal.running
    made, folder, hydrated = running.new_repository(), running.new_path("mirror"), running.new_path("hydrated")
    remote = running.admin.post("/api/rclone/remotes", json={"name": "disk", "provider": "local"}).json()["id"]

    assert "disk" in terminal.says("remotes", "list")
    assert terminal.json("remotes", "test", "disk", "--path", str(folder))["ok"] is True
    terminal.says("remotes", "test", "disk", code=FAILED)
    terminal.says("remotes", "test", "no-such-remote", code=NOT_FOUND)
    terminal.says("mirror", "status", made["name"], code=NOT_FOUND)
    body = {"remote_id": remote, "path": str(folder), "mode": "manual"}
    assert running.admin.put(f"/api/repositories/{made['id']}/mirror", json=body).status_code == 200
    assert terminal.json("mirror", "sync", made["name"])["result"]["verified"] is True
    assert f"disk:{folder}" in terminal.says("mirror", "status", made["name"])
    terminal.says("mirror", "hydrate", made["name"], str(hydrated), typed="n\n", code=FAILED)
    terminal.says("mirror", "hydrate", made["name"], str(hydrated), "--yes")
    assert (hydrated / "config").read_bytes() == (folder / "config").read_bytes()


def test_operations_are_listed_shown_and_their_logs_followed(terminal: Terminal, repository: dict[str, Any]) -> None:
    newest = terminal.json("ops", "list", "--kind", "backup", "--status", "completed", "--limit", "1")["items"][0]

    assert "completed" in terminal.says("ops", "show", str(newest["id"]))
    lines = terminal.says("logs", str(newest["id"])).splitlines()
    assert lines
    assert terminal.says("ops", "logs", str(newest["id"]), "--follow").splitlines() == lines
    terminal.says("logs", str(newest["id"]), "--follow", "--json", code=USAGE)
    assert str(newest["id"]) in [
        line.split("\t")[0] for line in terminal.says("activity", "--limit", "200").splitlines()
    ]


def test_on_a_terminal_there_is_a_bar(terminal: Terminal, repository: dict[str, Any]) -> None:
    mine, theirs = pty.openpty()
    environment = {**os.environ, **terminal.environment, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen([PROGRAM, "backup", repository["name"]], stdout=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(mine, 65536)
        except OSError:  # the other end is closed
            break
    os.close(mine)

    assert process.wait(PATIENCE) == DONE
    assert "━".encode() in shown
    assert b"completed" in shown
