"""The commands of `holdfast` against a running service with a real engine."""

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
from tests.support.nginx import needs_nginx, nginx
from tests.support.running import PASSWORD, Running, Services
from tests.support.service import ADMIN_PASSWORD, PATIENCE, PROGRAM, wait_until

DONE, FAILED, USAGE, NOT_ALLOWED, NOT_FOUND, CONFLICT, UNREACHABLE, WARNINGS, ATTENTION = range(9)
PASSPHRASE = "a passphrase that is typed"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    services = Services(tmp_path_factory.mktemp("services"))
    yield services.get()
    services.stop()


class Terminal:
    """Runs commands as a user with a separate home folder."""

    def __init__(self, running: Running, home: Path) -> None:
        self.running = running
        self.environment = {"XDG_CONFIG_HOME": str(home), "HOME": str(home)}
        self.login_file = home / "holdfast" / "login.json"

    def run(self, *words: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(cli, list(words), input=typed, env=self.environment)

    def says(self, *words: str, code: int = DONE, typed: str | None = None) -> str:
        """What a command prints, after checking its exit code."""
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
    """A repository with one archive in its index, created with the command line."""
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


def test_only_its_owner_can_read_the_login_file(terminal: Terminal) -> None:
    assert stat.S_IMODE(terminal.login_file.stat().st_mode) == 0o600
    assert ADMIN_PASSWORD not in terminal.login_file.read_text()


def test_a_wrong_password_is_refused(terminal: Terminal, tmp_path: Path) -> None:
    other = Terminal(terminal.running, tmp_path)
    words = ("login", "--server", terminal.running.process.url, "--username", "admin", "--password-stdin")

    assert "password" in other.says(*words, typed="wrong\n", code=NOT_ALLOWED).lower()
    assert not other.login_file.exists()
    assert "holdfast login" in other.says("repos", code=NOT_ALLOWED)


def test_a_service_that_does_not_run_is_reported_as_unreachable(terminal: Terminal, tmp_path: Path) -> None:
    other = Terminal(terminal.running, tmp_path)
    other.environment |= {"HOLDFAST_SERVER": "http://127.0.0.1:9", "HOLDFAST_TOKEN": "none"}

    assert "cannot reach" in other.says("repos", code=UNREACHABLE)


@needs_nginx
def test_a_proxy_that_refuses_a_large_request_is_named_as_the_cause(terminal: Terminal, tmp_path: Path) -> None:
    other = Terminal(terminal.running, tmp_path / "home")
    sources = [word for number in range(100) for word in ("--source", f"/srv/a-rather-long-name-{number}")]
    words = ("repos", "create", "refused", str(tmp_path / "refused"), "--encryption", "none", *sources)
    with nginx(tmp_path / "nginx", terminal.running.process.port, "1k") as address:
        other.says("login", "--server", address, "--password-stdin", typed=f"{ADMIN_PASSWORD}\n")
        before = other.json("repos")

        said = other.says(*words, code=USAGE)

        assert "a proxy in front of" in said
        assert "client_max_body_size" in said
        assert other.json("repos") == before


def test_a_backup_is_followed_to_its_end(terminal: Terminal, repository: dict[str, Any]) -> None:
    lines = terminal.says("backup", repository["name"]).splitlines()

    assert f"{repository['name']}: backed up 3 files, " in lines[-1]
    ended = terminal.json("backup", str(repository["id"]))
    assert (ended["kind"], ended["status"]) == ("backup", "completed")


def test_a_backup_can_run_without_being_followed(terminal: Terminal, repository: dict[str, Any]) -> None:
    started = terminal.json("backup", repository["path"], "--no-wait")

    assert started["status"] == "pending"
    assert (
        terminal.says("ops", "follow", str(started["job_id"]))
        .splitlines()[-1]
        .startswith(f"{repository['name']}: backed up 3 files")
    )
    assert terminal.says("ops", "cancel", str(started["job_id"]), code=CONFLICT)


def test_exit_codes_distinguish_a_backup_with_warnings_from_a_failed_one(terminal: Terminal) -> None:
    running = terminal.running
    missing = str(running.new_path("missing"))
    warned = running.new_repository(source_paths=[running.new_source(), missing])
    failed = running.new_repository(source_paths=[missing])

    said = terminal.says("backup", warned["name"], code=WARNINGS)
    assert "1 warning:" in said
    assert missing in said
    said = terminal.says("backup", failed["name"], code=FAILED)
    assert "None of the source paths exist" in said
    assert "(engine.source_missing)" in said
    assert f"holdfast repos change {failed['name']} --source" in said
    assert "The last lines of the log:" in said
    shown = terminal.says("ops", "show", str(last_job(terminal, warned)))
    assert "1 warning:" in shown
    assert "The last lines of the log:" in shown
    health = {line.split("\t")[1]: line.split("\t")[-1] for line in terminal.says("repos").splitlines()}
    assert health[warned["name"]] == "ok, with warnings"
    assert health[failed["name"]] == "failed; never succeeded"
    status = terminal.says("status", code=ATTENTION)
    assert status.startswith("Needs attention: ")
    assert f"of {failed['name']}" in status
    lines = own_log(running)
    assert {line["event"]: line["kind"] for line in lines if line.get("repository") == warned["name"]} == {
        "an operation completed with warnings": "backup"
    }
    (line,) = [line for line in lines if line.get("repository") == failed["name"]]
    assert (line["event"], line["level"], line["key"]) == ("an operation failed", "warning", "engine.source_missing")
    assert line["operation_id"] == last_job(terminal, failed)


def last_job(terminal: Terminal, repository: dict[str, Any]) -> int:
    jobs = terminal.json("ops", "list", "--repository", repository["name"], "--kind", "backup", "--limit", "1")
    found: int = jobs["items"][0]["id"]
    return found


def own_log(running: Running) -> list[dict[str, Any]]:
    """The warnings about operations in the service's own log."""
    folder = running.process.data_dir
    text = (folder.parent / f"{folder.name}.{running.process.role}.log").read_text()
    parsed = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in parsed if "operation_id" in line and line["level"] == "warning"]


