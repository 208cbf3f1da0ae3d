"""How groups of commands and examples in their help are written."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer

Function = TypeVar("Function", bound=Callable[..., Any])


def group(help_text: str, *lines: str, **more: Any) -> typer.Typer:
    """A group of commands, with examples at the end of its help."""
    more = {"no_args_is_help": True, **more}
    return typer.Typer(help=help_text, rich_markup_mode=None, add_completion=False, epilog=shown(*lines), **more)


def examples(*lines: str) -> Callable[[Function], Function]:
    """Examples for the help of a command that is a plain function."""

    def remember(function: Function) -> Function:
        vars(function)["examples"] = lines
        return function

    return remember


def shown(*lines: str) -> str | None:
    """Examples as the end of a help text: kept as they are written."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) if lines else None
