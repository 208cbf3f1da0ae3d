"""The `holdfast` command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.entry.client.command_line import CommandLine
from holdfast.entry.client.groups import group
from holdfast.entry.client.output import AsJson, done
from holdfast.kit.standard_output import write_completely

if TYPE_CHECKING:
    from holdfast.settings import Settings

EXIT_UNUSABLE = 78
"""A setting or the store is unusable (docs/cli.md)."""

cli = group(
    "Holdfast: backup management for the BorgBackup engine.",
    "holdfast login --server http://127.0.0.1:8080 --username admin",
    "holdfast repos create etc /srv/backup/etc --source /etc",
    "holdfast backup etc",
    "holdfast restore etc latest /srv/restored --path etc/hosts",
    "holdfast status",
    cls=CommandLine,
    pretty_exceptions_enable=False,
)


@cli.callback()
def holdfast() -> None:
    """The root command; its subcommands are in `client.command_line`."""


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (default: 127.0.0.1).")] = None,
    port: Annotated[str | None, typer.Option(help="Port to listen on (default: 8080); 0 picks a free one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder for the store, logs and keys (default: .data).")] = None,
    role: Annotated[
        str | None, typer.Option(help="all, api or runner (default: all); api and runner need PostgreSQL.")
    ] = None,
) -> None:
    """Run the service."""
    settings = read_settings(host=host, port=port, data_dir=data_dir, role=role)
    from holdfast.entry import quick_start
    from holdfast.entry.first_process import fork_if_first

    if (ended := fork_if_first()) is not None:
        raise typer.Exit(ended)
    quick_start.begin()
    from holdfast.entry.serve import serve as run

    raise typer.Exit(run(settings))


def version(as_json: AsJson = False) -> None:
    """Show the version."""
    from importlib.metadata import version as package_version

    found = package_version("holdfast")
    done(f"holdfast {found}", as_json=as_json, version=found)


def read_settings(**given: Any) -> "Settings":
    """Read settings from the environment, the file and the given options. Invalid ones end the program with code 78."""
    from tomllib import TOMLDecodeError

    from pydantic import ValidationError

    from holdfast.settings import Settings, sentences_about

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        problems = sentences_about(error)
    except (TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        problems = [f"holdfast.toml cannot be read: {error}."]
    for problem in problems:
        typer.echo(f"holdfast: {problem}", err=True)
    raise typer.Exit(EXIT_UNUSABLE)


def main() -> None:
    write_completely()
    cli()