def test_login_reads_only_the_password_from_standard_input(terminal: Terminal, tmp_path: Path) -> None:
    other = Terminal(terminal.running, tmp_path)
    words = ("login", "--server", terminal.running.process.url, "--password-stdin")

    assert "as admin" in other.says(*words, typed=f"{ADMIN_PASSWORD}\n")
    assert "admin" in other.says("account", "show")
    other.says("logout")


def test_an_installation_is_administered_from_the_command_line(terminal: Terminal) -> None:
    running = terminal.running
    path, source = str(running.new_path("made")), running.new_source()
    (source / "\x1b]0;pwn\x07\n[red]x").write_text("a hostile name")
    name = Path(path).name
    words = ("repos", "create", name, path, "--source", str(source), "--keep-daily", "7", "--passphrase-stdin")

    assert "was created" in terminal.says(*words, typed=f"{PASSPHRASE}\n")
    assert "never backed up" in terminal.says("status", code=ATTENTION)
    said = terminal.says("backup", name)
    assert f"{name}: backed up 4 files, " in said
    assert "\x1b" not in said
    assert "daily 7" in terminal.says("repos", "show", name)
    terminal.says("repos", "change", name, "--exclude", "*.tmp", "--compression", "zstd,3")
    assert terminal.json("repos", "show", name)["exclude_patterns"] == ["*.tmp"]
    terminal.says("retention", "set", name, "--keep-weekly", "4")
    assert terminal.json("retention", "show", name)["keep_daily"] is None
    assert "keep weekly\t4" in terminal.says("retention", "show", name)
    drawn = terminal.says("retention", "past", name, "--days", "3")
    assert "···█" in drawn
    assert "most: 1 restore point at the end of" in drawn
    assert terminal.json("retention", "past", name, "--days", "3")["points_count"] == 1
    listed = terminal.says("browse", name, "latest", str(source).lstrip("/"))
    assert len(listed.splitlines()) == 4
    assert "\\x1b]0;pwn\\x07\\n[red]x" in listed
    assert "\x1b" not in listed

    running.wait_until_idle()
    terminal.says("repos", "forget", name, code=USAGE)
    assert path in terminal.says("repos", "forget", name, "--yes")
    said = terminal.says("repos", "import", name, path, "--passphrase-stdin", typed="wrong\n", code=USAGE)
    assert "engine.passphrase_wrong" in said
    assert "was imported" in terminal.says("repos", "import", name, path, "--passphrase-stdin", typed=f"{PASSPHRASE}\n")


