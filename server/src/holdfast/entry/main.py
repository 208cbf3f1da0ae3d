"""The `holdfast` command."""

from importlib.metadata import version as package_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.entry import admin
from holdfast.entry.client import account, jobs, mirror, operations, packages, repositories

if TYPE_CHECKING:
    from holdfast.settings import Settings

cli = typer.Typer(
    help="Holdfast: backup management for the BorgBackup engine.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
cli.add_typer(admin.cli, name="admin", rich_help_panel="On the service's machine")
cli.add_typer(operations.operations, name="ops", rich_help_panel="Talk to a running service")
cli.add_typer(packages.packages, name="packages", rich_help_panel="Talk to a running service")
cli.add_typer(mirror.mirror, name="mirror", rich_help_panel="Talk to a running service")
cli.add_typer(mirror.remotes, name="remotes", rich_help_panel="Talk to a running service")
for verb in (
    account.login,
    account.logout,
    repositories.repos,
    repositories.archives,
    repositories.browse,
    repositories.history,
    repositories.search,
    repositories.download,
    jobs.backup,
    jobs.restore,
    jobs.check,
    jobs.prune,
    jobs.compact,
    jobs.restore_check,
    jobs.delete,
    jobs.wipe,
    operations.activity,
    operations.logs,
):
    cli.command(rich_help_panel="Talk to a running service")(verb)


@cli.command(rich_help_panel="On the service's machine")
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (default 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (default 8080; 0 picks a free one).")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the store, logs and keys (default .data).")] = None,
    role: Annotated[
        str | None, typer.Option(help="all (default), api or runner; api and runner need PostgreSQL.")
    ] = None,
) -> None:
    """Run the service."""
    settings = read_settings(host=host, port=port, data_dir=data_dir, role=role)
    if settings.role != "all" and not settings.database_url:
        typer.echo(
            "holdfast: --role api and --role runner share a PostgreSQL store; set HOLDFAST_DATABASE_URL.", err=True
        )
        raise typer.Exit(2)
    from holdfast.entry import quick_start
    from holdfast.entry.first_process import fork_if_first

    if (ended := fork_if_first()) is not None:
        raise typer.Exit(ended)
    quick_start.begin()
    from holdfast.entry.serve import serve as run

    raise typer.Exit(run(settings))


@cli.command()
def version() -> None:
    """Say which version this is."""
    typer.echo(f"holdfast {package_version('holdfast')}")


def read_settings(**given: Any) -> "Settings":
    """Settings from the environment, the file and the options given. Bad ones end the program with code 2."""
    from pydantic import ValidationError

    from holdfast.settings import Settings

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        for problem in error.errors():
            name = ".".join(str(part) for part in problem["loc"])
            typer.echo(f"holdfast: setting {name}: {problem['msg']}", err=True)
        raise typer.Exit(2) from error


def main() -> None:
    cli()
