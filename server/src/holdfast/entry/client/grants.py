"""`holdfast grants`: who may restore to which machines and folders, besides the repository's own machine."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.connection import Api
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import find_machine, named
from holdfast.entry.client.output import AsJson, done, fail, report
from holdfast.entry.client.table import ID, Column, print_list
from holdfast.entry.client.units import when

grants = group(
    "List who may restore to which machines and folders, besides the repository's own machine.",
    "holdfast grants add /srv/restored --user anna --machine agent:web",
    "holdfast grants add /srv/restored --role operator",
    "holdfast grants list",
)


@grants.command("list")
def list_grants(as_json: AsJson = False) -> None:
    """List all grants."""
    since = Column("SINCE", lambda one: when(one["created_at"]))
    folder, by = Column("FOLDER", elastic=True), Column("BY", "created_by")
    columns = (ID, Column("WHO", _who), Column("MACHINE", _machine), folder, by, since)
    empty = "No grants: operators can restore only to their repository's machine. Add one: holdfast grants add FOLDER"
    print_list(connection.api().get("/api/restore-grants"), "grants", columns, as_json=as_json, empty=empty)


@grants.command("add")
def add_grant(
    folder: Annotated[str, typer.Argument(help="Absolute path; the grant covers it and everything below it.")],
    machine: Annotated[
        str, typer.Option(help="local (the service's own), ssh:NAME or agent:NAME; an id also works.")
    ] = "local",
    user: Annotated[str | None, typer.Option(help="Name of the user to grant it to.")] = None,
    role: Annotated[
        str | None, typer.Option(help="viewer or operator: all users with this role or a higher one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Allow a user or a role to restore to a folder on a machine."""
    if (user is None) == (role is None):
        fail("Specify either --user or --role.", exit_codes.USAGE, key="client.usage")
    service = connection.api()
    who = {"role": role} if user is None else {"user_id": _user_id(service, user)}
    answer = service.post("/api/restore-grants", {**who, **_place(service, machine), "folder": folder})
    sentence = f"Grant {answer['id']}: {_who(answer)} may restore to {answer['folder']} on {_machine(answer)}."
    report(answer, sentence, as_json=as_json)


@grants.command("remove")
def remove_grant(grant_id: Annotated[int, typer.Argument(help="Id of the grant.")], as_json: AsJson = False) -> None:
    """Remove a grant. Waiting restores then fail; running ones continue."""
    connection.api().delete(f"/api/restore-grants/{grant_id}")
    done(f"Grant {grant_id} was removed.", as_json=as_json, id=grant_id)


def _who(grant: dict[str, Any]) -> str:
    return str(grant["username"]) if grant["user_id"] is not None else f"role {grant['role']}"


def _machine(grant: dict[str, Any]) -> str:
    kind = str(grant["machine_type"])
    return kind if kind == "local" else f"{kind}:{grant['machine_name'] or grant['machine_id']}"


def _user_id(service: Api, name: str) -> int:
    return int(named(service.get("/api/users")["users"], name, "user", "username", see="users list")["id"])


def _place(service: Api, machine: str) -> dict[str, Any]:
    kind, number = find_machine(service, machine)
    return {"machine_type": kind, **({} if number is None else {"machine_id": number})}