def test_users_limits_machines_and_tokens_are_managed(terminal: Terminal, repository: dict[str, Any]) -> None:
    user = terminal.running.new_name("anna")
    created = terminal.says(
        "users", "create", user, "--role", "operator", "--password-stdin", typed="a long passphrase 1\n"
    )
    assert "was created as operator" in created
    terminal.says("users", "allow", user, repository["name"], "operator")
    assert repository["name"] in terminal.says("users", "show", user)
    terminal.says("users", "disable", user, "--yes")
    assert terminal.json("users", "show", user)["disabled"] is True
    terminal.says("users", "reset-password", user, "--password-stdin", typed="another long one 2\n")
    terminal.says("users", "remove", user, "--yes")

    assert terminal.json("limits", "set", "--maintenance", "3")["max_running_maintenance"] == 3
    assert "maintenance\t3" in terminal.says("limits")
    install = terminal.says("machines", "enroll", "web1")
    assert "/agent/install.sh | sh -s -- --server" in install

    def tokens() -> list[tuple[str, str]]:
        return [(token["name"], token["status"]) for token in terminal.json("machines", "tokens")["tokens"]]

    assert tokens() == [("web1", "unused")]
    terminal.says("machines", "revoke-token", "web1")
    assert tokens() == [("web1", "revoked")]
    assert "No agents" in terminal.says("machines", "agents")
    token = terminal.json("account", "create-token", "monitoring")["token"]
    assert token not in terminal.says("account", "tokens")
    terminal.says("account", "revoke-token", "monitoring", "--yes")


def test_a_new_password_revokes_the_account_tokens_only_on_request(terminal: Terminal, tmp_path: Path) -> None:
    running = terminal.running
    user = running.new_user("operator")["username"]
    own = Terminal(running, tmp_path)
    login = ("login", "--server", running.process.url, "--username", user, "--password-stdin")
    own.says(*login, typed=f"{PASSWORD}\n")

    def works(token: str) -> bool:
        answer = running.anonymous().get("/api/auth/me", headers={"X-Backup-Authorization": f"Bearer {token}"})
        assert answer.status_code in (200, 401)
        return answer.status_code == 200

    first, second = (own.json("account", "create-token", name)["token"] for name in ("first", "second"))
    own.says("account", "revoke-token", "second", "--yes")
    assert (works(first), works(second)) == (True, False)
    own.says("account", "password", "--password-stdin", typed=f"{PASSWORD}\nanother long one 2\n")
    assert works(first)
    own.says(
        "account", "password", "--password-stdin", "--end-tokens", typed="another long one 2\nanother long one 3\n"
    )
    assert not works(first)

    third = own.json("account", "create-token", "third")["token"]
    reset = ("users", "reset-password", user, "--password-stdin")
    terminal.says(*reset, typed="another long one 4\n")
    assert works(third)
    terminal.says(*reset, "--end-tokens", typed="another long one 5\n")
    assert not works(third)


def test_unknown_values_in_filters_are_errors_that_list_the_valid_ones(terminal: Terminal) -> None:
    assert "'completed_with_warnings'" in terminal.says("ops", "list", "--status", "fialed", code=USAGE)
    assert "restore_check" in terminal.says("ops", "list", "--kind", "nonsense", code=USAGE)
    refused = terminal.run("ops", "list", "--kind", "nonsense", "--json")
    assert (refused.exit_code, refused.stdout) == (USAGE, "")
    assert json.loads(refused.stderr)["error"]["key"] == "filters.unknown_value"


def test_a_path_that_never_existed_is_not_reported_as_removed(terminal: Terminal, repository: dict[str, Any]) -> None:
    assert "was never in" in terminal.says("history", repository["name"], "no/such/file")
    assert "no longer" not in terminal.says("search", repository["name"], "no-such-file")


def test_unknown_repositories_operations_archives_and_packages_are_not_found(
    terminal: Terminal, repository: dict[str, Any]
) -> None:
    assert "nowhere" in terminal.says("backup", "nowhere", code=NOT_FOUND)
    terminal.says("ops", "show", "999999", code=NOT_FOUND)
    terminal.says("browse", repository["name"], "no-such-archive", code=NOT_FOUND)
    terminal.says("packages", "install", "no-such-package", code=NOT_FOUND)


