"""How command groups and the examples in their help are defined."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer

from holdfast.entry.client.output import AsJson

Function = TypeVar("Function", bound=Callable[..., Any])


def group(help_text: str, *lines: str, **more: Any) -> typer.Typer:
    """Define a group of commands, with examples at the end of its help."""
    more = {"no_args_is_help": True, **more}
    return typer.Typer(help=help_text, rich_markup_mode=None, add_completion=False, epilog=shown(*lines), **more)


def group_with_default(help_text: str, *lines: str) -> typer.Typer:
    """Define a group that also works without a command: see `by_default`."""
    return group(help_text, *lines, no_args_is_help=False, invoke_without_command=True)


def by_default(commands: typer.Typer) -> Callable[[Function], Function]:
    """Mark the command that a group runs when it is called without one."""

    def remember(function: Function) -> Function:
        @commands.callback()
        def default(context: typer.Context, as_json: AsJson = False) -> None:
            if context.invoked_subcommand is None:
                function(as_json=as_json)

        return function

    return remember


def examples(*lines: str) -> Callable[[Function], Function]:
    """Add examples to the help of a command that is a plain function."""

    def remember(function: Function) -> Function:
        vars(function)["examples"] = lines
        return function

    return remember


def shown(*lines: str) -> str | None:
    """Format examples for the end of a help text, keeping their line breaks."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) if lines else None
