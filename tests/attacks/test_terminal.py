"""Names, logs and responses that contain terminal escape sequences, markup or forged lines."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.composed import composed_app
from tests.support.hostile_service import answers, serving
from tests.support.terminals import Shown, run

TITLE = "\x1b]0;pwn\x07"
HOSTILE = f"{TITLE}\x1b[2J\x9b31m\r\nforged\tcell \u202egnp.exe\u2066 \x7f\u200b[red]x[/red] \x00end"
OURS = re.compile("\x1b\\[1m|\x1b\\[0m|\r[^\r\n]*\x1b\\[K")
"""What the command line itself writes: bold on and off, and the line that shows progress."""
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")

COMMANDS = (
    "status",
    "account show",
    "account tokens",
    "account create-token x",
    "repos",
    "repos show 3",
    "repos export-key 3",
    "repos change 3 --name x",
    "repos break-lock 3 --yes",
    "repos forget 3 --yes",
    "retention show 3",
    "retention set 3 --keep-last 1",
    "retention past 3",
    "retention simulate 3 --keep-last 1",
    "schedules list",
    "schedules show 3",
    "schedules create x --repository 3 --at 02:00",
    "schedules edit 3 --keep-daily 7",
    "schedules disable 3",
    "schedules snooze 3 3d",
    "schedules run 3",
    "schedules next 3",
    "schedules calendar",
    "schedules history 3",
    "schedules delete 3 --yes",
    "schedules preview --at 02:00",
    "archives 3",
    "browse 3 3",
    "search 3 x",
    "search x",
    "history 3 x",
    "activity",
    "logs 3",
    "ops list",
    "ops show 3",
    "ops cancel 3",
    "ops follow 3",
    "backup 3",
    "restore 3 3 /tmp/x",
    "check 3",
    "compact 3",
    "prune 3",
    "restore-check 3 --archive 3",
    "delete 3 3 --yes",
    "undelete 3",
    "undelete 3 x",
    "mirror status 3",
    "mirror set 3 3 x",
    "mirror sync 3",
    "services show 3",
    "services set 3 x.service",
    "databases list 3",
    "databases add 3 x --kind sqlite",
    "databases remove 3 3 --yes",
    "databases dump 3",
    "remotes list",
    "remotes providers",
    "remotes test 3",
    "machines",
    "machines enroll x",
    "machines tokens",
    "machines agents",
    "machines show 3",
    "machines revoke 3 --yes",
    "ssh",
    "ssh show 3",
    "ssh add x host",
    "ssh test 3",
    "ssh key",
    "users",
    "users show 3",
    "users allow 3 3 viewer",
    "users access 3",
    "limits",
    "packages list",
    "packages install 3",
)


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    document = composed_app().openapi()
    known = answers(document, HOSTILE)
    known["GET", "/api/operations/{operation_id}"]["status"] = "failed"
    for log in ("/api/operations/{operation_id}/logs",):
        known["GET", log]["status"] = "completed"
    with serving(known) as address:
        yield address


@pytest.fixture(autouse=True)
def logged_in(service: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_SERVER", service)
    monkeypatch.setenv("HOLDFAST_TOKEN", "a token")


def assert_harmless(shown: Shown) -> None:
    for text in (shown.out, shown.err):
        plain = OURS.sub("", text)
        assert not FORBIDDEN.search(plain), repr(plain)
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_no_response_of_a_service_controls_the_terminal(
    command: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = run(monkeypatch, *command.split(), is_terminal=is_terminal)

    assert_harmless(shown)
    assert shown.code != 2, shown.err  # the command exists


@pytest.mark.parametrize("command", ["repos", "ops list", "logs 3", "users"])
def test_json_output_keeps_the_text_but_contains_no_terminal_control_characters(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = run(monkeypatch, *command.split(), "--json", is_terminal=True)

    assert_harmless(shown)
    assert HOSTILE in _texts(json.loads(shown.out))


def test_a_line_break_in_a_name_does_not_forge_an_extra_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(monkeypatch, "repos", is_terminal=False)

    assert len(shown.out.splitlines()) == 1
    assert "\\r\\nforged\\tcell" in shown.out


def test_markup_in_a_name_is_shown_and_not_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(monkeypatch, "logs", "3", is_terminal=True)

    assert "[red]x[/red]" in shown.out
    assert "\\x1b]0;pwn\\x07" in shown.out


def test_an_error_of_a_hostile_service_is_shown_without_escape_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = {"detail": {"key": HOSTILE, "message": HOSTILE, "params": {}}}
    with serving({("GET", "/api/repositories/"): refusal}, status=403) as address:
        monkeypatch.setenv("HOLDFAST_SERVER", address)
        plain = run(monkeypatch, "repos", is_terminal=True)
        as_json = run(monkeypatch, "repos", "--json", is_terminal=True)

    assert_harmless(plain)
    assert_harmless(as_json)
    assert plain.code == as_json.code == 3
    assert json.loads(as_json.err)["error"]["message"] == HOSTILE


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []
