"""`holdfast limits`: how many jobs run at the same time."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.groups import group
from holdfast.entry.client.output import AsJson, Column, fail, print_json, print_table, say

limits = group(
    "How many jobs run at the same time: show, set.",
    "holdfast limits show",
    "holdfast limits set --backups 2 --total 4",
    no_args_is_help=False,
    invoke_without_command=True,
)
Number = int | None


@limits.callback()
def default(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        show_limits(as_json=as_json)


@limits.command("show")
def show_limits(as_json: AsJson = False) -> None:
    """Show the limits, and how many jobs run now."""
    answer = connection.api().get("/api/operations/queue")
    if as_json:
        print_json({**answer["limits"], "paused": answer["paused"]})
        return
    _print(answer["limits"], answer["limits"]["running"])
    if answer["paused"]:
        say("Follow-up work is paused; see: holdfast ops resume")


@limits.command("set")
def set_limits(
    backups: Annotated[Number, typer.Option(help="Backups at the same time.")] = None,
    restores: Annotated[Number, typer.Option(help="Restores at the same time.")] = None,
    maintenance: Annotated[Number, typer.Option(help="Concurrent checks, prunes and other maintenance.")] = None,
    index: Annotated[Number, typer.Option(help="Index jobs at the same time.")] = None,
    scripts: Annotated[Number, typer.Option(help="Scripts at the same time.")] = None,
    total: Annotated[Number, typer.Option(help="All jobs at the same time.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change limits; those not given stay. They apply immediately."""
    wanted = {
        "backups": backups,
        "restores": restores,
        "maintenance": maintenance,
        "index": index,
        "scripts": scripts,
        "total": total,
    }
    body = {f"max_running_{name}": value for name, value in wanted.items() if value is not None}
    if not body:
        fail("no limit was given, such as --backups 2.", exit_codes.USAGE)
    answer = connection.api().put("/api/operations/limits", body)
    if as_json:
        print_json(answer)
    else:
        _print(answer, {})


def _print(answer: dict[str, Any], running: dict[str, int]) -> None:
    print_table(
        ("JOBS", Column("LIMIT", right=True), Column("RUNNING", right=True)),
        (
            (name.removeprefix("max_running_"), value, running.get(name.removeprefix("max_running_")))
            for name, value in answer.items()
            if name.startswith("max_running_")
        ),
    )
