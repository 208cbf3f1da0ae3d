"""`holdfast databases`: the databases whose dumps belong to a repository."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import Api
from holdfast.entry.client.follow import NoWait, after_start
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import Repository, find_repository, named
from holdfast.entry.client.output import AsJson, Column, Yes, confirm, done, print_json, print_table, say

databases = group(
    "Databases that are dumped into archives: list, add, remove, dump.",
    "holdfast databases add shop orders --kind postgresql --database shop --user backup",
    "holdfast databases dump shop",
)
DatabaseWord = Annotated[str, typer.Argument(metavar="DATABASE", help="Name or id of a database of the repository.")]


@databases.command("list")
def list_databases(repository: Repository, as_json: AsJson = False) -> None:
    """List the databases of a repository, each with the command that loads its dump."""
    service = connection.api()
    answer = service.get(_place(find_repository(service, repository)))
    if as_json:
        print_json(answer)
        return
    rows = [
        (one["id"], one["name"], one["kind"], one["database"], one["host"], one["file"], one["restore_command"])
        for one in answer["databases"]
    ]
    columns = (Column("ID", right=True), "NAME", "KIND", "DATABASE", "HOST", "FILE", Column("RESTORE", elastic=True))
    print_table(columns, rows, empty="No databases. Add one: holdfast databases add REPOSITORY NAME --kind KIND")


@databases.command("add")
def add_database(
    repository: Repository,
    name: Annotated[str, typer.Argument(help="What it is called; also its file in the archive.")],
    kind: Annotated[str, typer.Option(help="postgresql, postgresql_globals, mysql or sqlite.")],
    database: Annotated[str | None, typer.Option(help="Its name on the server, or the path of an SQLite file.")] = None,
    host: Annotated[str | None, typer.Option(help="Host name, or path of the socket.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port of the server.")] = None,
    user: Annotated[str | None, typer.Option(help="User of the database.")] = None,
    password_stdin: Annotated[bool, typer.Option("--password-stdin", help="Read the password from a line.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a database to the dumps of a repository. Nothing is connected to yet."""
    password = connection.read_secret(f"Password of {user}", from_input=True) if password_stdin else None
    fields: dict[str, Any] = {"name": name, "kind": kind, "database": database, "host": host, "port": port}
    fields |= {"user": user, "password": password}
    service = connection.api()
    body = {field: value for field, value in fields.items() if value is not None}
    added = service.post(_place(find_repository(service, repository)), body)
    if as_json:
        print_json(added)
        return
    say(f"{added['name']} has id {added['id']}; its dump is the file {added['file']}.")
    say(f"To load it: {added['restore_command']}")


@databases.command("remove")
def remove_database(repository: Repository, database: DatabaseWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a database from the dumps of a repository. Archives with its dumps stay."""
    service = connection.api()
    place = _place(find_repository(service, repository))
    found = _find(service, place, database)
    confirm(f"Dump {found['name']} no more? Archives that hold its dumps stay.", yes=yes)
    service.delete(f"{place}/{found['id']}")
    done(f"{found['name']} is not dumped any more.", as_json=as_json, id=found["id"])


@databases.command("dump")
def dump_databases(repository: Repository, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Dump all databases of a repository into an archive now."""
    service = connection.api()
    answer = service.post(f"/api/repositories/{find_repository(service, repository)['id']}/dump", {})
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


def _place(repository: dict[str, Any]) -> str:
    return f"/api/repositories/{repository['id']}/databases"


def _find(service: Api, place: str, wanted: str) -> dict[str, Any]:
    return named(service.get(place)["databases"], wanted, "database", "name", see="databases list REPOSITORY")
