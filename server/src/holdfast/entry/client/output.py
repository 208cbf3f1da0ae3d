"""Everything that client commands print goes through here, so that nothing from elsewhere reaches the terminal as it is."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import typer

from holdfast.entry.client import exit_codes
from holdfast.entry.client.text import clean, clean_json, clean_lines, padded, shorten, width
from holdfast.entry.client.units import UNKNOWN

MINIMUM_COLUMN = 8
GAP = "  "
AsJson = Annotated[bool, typer.Option("--json", help="Print the service's answer as JSON; errors, too (on stderr).")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


class _Errors:
    as_json = False
    """Set for each run of the program by `command_line`, before anything can fail."""


def errors_as_json(wanted: bool) -> None:
    _Errors.as_json = wanted


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False
    elastic: bool = False
    """May be shortened when the table is wider than the terminal."""


def say(text: str) -> None:
    """Print our own lines; quoted text in them is made safe."""
    typer.echo(clean_lines(text))


def remark(text: str) -> None:
    """Print lines for people on standard error, where they do not disturb what a script reads."""
    typer.echo(clean_lines(text), err=True)


def fail(message: str, code: int, *, key: str | None = None, params: dict[str, Any] | None = None) -> NoReturn:
    """End the program with a sentence on standard error; as a JSON object when the command was given `--json`."""
    if _Errors.as_json:
        error = {"key": key, "message": message, "params": params or {}, "exit_code": code}
        typer.echo(clean_json(json.dumps({"error": error}, ensure_ascii=False)), err=True)
    else:
        remark(f"holdfast: {message}" + (f" ({key})" if key and not key.startswith("client.") else ""))
    raise typer.Exit(code)


def print_json(answer: Any) -> None:
    typer.echo(clean_json(json.dumps(answer, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False)))


def done(sentence: str, *, as_json: bool, **facts: Any) -> None:
    """The end of a command whose answer has no content: a sentence, or the facts as JSON."""
    if as_json:
        print_json({**facts, "message": sentence})
    else:
        say(sentence)


def print_table(columns: Sequence[str | Column], rows: Iterable[Sequence[Any]], *, empty: str = "") -> None:
    """A table that fits the terminal; one line per row, cells separated by tabs, when piped."""
    shown = [[_cell(value) for value in row] for row in rows]
    if not shown:
        if empty:
            remark(empty)
        return
    if not sys.stdout.isatty():
        for row in shown:
            typer.echo("\t".join(row))
        return
    layout = [column if isinstance(column, Column) else Column(column) for column in columns]
    widths = fitted(layout, shown, terminal_width())
    typer.echo(bold(_line(layout, [column.title for column in layout], widths)))
    for row in shown:
        typer.echo(_line(layout, row, widths))


def print_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """Names and values of one object, a line each; empty ones are left out."""
    shown = [(name, _cell(value)) for name, value in fields if value not in (None, "", [])]
    if not sys.stdout.isatty():
        for name, value in shown:
            typer.echo(f"{name}\t{value}")
        return
    widest = max((width(name) for name, _ in shown), default=0)
    for name, value in shown:
        typer.echo(f"{bold(padded(name, widest))}{GAP}{value}")


def fitted(columns: Sequence[Column], rows: Sequence[Sequence[str]], available: int) -> list[int]:
    """The width of each column so that a line fits: elastic columns give way first, the widest first."""
    widths = [
        max(width(row[place]) for row in (*rows, [one.title for one in columns])) for place in range(len(columns))
    ]
    available -= len(GAP) * (len(columns) - 1)
    for candidates in ([place for place, one in enumerate(columns) if one.elastic], range(len(columns))):
        while sum(widths) > available:
            widest = max(candidates, key=lambda place: widths[place], default=None)
            if widest is None or widths[widest] <= MINIMUM_COLUMN:
                break
            widths[widest] -= 1
    return widths


def terminal_width() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def may_decorate() -> bool:
    """Whether the terminal takes bold text and lines that are written again."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if may_decorate() and not os.environ.get("NO_COLOR") else text


def confirm(question: str, *, yes: bool) -> None:
    """Go on only after a yes; without a terminal to ask on, `--yes` must have been given."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail(f"{question} Nothing was done. Add --yes to skip the question.", exit_codes.USAGE)
    if not typer.confirm(clean(question)):
        remark("Nothing was done.")
        raise typer.Exit(exit_codes.FAILED)


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    shown = [
        padded(shorten(cell, columns_), columns_, right=column.right)
        for column, cell, columns_ in zip(columns, cells, widths, strict=True)
    ]
    return GAP.join(shown).rstrip()


def _cell(value: Any) -> str:
    if value is None or value == "":
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(clean(one) for one in value) or UNKNOWN
    return clean(value)
