"""What commands print: tables for people, JSON for programs."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print the service's answer as JSON.")]


def print_json(answer: Any) -> None:
    typer.echo(json.dumps(answer, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on a terminal; one line per row, cells separated by tabs, when piped."""
    shown = [[_cell(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for row in shown:
            typer.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=None, header_style="bold")
    for row in shown:
        table.add_row(*row)
    Console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return str(value).replace("\t", " ").replace("\n", " ")


def size(number: int | None) -> str:
    """Bytes as a person reads them."""
    if number is None:
        return "unknown"
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def when(moment: str | None) -> str:
    return moment[:19].replace("T", " ") if moment else "-"
