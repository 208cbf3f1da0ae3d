"""All output of client commands passes through here, so that no external text reaches the terminal unfiltered."""

import json
import os
import shutil
import sys
from typing import Annotated, Any, NoReturn

import typer

from holdfast.entry.client import exit_codes
from holdfast.entry.client.text import clean, clean_json, clean_lines


def flag(name: str, meaning: str) -> Any:
    """An option without a value, for `Annotated[bool, …]`."""
    return typer.Option(name, help=meaning)


AsJson = Annotated[bool, typer.Option("--json", help="Print the response as JSON; errors too, on stderr.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


class _Errors:
    as_json = False
    """Set by `command_line` for each run of the program, before anything can fail."""


def errors_as_json(wanted: bool) -> None:
    _Errors.as_json = wanted


def say(text: str) -> None:
    """Print lines of the program's own; quoted text in them is made safe."""
    typer.echo(clean_lines(text))


def remark(text: str) -> None:
    """Print lines for people on standard error, so that scripts do not read them."""
    typer.echo(clean_lines(text), err=True)


def fail(message: str, code: int, *, key: str | None = None, params: dict[str, Any] | None = None) -> NoReturn:
    """End the program with a sentence on standard error, or with a JSON object if the command was given `--json`."""
    if _Errors.as_json:
        error = {"key": key, "message": message, "params": params or {}, "exit_code": code}
        typer.echo(clean_json(json.dumps({"error": error}, ensure_ascii=False)), err=True)
    else:
        remark(f"holdfast: {message}" + (f" ({key})" if key and not key.startswith("client.") else ""))
    raise typer.Exit(code)


def print_json(answer: Any) -> None:
    typer.echo(clean_json(json.dumps(answer, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False)))


def done(sentence: str, *, as_json: bool, **facts: Any) -> None:
    """Finish a command that returns no content: print a sentence, or the facts as JSON."""
    if as_json:
        print_json({**facts, "message": sentence})
    else:
        say(sentence)


def report(answer: Any, sentence: str, *, as_json: bool, hint: str = "") -> None:
    """Finish a command: print a sentence and a hint, or the whole response as JSON."""
    if as_json:
        print_json(answer)
        return
    say(sentence)
    if hint:
        remark(hint)


def terminal_width() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def may_decorate() -> bool:
    """Whether the terminal supports bold text and overwriting a line."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if may_decorate() and not os.environ.get("NO_COLOR") else text


def confirm(question: str, *, yes: bool) -> None:
    """Continue only if the user agrees; without a terminal, `--yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail(f"{question} Nothing was done. Add --yes to skip the question.", exit_codes.USAGE)
    if not typer.confirm(clean(question)):
        remark("Nothing was done.")
        raise typer.Exit(exit_codes.FAILED)
