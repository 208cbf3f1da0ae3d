"""`holdfast databases`: the databases that are dumped into a repository's archives."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.follow import NoWait, after_start
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import REPOSITORIES, Collection, Repository, given
from holdfast.entry.client.output import AsJson, Yes, flag, report
from holdfast.entry.client.table import ID, Column, print_list

databases = group(
    "Databases dumped into archives: list, add, remove, dump.",
    "holdfast databases add shop orders --kind postgresql --database shop --user backup",
    "holdfast databases dump shop",
)
DatabaseWord = Annotated[str, typer.Argument(help="Name or id of a database of the repository.")]


@databases.command("list")
def list_databases(repository: Repository, as_json: AsJson = False) -> None:
    """List the databases of a repository, each with the command that loads its dump."""
    service, found = REPOSITORIES.chosen(repository)
    answer = service.get(_of(found).url)
    columns = (ID, "NAME", "KIND", "DATABASE", "HOST", "FILE", Column("RESTORE", "restore_command", elastic=True))
    empty = "No databases. Add one: holdfast databases add REPOSITORY NAME --kind KIND"
    print_list(answer, "databases", columns, as_json=as_json, empty=empty)


@databases.command("add")
def add_database(
    repository: Repository,
    name: Annotated[str, typer.Argument(help="Name of the database here; also names its file in the archive.")],
    kind: Annotated[str, typer.Option(help="postgresql, postgresql_globals, mysql or sqlite.")],
    database: Annotated[str | None, typer.Option(help="Name on the server, or path of the SQLite file.")] = None,
    host: Annotated[str | None, typer.Option(help="Host name, or path of the socket.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port of the server.")] = None,
    user: Annotated[str | None, typer.Option(help="User of the database.")] = None,
    password_stdin: Annotated[bool, flag("--password-stdin", "Read the password from standard input.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a database to a repository's dumps. No connection is made yet."""
    password = connection.read_secret(f"Password of {user}", from_input=True) if password_stdin else None
    body = given(name=name, kind=kind, database=database, host=host, port=port, user=user, password=password)
    service, found = REPOSITORIES.chosen(repository)
    added = service.post(_of(found).url, body)
    sentence = f"{added['name']} has id {added['id']}; its dump is the file {added['file']}."
    report(added, f"{sentence}\nTo load it: {added['restore_command']}", as_json=as_json)


@databases.command("remove")
def remove_database(repository: Repository, database: DatabaseWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a database from a repository's dumps. Archives with its dumps are kept."""
    _, place = REPOSITORIES.chosen(repository)
    question = "Stop dumping {name}? Archives with its dumps are kept."
    _of(place).remove(database, "{name} is no longer dumped.", as_json=as_json, question=question, yes=yes)


@databases.command("dump")
def dump_databases(repository: Repository, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Dump all databases of a repository into an archive now."""
    service, found = REPOSITORIES.chosen(repository)
    answer = service.post(f"{REPOSITORIES.url_of(found)}/dump", {})
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


def _of(repository: dict[str, Any]) -> Collection:
    url = f"{REPOSITORIES.url_of(repository)}/databases"
    return Collection(url, "databases", "database", "databases list REPOSITORY")
