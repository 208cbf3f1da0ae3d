"""Prints lists of objects as tables, and one object as a list of fields."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer

from backup_engine.frozen import frozen
from holdfast.entry.client.output import bold, print_json, remark, terminal_width
from holdfast.entry.client.text import clean, padded, shorten, width
from holdfast.entry.client.units import UNKNOWN

MINIMUM_COLUMN = 8
GAP = "  "
Fields = Iterable[str | tuple[str, Any]]
"""The fields to show: field names, or labels with values."""


@frozen
class Column:
    title: str
    value: str | Callable[[Any], Any] | None = None
    """A field name, or a function that makes the cell (default: the field named like the title)."""
    right: bool = False
    elastic: bool = False
    """May be shortened if the table is wider than the terminal."""

    def cell(self, row: Any) -> str:
        if callable(self.value):
            return _cell(self.value(row))
        return _cell(row[self.value or self.title.lower().replace(" ", "_")])


ID = Column("ID", right=True)
NAME = Column("NAME", elastic=True)


def print_list(
    answer: Any, field: str, columns: Sequence[str | Column], *, as_json: bool, empty: str = "", note: str = ""
) -> None:
    """Print the objects in a field of the response as a table with a note below it, or the response as JSON."""
    if as_json:
        print_json(answer)
        return
    print_table(columns, answer[field], empty=empty)
    if note:
        remark(note)


def print_table(columns: Sequence[str | Column], rows: Iterable[Any], *, empty: str = "") -> None:
    """Print a table that fits the terminal; in a pipe, one line per row with cells separated by tabs."""
    layout = [column if isinstance(column, Column) else Column(column) for column in columns]
    shown = [[column.cell(row) for column in layout] for row in rows]
    if not shown:
        if empty:
            remark(empty)
        return
    if not sys.stdout.isatty():
        for row in shown:
            typer.echo("\t".join(row))
        return
    widths = fitted(layout, shown, terminal_width())
    typer.echo(bold(_line(layout, [column.title for column in layout], widths)))
    for row in shown:
        typer.echo(_line(layout, row, widths))


def print_object(answer: Any, fields: Fields, *, as_json: bool) -> None:
    """Print one object as a list of its fields, or as JSON."""
    if as_json:
        print_json(answer)
    else:
        print_fields(answer, fields)


def print_fields(answer: Any, fields: Fields) -> None:
    """Print the names and values of one object, one per line, without empty ones.

    A name alone stands for the field with that name.
    """
    named = [(one, answer[one]) if isinstance(one, str) else one for one in fields]
    shown = [(name, _cell(value)) for name, value in named if value not in (None, "", [])]
    if not sys.stdout.isatty():
        for name, value in shown:
            typer.echo(f"{name}\t{value}")
        return
    widest = max((width(name) for name, _ in shown), default=0)
    for name, value in shown:
        typer.echo(f"{bold(padded(name, widest))}{GAP}{value}")


def fitted(columns: Sequence[Column], rows: Sequence[Sequence[str]], available: int) -> list[int]:
    """Column widths with which a line fits the terminal: elastic columns shrink first, widest first."""
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
