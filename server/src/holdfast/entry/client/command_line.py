"""The `holdfast` command as a table: for each name, where its code is and under which heading `--help` lists it.

A command or group is loaded when it is called, so that the program starts fast however many there are. To add one,
write a module with a function or a `typer.Typer`, and add a line to `COMMANDS`.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import Abort, TyperException

from backup_engine.frozen import frozen
from holdfast.entry.client import exit_codes
from holdfast.entry.client.groups import shown
from holdfast.entry.client.output import errors_as_json, fail, remark

CLIENT = "holdfast.entry.client"
COMPLETING = "_HOLDFAST_COMPLETE"
"""Set by the shells' completion scripts; the program then prints possible completions."""
START = "Start here"
BACK_UP = "Back up and restore"
LOOK = "Look into archives"
WATCH = "Watch jobs"
ADMINISTER = "Administer the service"
INSTALLATION = "On the service's own machine"
OTHER = "Other"


@frozen
class Place:
    heading: str
    module: str
    attribute: str


COMMANDS: dict[str, Place] = {
    "status": Place(START, f"{CLIENT}.status", "status"),
    "login": Place(START, f"{CLIENT}.account", "login"),
    "logout": Place(START, f"{CLIENT}.account", "logout"),
    "account": Place(START, f"{CLIENT}.account", "account"),
    "backup": Place(BACK_UP, f"{CLIENT}.jobs", "backup"),
    "restore": Place(BACK_UP, f"{CLIENT}.jobs", "restore"),
    "download": Place(BACK_UP, f"{CLIENT}.archives", "download"),
    "check": Place(BACK_UP, f"{CLIENT}.jobs", "check"),
    "restore-check": Place(BACK_UP, f"{CLIENT}.jobs", "restore_check"),
    "prune": Place(BACK_UP, f"{CLIENT}.jobs", "prune"),
    "compact": Place(BACK_UP, f"{CLIENT}.jobs", "compact"),
    "delete": Place(BACK_UP, f"{CLIENT}.jobs", "delete"),
    "undelete": Place(BACK_UP, f"{CLIENT}.jobs", "undelete"),
    "protect": Place(BACK_UP, f"{CLIENT}.archives", "protect"),
    "unprotect": Place(BACK_UP, f"{CLIENT}.archives", "unprotect"),
    "wipe": Place(BACK_UP, f"{CLIENT}.jobs", "wipe"),
    "schedules": Place(BACK_UP, f"{CLIENT}.schedules", "schedules"),
    "archives": Place(LOOK, f"{CLIENT}.archives", "archives"),
    "browse": Place(LOOK, f"{CLIENT}.archives", "browse"),
    "search": Place(LOOK, f"{CLIENT}.archives", "search"),
    "history": Place(LOOK, f"{CLIENT}.archives", "history"),
    "activity": Place(WATCH, f"{CLIENT}.operations", "activity"),
    "logs": Place(WATCH, f"{CLIENT}.operations", "logs"),
    "ops": Place(WATCH, f"{CLIENT}.operations", "operations"),
    "alarms": Place(WATCH, f"{CLIENT}.alarms", "alarms"),
    "repos": Place(ADMINISTER, f"{CLIENT}.repositories", "repositories"),
    "retention": Place(ADMINISTER, f"{CLIENT}.retention", "retention"),
    "services": Place(ADMINISTER, f"{CLIENT}.services", "services"),
    "databases": Place(ADMINISTER, f"{CLIENT}.databases", "databases"),
    "mirror": Place(ADMINISTER, f"{CLIENT}.mirror", "mirror"),
    "remotes": Place(ADMINISTER, f"{CLIENT}.remotes", "remotes"),
    "machines": Place(ADMINISTER, f"{CLIENT}.machines", "machines"),
    "ssh": Place(ADMINISTER, f"{CLIENT}.ssh", "ssh"),
    "users": Place(ADMINISTER, f"{CLIENT}.users", "users"),
    "grants": Place(ADMINISTER, f"{CLIENT}.grants", "grants"),
    "notify": Place(ADMINISTER, f"{CLIENT}.notify", "notify"),
    "limits": Place(ADMINISTER, f"{CLIENT}.limits", "limits"),
    "scripts": Place(ADMINISTER, f"{CLIENT}.scripts", "scripts"),
    "packages": Place(ADMINISTER, f"{CLIENT}.packages", "packages"),
    "serve": Place(INSTALLATION, "holdfast.entry.main", "serve"),
    "admin": Place(INSTALLATION, "holdfast.entry.admin", "cli"),
    "completion": Place(OTHER, f"{CLIENT}.completion", "completion"),
    "version": Place(OTHER, "holdfast.entry.main", "version"),
}


class CommandLine(TyperGroup):
    """Loads commands from the table, and ends every run with one sentence and a documented exit code."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        place = COMMANDS.get(cmd_name)
        return None if place is None else _loaded(cmd_name, place)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading in dict.fromkeys(place.heading for place in COMMANDS.values()):
            names = [name for name, place in COMMANDS.items() if place.heading == heading]
            with formatter.section(heading):
                formatter.write_dl([(name, self.get_command(ctx, name).get_short_help_str(62)) for name in names])

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        if os.environ.get(COMPLETING):
            from holdfast.entry.client.completion import get_ready

            get_ready()
        given = list(sys.argv[1:] if args is None else args)
        errors_as_json("--json" in (given[: given.index("--")] if "--" in given else given))
        try:
            code = super().main(given, standalone_mode=False, **extra)
        except TyperException as error:
            code = _explained(error)
        except Abort:
            remark("Stopped.")
            code = exit_codes.INTERRUPTED
        code = code if isinstance(code, int) else exit_codes.DONE
        if standalone_mode:
            sys.exit(code)
        return code


def _explained(error: TyperException) -> int:
    try:
        _explain(error)
    except typer.Exit as ended:
        return ended.exit_code


def _explain(error: TyperException) -> NoReturn:
    """Explain what is wrong with the command as typed; a group without a command shows its help."""
    context = getattr(error, "ctx", None)
    message = error.format_message().replace("Value error, ", "")
    if context is None:
        fail(message, exit_codes.USAGE, key="client.usage")
    if type(error).__name__ == "NoArgsIsHelpError":
        remark(message)
        raise typer.Exit(exit_codes.USAGE)
    fail(f"{message.rstrip('.')}. See: {context.command_path} --help", exit_codes.USAGE, key="client.usage")


def _loaded(name: str, place: Place) -> Any:
    made = getattr(import_module(place.module), place.attribute)
    if isinstance(made, typer.Typer):
        command: Any = typer.main.get_group(made)
    else:
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        alone.command(name, epilog=shown(*getattr(made, "examples", ())))(made)
        command = typer.main.get_command(alone)
    command.name = name
    return command
