"""Every command has help, and every outcome has its documented exit code."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from holdfast.entry.client import connection, exit_codes, follow
from holdfast.entry.client.command_line import COMMANDS, CommandLine
from holdfast.entry.client.operations import CategoryWord
from holdfast.entry.main import cli
from holdfast.operations.filters import CATEGORIES
from tests.support.hostile_service import serving
from tests.support.service import PROGRAM, free_port
from tests.support.terminals import run
from tests.support.tls import tls_front

DOCUMENT = Path(__file__).parents[3] / "docs" / "cli.md"
REFUSED = {"detail": {"key": "auth.login_required", "message": "Log in first.", "params": {}}}
WITHOUT_JSON = frozenset({"serve", "admin", "completion"})
NEEDS_NOTHING = {"repositories": []}


def every_command() -> Iterator[tuple[str, ...]]:
    root: Any = typer.main.get_command(cli)
    assert isinstance(root, CommandLine)
    for name in COMMANDS:
        command = root.get_command(None, name)
        yield (name,)
        for inner in getattr(command, "commands", {}):
            yield name, inner


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    monkeypatch.delenv("HOLDFAST_SERVER", raising=False)


def logged_in_to(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("HOLDFAST_SERVER", address)
    monkeypatch.setenv("HOLDFAST_TOKEN", "a token")


def test_every_command_has_help_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in every_command():
        shown = run(monkeypatch, *words, "--help", is_terminal=True)

        assert shown.code == 0, words
        assert "Usage:" in shown.out
        assert "unless told" not in shown.out
        assert "may be repeated" not in shown.out
        assert "[default: no-" not in shown.out, "an option that is off by default has no opposite"
        assert "(default " not in shown.out
        assert not re.search(r"\{[^}]*[A-Z]|\[\[", shown.out.splitlines()[0]), "names of arguments are in lower case"
        assert "--json" in shown.out or words[0] in WITHOUT_JSON or len(words) == 1, words
        assert len(max(shown.out.splitlines(), key=len)) <= 100, words


def test_the_help_groups_the_commands_and_shows_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(monkeypatch, "--help", is_terminal=True)

    assert all(f"{place.heading}:" in shown.out for place in COMMANDS.values())
    assert "holdfast repos create etc /srv/backup/etc --source /etc" in shown.out


def test_every_command_is_documented() -> None:
    text = DOCUMENT.read_text()

    missing = [words for words in every_command() if f"`{' '.join(words)}" not in text]
    assert missing == []


SIMULATED = {
    "policy": {
        "keep_within": "2d",
        "keep_last": 30,
        "keep_hourly": 24,
        "keep_daily": 14,
        "keep_weekly": 8,
        "keep_yearly": 2,
    },
    "kept_now": 5,
    "removed_now": 2,
    "days": [{"day": f"2026-{month:02}-01", "restore_points": 1} for month in range(12, 0, -1)],
    "gaps": [{"age": age, "worst_seconds": 40 * 86_400} for age in ("day", "week", "month", "quarter", "year")],
    "losses": {"versions_lost": 2, "paths_lost": 0, "freed_bytes_at_most": 18, "sample": []},
    "forecast": {"reason": "several_series"},
}


def test_a_retention_chart_fits_a_terminal_and_explains_its_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = {"id": 1, "name": "a-repository-with-a-name-that-takes-its-place", "path": "/r"}
    answer = {
        "until": "2026-12-31",
        "is_shortened": True,
        "archives": 1234,
        "backups": {"origin": "assumed", "count": 26_000},
        "simulated": SIMULATED,
        "compared": SIMULATED,
    }
    url = "/api/repositories/"
    with serving({("GET", url): {"repositories": [repository]}, ("POST", f"{url}1/retention/simulate"): answer}) as at:
        logged_in_to(monkeypatch, at)
        shown = run(monkeypatch, "retention", "compare", "1", "--keep-daily", "14", is_terminal=False)

    assert shown.code == 0, shown.err
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "█ has a restore point on 31 Dec 2026, · none from that day" in shown.out
    assert "This would lose 0 paths completely and 2 file versions (18 B before" in shown.out


def test_the_documented_exit_codes_match_the_program() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", DOCUMENT.read_text(), re.MULTILINE)}
    known = {value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}

    assert known | {75, 78} <= documented
    assert documented - known <= {73, 75, 78}


def test_category_filters_match_those_of_the_service() -> None:
    assert {str(word) for word in CategoryWord} == CATEGORIES


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("no-such-command",), "No such command"),
        (("ops", "list", "--status", "nonsense"), "'pending', 'running'"),
        (("ops", "list", "--category", "nonsense"), "'maintenance'"),
        (("restore", "etc", "latest", "/x", "--overwrite", "sometimes"), "skip"),
        (("backup",), "repository"),
    ],
)
def test_a_wrong_command_prints_one_sentence_and_exits_with_2(
    words: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run(monkeypatch, *words, is_terminal=True)
    as_json = run(monkeypatch, *words, "--json", is_terminal=True)

    assert plain.code == as_json.code == exit_codes.USAGE
    assert expected in plain.err
    assert "--help" in plain.err
    assert plain.out == as_json.out == ""
    error = json.loads(as_json.err)["error"]
    assert (error["key"], error["exit_code"]) == ("client.usage", exit_codes.USAGE)


def test_a_command_without_a_login_exits_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(monkeypatch, "repos", is_terminal=True)

    assert shown.code == exit_codes.NOT_ALLOWED
    assert "holdfast login" in shown.err


def test_an_expired_session_prints_one_sentence_with_the_login_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(
        {("GET", "/api/repositories/"): REFUSED, ("POST", "/api/auth/refresh"): REFUSED}, status=401
    ) as address:
        logged_in_to(monkeypatch, address)
        shown = run(monkeypatch, "repos", is_terminal=True)

    assert shown.code == exit_codes.NOT_ALLOWED
    assert f"holdfast login --server {address}" in shown.err
    assert shown.err.count("\n") == 1


def test_an_unreachable_service_exits_with_6(monkeypatch: pytest.MonkeyPatch) -> None:
    logged_in_to(monkeypatch, f"http://127.0.0.1:{free_port()}")
    plain = run(monkeypatch, "repos", is_terminal=True)
    as_json = run(monkeypatch, "repos", "--json", is_terminal=False)

    assert plain.code == as_json.code == exit_codes.UNREACHABLE
    assert "cannot reach" in plain.err
    assert json.loads(as_json.err)["error"]["key"] == "client.unreachable"
    assert as_json.out == ""


def test_another_program_at_the_address_is_reported_as_not_holdfast(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({}) as address:
        logged_in_to(monkeypatch, address)
        shown = run(monkeypatch, "repos", is_terminal=True)

    assert shown.code == exit_codes.NOT_FOUND
    assert "unlike Holdfast" in shown.err


def test_an_empty_list_suggests_what_to_do_next(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = {("GET", "/api/repositories/"): NEEDS_NOTHING, ("GET", "/api/activity/status"): NEEDS_NOTHING}
    with serving(empty) as address:
        logged_in_to(monkeypatch, address)
        shown = run(monkeypatch, "repos", is_terminal=False)

    assert (shown.code, shown.out) == (0, "")
    assert "holdfast repos create" in shown.err


def test_a_confirmation_without_a_terminal_is_refused_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {("GET", "/api/repositories/"): {"repositories": [{"id": 1, "name": "etc", "path": "/etc"}]}}
    with serving(known) as address:
        logged_in_to(monkeypatch, address)
        shown = run(monkeypatch, "repos", "forget", "etc", is_terminal=False)

    assert shown.code == exit_codes.USAGE
    assert "--yes" in shown.err


def test_control_c_reports_that_the_job_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(follow, "until_ended", interrupted)
    logged_in_to(monkeypatch, "http://127.0.0.1:1")
    shown = run(monkeypatch, "ops", "follow", "42", is_terminal=True)

    assert shown.code == exit_codes.INTERRUPTED == 130
    assert "continues" in shown.err
    assert "holdfast ops show 42" in shown.err
    assert "holdfast logs 42 -f" in shown.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_completion_for_each_shell(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(monkeypatch, "completion", shell, is_terminal=False)

    assert shown.code == 0
    assert "_HOLDFAST_COMPLETE" in shown.out
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=shown.out.encode(), check=True)


def completed(words: str, position: int, **environment: str) -> list[str]:
    """The completions that bash would offer."""
    typed = {"_HOLDFAST_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(position)}
    done = subprocess.run(
        [PROGRAM], env={**os.environ, **typed, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_shells_complete_commands_and_only_harmless_repository_names() -> None:
    names = ["etc", "evil$(touch pwn)", "even\x1b[2Jmore", "home"]
    known = {("GET", "/api/repositories/"): {"repositories": [{"id": 1, "name": name} for name in names]}}
    assert completed("holdfast repos cr", 2) == ["create"]
    with serving(known) as address:
        assert completed("holdfast backup e", 2, HOLDFAST_SERVER=address, HOLDFAST_TOKEN="a token") == ["etc"]


def test_client_commands_do_not_load_the_service(tmp_path: Path) -> None:
    look = "import sys; from holdfast.entry.main import cli\ntry: cli(['repos'])\nfinally: print(sorted(sys.modules))"
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", look], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == exit_codes.NOT_ALLOWED
    assert not {"sqlalchemy", "fastapi", "rich", "holdfast.composition"} & set(ast.literal_eval(done.stdout))


def test_an_untrusted_certificate_is_reported_with_the_option_that_trusts_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty = {("GET", "/api/repositories/"): NEEDS_NOTHING, ("GET", "/api/activity/status"): NEEDS_NOTHING}
    with serving(empty) as plain, tls_front(int(plain.rpartition(":")[2]), tmp_path) as (address, certificate):
        logged_in_to(monkeypatch, address)
        refused = run(monkeypatch, "repos", is_terminal=True)
        monkeypatch.setenv("HOLDFAST_CA_FILE", str(certificate))
        trusted = run(monkeypatch, "repos", is_terminal=True)
        monkeypatch.setenv("HOLDFAST_CA_FILE", str(tmp_path / "missing"))
        missing = run(monkeypatch, "repos", is_terminal=True)

    assert refused.code == exit_codes.UNREACHABLE
    assert "is not trusted" in refused.err
    assert "--ca-file" in refused.err
    assert trusted.code == exit_codes.DONE
    assert missing.code == exit_codes.USAGE


class Asked:
    """Stands in for the service: has two machines and records what is sent."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def get(self, path: str, **query: Any) -> Any:
        del query
        known = {
            "/api/repositories/": {"repositories": [{"id": 3, "name": "etc", "path": "/srv/etc"}]},
            "/api/ssh-connections": {"connections": [{"id": 5, "name": "store"}]},
            "/api/managed-machines/agents": {"agents": [{"id": 7, "name": "web"}]},
        }
        return known[path]

    def post(self, path: str, body: dict[str, Any]) -> Any:
        del path
        self.bodies.append(body)
        return {"job_id": 1, "id": 1, "status": "pending", "message": "Queued.", "name": "etc", "path": "/srv/etc"}

    def put(self, path: str, body: dict[str, Any]) -> Any:
        return self.post(path, body)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    service = Asked()
    monkeypatch.setattr(connection, "api", lambda: service)
    return service


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (None, ("local", None)),
        ("local", ("local", None)),
        ("ssh:store", ("ssh", 5)),
        ("agent:web", ("agent", 7)),
        ("agent:12", ("agent", 12)),
    ],
)
def test_a_restore_goes_to_the_named_machine(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, machine: str | None, expected: tuple[str, int | None]
) -> None:
    words = ("restore", "etc", "9", "/srv/restored", "--no-wait", *(("--machine", machine) if machine else ()))

    assert run(monkeypatch, *words, is_terminal=True).code == 0
    (body,) = asked.bodies
    assert (body["destination_type"], body.get("destination_machine_id")) == expected


@pytest.mark.parametrize(("machine", "folder"), [("web", "/x"), ("agent:web", "x"), ("agent:nobody", "/x")])
def test_a_restore_to_an_unknown_machine_or_a_relative_folder_is_refused(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, machine: str, folder: str
) -> None:
    shown = run(monkeypatch, "restore", "etc", "9", folder, "--machine", machine, is_terminal=True)

    assert shown.code in (exit_codes.USAGE, exit_codes.NOT_FOUND)
    assert asked.bodies == []


def test_the_services_own_folders_as_sources_can_be_confirmed_on_the_command_line(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ("--source", "/var/lib/holdfast")
    assert run(monkeypatch, "repos", "change", "etc", *source, is_terminal=True).code == 0
    assert run(monkeypatch, "repos", "change", "etc", *source, "--own-places-confirmed", is_terminal=True).code == 0

    assert [body.get("own_places_confirmed") for body in asked.bodies] == [None, True]
