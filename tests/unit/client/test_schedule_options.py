"""How the options of `holdfast schedules create` and `edit` change a schedule's steps."""

from typing import Any

import pytest
import typer

from holdfast.entry.client.schedule_options import StepOptions, steps
from holdfast.entry.client.schedule_text import steps as in_words

SCRIPTS = [{"id": 7, "name": "freeze"}, {"id": 8, "name": "thaw:fast"}]
PRESENT = [
    {"kind": "script", "when": "before", "script_id": 1, "on_failure": "stop"},
    {"kind": "script", "when": "before", "script_id": 2, "on_failure": "warn"},
    {"kind": "backup"},
    {"kind": "script", "when": "after", "script_id": 3, "run_on": "always", "parameters": {"level": "2"}},
]


class Service:
    def get(self, path: str) -> dict[str, Any]:
        assert path == "/api/scripts/"
        return {"scripts": SCRIPTS}


def made(present: list[dict[str, Any]], **given: Any) -> list[dict[str, Any]]:
    unset = dict.fromkeys(("compact", "check_every", "restore_check_every", "mirror", "dump", "before", "after"))
    options = StepOptions(**{"keep": {}, **unset, **given})
    return sorted(steps(Service(), present, options), key=str)  # type: ignore[arg-type]


def test_all_scripts_are_kept_when_another_step_changes() -> None:
    assert made(PRESENT, dump=True) == sorted([*PRESENT, {"kind": "dump"}], key=str)
    assert made(PRESENT) == sorted(PRESENT, key=str)


def test_given_scripts_replace_only_those_of_the_same_place() -> None:
    found = made(PRESENT, before=["freeze:warn", "thaw:fast"])
    before = [step for step in found if step.get("when") == "before"]
    assert before == [
        {"kind": "script", "when": "before", "script_id": 7, "on_failure": "warn"},
        {"kind": "script", "when": "before", "script_id": 8},
    ]
    assert PRESENT[3] in found
    assert {"kind": "script", "when": "after", "script_id": 7, "run_on": "failure"} in made([], after=["7:failure"])


def test_a_script_may_run_once_for_all_repositories() -> None:
    assert {"kind": "script", "when": "before", "script_id": 7, "scope": "once"} in made([], before=["freeze:once"])
    both = {"kind": "script", "when": "after", "script_id": 7, "run_on": "failure", "scope": "once"}
    assert both in made([], after=["freeze:failure:once"])
    assert in_words({"steps": [both]}) == ["script 7 after the backup (once for all repositories, on failure)"]


def test_a_script_that_does_not_exist_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        made([], before=["nobody:warn"])
    assert "nobody" in capsys.readouterr().err


def test_dumps_are_turned_on_and_off() -> None:
    assert made([], dump=True) == [{"kind": "backup"}, {"kind": "dump"}]
    assert made([{"kind": "backup"}, {"kind": "dump"}], dump=False) == [{"kind": "backup"}]


def test_scripts_are_shown_with_their_place_and_rule() -> None:
    assert in_words({"steps": PRESENT}) == [
        "script 1 before the backup",
        "script 2 before the backup (only warns)",
        "backup",
        "script 3 after the backup",
    ]
