"""`holdfast ssh`: machines that the service reaches over ssh."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import read_secret
from holdfast.entry.client.groups import by_default, group_with_default, shown
from holdfast.entry.client.lookup import SSH_MACHINES, given
from holdfast.entry.client.output import AsJson, Yes, flag, report
from holdfast.entry.client.remotes import end_test, print_steps
from holdfast.entry.client.table import ID, NAME, Column, Fields
from holdfast.entry.client.units import age, when

ssh = group_with_default(
    "Machines reached over ssh: list, add, change, test, deploy the key, remove.",
    "holdfast ssh add web1 web1.example.com --user backup",
    "holdfast ssh deploy-key web1",
    "holdfast ssh test web1",
)
MachineWord = Annotated[str, typer.Argument(help="Name or id of an ssh machine.")]
User = Annotated[str | None, typer.Option("--user", help="User to log in as (default: root).")]
Port = Annotated[int | None, typer.Option(min=1, max=65535, help="Port (default: 22).")]
EnginePath = Annotated[str | None, typer.Option("--engine-path", help="The engine's program there (default: borg).")]


@by_default(ssh)
@ssh.command("list")
def list_connections(as_json: AsJson = False) -> None:
    """List ssh machines."""
    last_seen = Column("LAST SEEN", lambda one: age(one["last_seen_at"]))
    columns = (ID, NAME, Column("ADDRESS", _address, elastic=True), "STATUS", last_seen)
    SSH_MACHINES.print(columns, as_json=as_json, empty="No ssh machines. Add one: holdfast ssh add NAME HOST")


def _address(machine: dict[str, Any]) -> str:
    return f"{machine['username']}@{machine['host']}:{machine['port']}"


@ssh.command("show")
def show_connection(machine: MachineWord, as_json: AsJson = False) -> None:
    """Show one ssh machine."""
    found = SSH_MACHINES.show(machine, _fields, as_json=as_json)
    if found["last_test"] and not as_json:
        print_steps(found["last_test"]["steps"])


def _fields(machine: dict[str, Any]) -> Fields:
    return (
        "id",
        "name",
        ("address", _address(machine)),
        "status",
        ("host key", machine["host_key"]["fingerprint"] if machine["host_key"] else None),
        ("engine", machine["engine_version"]),
        ("python", machine["python_version"]),
        ("last seen", when(machine["last_seen_at"])),
    )


@ssh.command("add", epilog=shown("holdfast ssh add web1 web1.example.com --user backup"))
def add_connection(
    name: Annotated[str, typer.Argument(help="Name of the machine.")],
    host: Annotated[str, typer.Argument(help="Name or address of the machine.")],
    user: User = None,
    port: Port = None,
    engine_path: EnginePath = None,
    as_json: AsJson = False,
) -> None:
    """Add an ssh machine; the service's key must then be deployed there."""
    body = {"name": name, "host": host, "username": user or "root", **given(port=port, engine_path=engine_path)}
    hint = "Next: holdfast ssh deploy-key {name}, then holdfast ssh test {name}"
    SSH_MACHINES.add(body, "{name} was added (id {id}).", as_json=as_json, hint=hint)


@ssh.command("change")
def change_connection(
    machine: MachineWord,
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    host: Annotated[str | None, typer.Option(help="New address.")] = None,
    user: User = None,
    port: Port = None,
    engine_path: EnginePath = None,
    as_json: AsJson = False,
) -> None:
    """Change an ssh machine; other fields stay, and its host key stays pinned."""
    body = given(name=name, host=host, username=user, port=port, engine_path=engine_path)
    SSH_MACHINES.change(machine, body, "{name} was changed.", as_json=as_json)


@ssh.command("test")
def try_connection(
    machine: MachineWord,
    path: Annotated[str, typer.Option(help="Path whose free space is reported.")] = ".",
    as_json: AsJson = False,
) -> None:
    """Test an ssh machine step by step: connection, host key, key, engine, Python, disk."""
    answer = SSH_MACHINES.post(machine, "test", {"path": path})
    end_test(answer, passed=answer["status"] == "ok", as_json=as_json)


@ssh.command("deploy-key")
def deploy_key(
    machine: MachineWord,
    password_stdin: Annotated[
        bool, flag("--password-stdin", "Read the machine's password from standard input.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Install the service's public key on a machine, using its password (used once, not stored)."""
    service, found = SSH_MACHINES.chosen(machine)
    password = read_secret(f"Password of {found['username']}@{found['host']}", from_input=password_stdin)
    answer = service.post(f"{SSH_MACHINES.url_of(found)}/deploy-key", {"password": password})
    sentence, hint = f"The key is on {answer['name']}.", f"Next: holdfast ssh test {answer['name']}"
    report(answer, sentence, as_json=as_json, hint=hint)


@ssh.command("accept-host-key")
def accept_host_key(
    machine: MachineWord,
    fingerprint: Annotated[str, typer.Argument(help="Fingerprint to accept, SHA256:…")],
    as_json: AsJson = False,
) -> None:
    """Accept the new host key of a machine that was reinstalled."""
    answer = SSH_MACHINES.post(machine, "host-key/accept", {"fingerprint": fingerprint})
    report(answer, f"The host key of {answer['name']} was accepted.", as_json=as_json)


@ssh.command("remove")
def remove_connection(machine: MachineWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove an ssh machine."""
    SSH_MACHINES.remove(machine, "{name} was removed.", as_json=as_json, question="Remove {name}?", yes=yes)


@ssh.command("key")
def show_key(as_json: AsJson = False) -> None:
    """Print the service's public key, so that you can add it to authorized_keys yourself."""
    answer = connection.api().get("/api/ssh-connections/system-key")
    report(answer, answer["public_key"].rstrip("\n"), as_json=as_json)