def test_repositories_archives_and_their_contents_are_listed(terminal: Terminal, repository: dict[str, Any]) -> None:
    names = [line.split("\t")[1] for line in terminal.says("repos").splitlines()]
    assert repository["name"] in names
    archives = terminal.json("archives", repository["name"])["archives"]
    folder = str(source_of(repository)).lstrip("/")

    listed = terminal.says("browse", repository["name"], archives[-1]["name"], folder).splitlines()
    assert [line.split("\t")[-1] for line in listed] == ["file-0", "file-1", "file-2"]
    found = terminal.says("search", repository["name"], "file-1").splitlines()
    everywhere = terminal.says("search", "file-1")
    assert repository["name"] in everywhere
    assert terminal.says("search", "file-1", "--machine", "local") == everywhere
    assert "in 0 repositories" in terminal.says("search", "file-1", "--machine", "agent:999999")
    terminal.says("search", repository["name"], "file-1", "--machine", "local", code=USAGE)
    listed = terminal.says("archives", repository["name"]).splitlines()
    assert [line.split("\t")[-1] for line in listed] == [one["series"] for one in archives]
    assert found[0].startswith(f"{folder}/file-1\t")
    told = terminal.says("history", repository["name"], f"{folder}/file-1").splitlines()
    assert [line.split("\t")[2] for line in told] == ["added"]


def test_a_file_is_downloaded_but_never_overwrites_another(
    terminal: Terminal, repository: dict[str, Any], tmp_path: Path
) -> None:
    file = source_of(repository) / "file-2"
    target = tmp_path / "fetched"
    words = ("download", repository["name"], "latest", str(file).lstrip("/"), "--output", str(target))

    terminal.says(*words)

    assert target.read_bytes() == file.read_bytes()
    assert "already" in terminal.says(*words, code=CONFLICT)


def test_a_restore_writes_the_requested_paths(terminal: Terminal, repository: dict[str, Any], tmp_path: Path) -> None:
    file = source_of(repository) / "file-0"

    terminal.says("restore", repository["name"], "latest", str(tmp_path / "out"), "--path", str(file).lstrip("/"))

    restored = tmp_path / "out" / str(file).lstrip("/")
    assert restored.read_bytes() == file.read_bytes()
    assert terminal.says("restore", repository["name"], "latest", "/", "--path", "../up", code=USAGE)


def test_a_repository_is_checked_compacted_and_restore_checked(terminal: Terminal, repository: dict[str, Any]) -> None:
    terminal.says("check", repository["name"])
    terminal.says("compact", repository["name"])
    proven = terminal.json("restore-check", repository["name"], "--full")

    assert proven["result"]["files_proven"] == 3


