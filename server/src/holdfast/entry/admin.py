"""`holdfast admin`: work on the store directly, even while the service is running.

The service's modules are imported where they are used, so that all other `holdfast` commands start without them.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.entry.client.groups import group

if TYPE_CHECKING:
    from holdfast.access.administration import PasswordGiven
    from holdfast.settings import Settings
    from holdfast.storage.session import Database

cli = group("Administer an installation from its own machine.", "holdfast admin reset-password admin")

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Data folder of the installation (default: HOLDFAST_DATA_DIR or .data)."),
]
PasswordFromInput = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input instead of generating one.")
]


@contextmanager
def installation(data_dir: Path | None) -> "Iterator[tuple[Settings, Database]]":
    """The installation's settings and store. Expected errors end the program with a sentence and code 1."""
    from holdfast.composition import register_secrets
    from holdfast.errors import HoldfastError
    from holdfast.settings import Settings
    from holdfast.storage.migrate import StoreTooNew, migrate
    from holdfast.storage.session import Database

    settings = Settings(data_dir=data_dir) if data_dir is not None else Settings()
    if not settings.database_url and not (settings.data_dir / "holdfast.db").exists():
        typer.echo(f"holdfast: no installation in {settings.data_dir}.", err=True)
        raise typer.Exit(1)
    register_secrets()
    database = Database(settings.store_url)
    try:
        migrate(database)
        yield settings, database
    except (HoldfastError, StoreTooNew) as error:
        typer.echo(f"holdfast: {error}", err=True)
        raise typer.Exit(1) from error
    finally:
        database.dispose()


@cli.command("create-user")
def create_user(
    username: Annotated[str, typer.Argument(help="Name to log in with.")],
    role: Annotated[str, typer.Option(help="viewer, operator or admin.")] = "viewer",
    all_repositories: Annotated[str | None, typer.Option(help="viewer or operator on all repositories.")] = None,
    email: Annotated[str | None, typer.Option()] = None,
    password_stdin: PasswordFromInput = False,
    data_dir: DataDir = None,
) -> None:
    """Create a user. Without --password-stdin, a random password is generated and shown once."""
    from holdfast.access import administration

    password = read_password(password_stdin)
    with installation(data_dir) as (_, database):
        given = administration.create_user(
            database,
            username=username,
            password=password,
            role=role,
            email=email,
            all_repositories_role=all_repositories,
        )
    print_account("Created", given)


@cli.command("reset-password")
def reset_password(
    username: Annotated[str, typer.Argument(help="Name of the user.")],
    disable_totp: Annotated[bool, typer.Option("--disable-totp", help="Also remove the second factor.")] = False,
    enable: Annotated[bool, typer.Option("--enable", help="Also enable a disabled user.")] = False,
    end_tokens: Annotated[
        bool, typer.Option("--end-tokens", help="Also revoke all account tokens of the user.")
    ] = False,
    password_stdin: PasswordFromInput = False,
    data_dir: DataDir = None,
) -> None:
    """Change a user's password and end their sessions."""
    from holdfast.access import administration

    password = read_password(password_stdin)
    with installation(data_dir) as (settings, database):
        given = administration.reset_password(
            database,
            settings,
            username=username,
            password=password,
            disable_totp=disable_totp,
            enable=enable,
            end_tokens=end_tokens,
        )
    print_account("Changed the password of", given)


@cli.command("rotate-key")
def rotate_key(
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Add no key; only drop keys that no secret uses.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Encrypt all stored secrets with a new key."""
    from holdfast.access import administration

    with installation(data_dir) as (settings, database):
        rotation = administration.rotate_key(database, settings, drop_old=drop_old)
    typer.echo(
        f"Active key {rotation.active_key}; moved {rotation.moved} secrets, dropped {len(rotation.dropped)} keys."
    )
    if rotation.kept:
        typer.echo(f"Kept {len(rotation.kept)} old keys; remove them with: holdfast admin rotate-key --drop-old")


@cli.command("adopt-data-folder")
def adopt_data_folder(data_dir: DataDir = None) -> None:
    """Make this data folder the installation's own after the previous one was lost. For PostgreSQL."""
    from holdfast.entry import shared_folder

    with installation(data_dir) as (settings, database):
        shared_folder.adopt(database, settings.data_dir)
    typer.echo(f"This installation's processes now require the data folder {settings.data_dir}.")


@cli.command("check-store")
def check_store(data_dir: DataDir = None) -> None:
    """Look for damage: the database's own check, unreadable secrets, contradictory operations."""
    from holdfast.entry.store_check import problems

    with installation(data_dir) as (settings, database):
        found = [*problems(database), *_unreadable(database, settings)]
    for problem in found:
        typer.echo(problem)
    typer.echo(f"{len(found)} problems found." if found else "The store is consistent.")
    raise typer.Exit(1 if found else 0)


@cli.command("verify-index")
def verify_index(
    repository: Annotated[str, typer.Argument(help="Name, path or id of the repository.")],
    archive: Annotated[
        list[str] | None, typer.Option("--archive", help="Only the archive with this name; may be given several times.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Compare the file history with the engine's listing of each archive, and report every difference."""
    from holdfast.entry.verify import verify

    with installation(data_dir) as (settings, database):
        differences = verify(settings, database, repository, archive or [], typer.echo)
    if differences:
        typer.echo(f"{differences} differences; repair with POST /api/repositories/{{id}}/rebuild and from=history.")
    else:
        typer.echo("The index matches the engine's listing.")
    raise typer.Exit(1 if differences else 0)


def _unreadable(database: "Database", settings: "Settings") -> list[str]:
    from holdfast.access import stored_secrets
    from holdfast.access.vault import Vault

    with database.reading() as session:
        return stored_secrets.unreadable(session, Vault(settings))


def read_password(from_input: bool) -> str | None:
    return sys.stdin.readline().rstrip("\n") if from_input else None


def print_account(done: str, given: "PasswordGiven") -> None:
    typer.echo(f"{done} {given.username}.")
    if given.generated_password is not None:
        typer.echo(f"Password (shown once): {given.generated_password}")
