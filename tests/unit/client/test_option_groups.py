"""Options that several commands share."""

from typing import Annotated, Any

import typer
from typer.testing import CliRunner

from holdfast.entry.client.groups import by_default, group_with_default
from holdfast.entry.client.option_groups import NOTHING, Given, with_options
from holdfast.entry.client.output import AsJson

SIZES = {
    "width": Annotated[int | None, typer.Option(help="Its width.")],
    "is_round": Annotated[bool | None, typer.Option("--round/--square")],
    "names": Annotated[list[str] | None, typer.Option("--name")],
}


def called_with(*arguments: str) -> dict[str, Any]:
    received: dict[str, Any] = {}

    @with_options(sizes=SIZES)
    def draw(what: str, sizes: Given = NOTHING, as_json: AsJson = False) -> None:
        """Draw a thing."""
        received.update(what=what, sizes=dict(sizes), as_json=as_json)

    app = typer.Typer()
    app.command()(draw)
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return received


def test_a_command_gets_only_the_options_that_were_given() -> None:
    assert called_with("box") == {"what": "box", "sizes": {}, "as_json": False}
    given = called_with("box", "--width", "0", "--square", "--name", "a", "--name", "b", "--json")
    assert given == {"what": "box", "sizes": {"width": 0, "is_round": False, "names": ["a", "b"]}, "as_json": True}


def test_a_group_without_a_command_runs_its_default() -> None:
    ran: list[bool] = []
    things = group_with_default("Things.")

    @by_default(things)
    @things.command("list")
    def list_things(as_json: AsJson = False) -> None:
        ran.append(as_json)

    @things.command("other")
    def other() -> None:
        ran.clear()

    assert CliRunner().invoke(things, []).exit_code == 0
    assert CliRunner().invoke(things, ["--json"]).exit_code == 0
    assert CliRunner().invoke(things, ["list"]).exit_code == 0
    assert ran == [False, True, False]
