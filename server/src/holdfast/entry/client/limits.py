"""`holdfast limits`: how many jobs run at the same time."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.groups import by_default, group_with_default
from holdfast.entry.client.lookup import given
from holdfast.entry.client.output import AsJson, fail, print_json, say
from holdfast.entry.client.table import Column, print_table

limits = group_with_default(
    "Limits on concurrent jobs: show, set.",
    "holdfast limits show",
    "holdfast limits set --backups 2 --total 4",
)
Number = int | None
PREFIX = "max_running_"


@by_default(limits)
@limits.command("show")
def show_limits(as_json: AsJson = False) -> None:
    """Show the limits and how many jobs are running now."""
    answer = connection.api().get("/api/operations/queue")
    if as_json:
        print_json({**answer["limits"], "paused": answer["paused"]})
        return
    _print(answer["limits"], answer["limits"]["running"])
    if answer["paused"]:
        say("Follow-up work is paused; see: holdfast ops resume")


@limits.command("set")
def set_limits(
    backups: Annotated[Number, typer.Option(help="Concurrent backups.")] = None,
    restores: Annotated[Number, typer.Option(help="Concurrent restores.")] = None,
    maintenance: Annotated[Number, typer.Option(help="Concurrent checks, prunes and other maintenance.")] = None,
    index: Annotated[Number, typer.Option(help="Concurrent index jobs.")] = None,
    scripts: Annotated[Number, typer.Option(help="Concurrent scripts.")] = None,
    total: Annotated[Number, typer.Option(help="All concurrent jobs.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change limits; the others stay unchanged. They apply immediately."""
    wanted = given(
        backups=backups, restores=restores, maintenance=maintenance, index=index, scripts=scripts, total=total
    )
    body = {f"{PREFIX}{name}": value for name, value in wanted.items()}
    if not body:
        fail("specify at least one limit, such as --backups 2.", exit_codes.USAGE)
    answer = connection.api().put("/api/operations/limits", body)
    if as_json:
        print_json(answer)
    else:
        _print(answer, {})


def _print(answer: dict[str, Any], running: dict[str, int]) -> None:
    print_table(
        ("JOBS", Column("LIMIT", right=True), Column("RUNNING", lambda one: running.get(one["jobs"]), right=True)),
        [
            {"jobs": name.removeprefix(PREFIX), "limit": value}
            for name, value in answer.items()
            if name.startswith(PREFIX)
        ],
    )