@pytest.mark.campaign
def test_a_prune_can_be_previewed_and_deleting_needs_confirmation(terminal: Terminal) -> None:
    made = terminal.running.new_repository(index_mode="archives")
    for _ in range(3):
        terminal.says("backup", made["name"])

    planned = [
        line.split("\t")[0]
        for line in terminal.run("prune", made["name"], "--dry-run", "--keep-last", "2").stdout.splitlines()
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
def test_an_archive_is_deleted_by_its_id_and_undeleted(terminal: Terminal) -> None:
    made = terminal.running.new_repository(engine_version=2)
    terminal.says("backup", made["name"])
    (archive,) = terminal.running.admin.get(f"/api/repositories/{made['id']}/archives").json()["archives"]

    terminal.says("delete", made["name"], str(archive["id"]), "--yes")
    assert archive["engine_id"] in terminal.says("undelete", made["name"])
    back = terminal.json("undelete", made["name"], archive["engine_id"])

    assert back["result"]["archive"]["id"] == archive["engine_id"]
    assert terminal.json("undelete", made["name"])["archives"] == []


def test_a_prune_without_retention_rules_is_refused(terminal: Terminal, repository: dict[str, Any]) -> None:
    terminal.says("prune", repository["name"], code=USAGE)


def test_packages_are_added_installed_and_removed(terminal: Terminal) -> None:
    terminal.says("packages", "add", "greeting", "--", "echo", "hello there")
    installed = terminal.json("packages", "install", "greeting")

    assert installed["status"] == "completed"
    assert "hello there" in terminal.says("logs", str(installed["id"]))
    assert any(
        line.split("\t")[1:3] == ["greeting", "installed"] for line in terminal.says("packages", "list").splitlines()
    )
    terminal.says("packages", "remove", "greeting")


@pytest.mark.campaign
def test_a_mirror_is_tested_synced_shown_and_hydrated(terminal: Terminal) -> None:
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
    terminal.says("mirror", "hydrate", made["name"], str(hydrated), typed="n\n", code=USAGE)
    terminal.says("mirror", "hydrate", made["name"], str(hydrated), "--yes")
    assert (hydrated / "config").read_bytes() == (folder / "config").read_bytes()


def test_operations_are_listed_and_shown_and_their_logs_followed(
    terminal: Terminal, repository: dict[str, Any]
) -> None:
    newest = terminal.json("ops", "list", "--kind", "backup", "--status", "completed", "--limit", "1")["items"][0]

    assert "completed" in terminal.says("ops", "show", str(newest["id"]))
    lines = terminal.says("logs", str(newest["id"])).splitlines()
    assert lines
    assert terminal.says("ops", "logs", str(newest["id"]), "--follow").splitlines() == lines
    terminal.says("logs", str(newest["id"]), "--follow", "--json", code=USAGE)
    assert str(newest["id"]) in [
        line.split("\t")[0] for line in terminal.says("activity", "--limit", "200").splitlines()
    ]


def test_a_terminal_shows_progress_on_one_line_and_clears_it_at_the_end(
    terminal: Terminal, repository: dict[str, Any]
) -> None:
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
    line, _, rest = shown.rpartition(b"\r\x1b[K")
    assert f"of {repository['name']}".encode() in line
    assert rest.startswith(f"{repository['name']}: backed up".encode())
    assert b": backed up 3 files" in shown


def test_grants_are_added_listed_and_removed(running: Running, terminal: Terminal) -> None:
    user = running.new_user("operator")["username"]

    given = terminal.json("grants", "add", "/srv/restored", "--user", user)

    assert (given["username"], given["machine_type"], given["folder"]) == (user, "local", "/srv/restored")
    assert user in terminal.says("grants", "list")
    assert "local" in terminal.says("grants", "add", "/srv", "--role", "operator", "--machine", "local")
    assert "was removed" in terminal.says("grants", "remove", str(given["id"]))
    terminal.says("grants", "remove", str(given["id"]), code=NOT_FOUND)
    terminal.says("grants", "add", "/srv", code=USAGE)
    terminal.says("grants", "add", "/srv", "--user", user, "--machine", "nowhere", code=USAGE)
    terminal.says("grants", "add", "/srv", "--user", user, "--machine", "agent:none", code=NOT_FOUND)
    terminal.says("grants", "add", "srv", "--user", user, code=USAGE)


def test_a_schedule_is_created_run_and_followed(terminal: Terminal) -> None:
    repository = terminal.running.new_repository()
    name = terminal.running.new_name("nightly")
    words = ("--repository", repository["name"], "--at", "02:00", "--tz", "Europe/Berlin", "--keep-daily", "7")
    created = terminal.says("schedules", "create", name, *words)
    assert "At 02:00 every day (Europe/Berlin)" in created
    assert "prune (keep 7 daily)" in created

    followed = terminal.says("schedules", "run", name)
    assert f"{repository['name']}: backed up 3 files" in followed
    assert "removed 0 archives" in followed
    assert followed.index("backed up") < followed.index("removed 0")
    assert "completed" in terminal.says("schedules", "history", name)
    assert name in terminal.says("schedules", "calendar", "--days", "2")
    assert len(terminal.json("schedules", "next", name, "--count", "3")["fires"]) == 3


def test_a_schedule_is_changed_snoozed_disabled_and_deleted(terminal: Terminal, repository: dict[str, Any]) -> None:
    name = terminal.running.new_name("schedule")
    words = ("--repository", repository["name"], "--cron", "0 8-18 * * 1-5", "--window", "mon-fri 08:00-20:00")
    assert "mon-fri 08:00-20:00" in terminal.says("schedules", "create", name, *words)
    assert "every 7 days" in terminal.says("schedules", "edit", name, "--check-every", "7")
    assert "is snoozed until" in terminal.says("schedules", "snooze", name, "3d")
    assert "snoozed" in terminal.says("schedules", "list")
    assert "is awake" in terminal.says("schedules", "snooze", name, "--off")
    assert "is disabled" in terminal.says("schedules", "disable", name)
    assert "is enabled" in terminal.says("schedules", "enable", name)
    assert "are kept" in terminal.says("schedules", "delete", name, "--yes")
    assert "no schedule named" in terminal.says("schedules", "show", name, code=NOT_FOUND)


@pytest.mark.parametrize(
    "words",
    [
        ("create", "x", "--repository", "1"),
        ("create", "x", "--at", "25:00"),
        ("create", "x", "--at", "02:00", "--every", "6h"),
        ("create", "x", "--at", "02:00", "--all", "--label", "a=b"),
        ("preview", "--cron", "61 2 * * *"),
        ("preview", "--every", "often"),
        ("preview", "--at", "02:00", "--window", "midnight"),
    ],
)
def test_an_invalid_schedule_is_refused(terminal: Terminal, words: tuple[str, ...]) -> None:
    terminal.says("schedules", *words, code=USAGE)
