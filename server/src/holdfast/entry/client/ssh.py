"""`holdfast ssh`: machines that the service reaches by ssh."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.connection import Api, read_secret
from holdfast.entry.client.groups import group, shown
from holdfast.entry.client.lookup import named
from holdfast.entry.client.output import (
    AsJson,
    Column,
    Yes,
    confirm,
    done,
    print_fields,
    print_json,
    print_table,
    remark,
    say,
)
from holdfast.entry.client.remotes import print_steps
from holdfast.entry.client.units import age, when

ssh = group(
    "Machines reached by ssh: list, add, change, test, deploy the key, remove.",
    "holdfast ssh add web1 web1.example.com --user backup",
    "holdfast ssh deploy-key web1",
    "holdfast ssh test web1",
    no_args_is_help=False,
    invoke_without_command=True,
)
MachineWord = Annotated[str, typer.Argument(help="Name or id of an ssh machine.")]
User = Annotated[str | None, typer.Option("--user", help="User to log in as (default: root).")]
Port = Annotated[int | None, typer.Option(min=1, max=65535, help="Port (default: 22).")]
EnginePath = Annotated[str | None, typer.Option("--engine-path", help="The engine's program there (default: borg).")]


@ssh.callback()
def default(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        list_connections(as_json=as_json)


@ssh.command("list")
def list_connections(as_json: AsJson = False) -> None:
    """List ssh machines."""
    answer = connection.api().get("/api/ssh-connections")
    if as_json:
        print_json(answer)
        return
    print_table(
        (
            Column("ID", right=True),
            Column("NAME", elastic=True),
            Column("ADDRESS", elastic=True),
            "STATUS",
            "LAST SEEN",
        ),
        (
            (
                one["id"],
                one["name"],
                f"{one['username']}@{one['host']}:{one['port']}",
                one["status"],
                age(one["last_seen_at"]),
            )
            for one in answer["connections"]
        ),
        empty="No ssh machines. Add one: holdfast ssh add NAME HOST",
    )


@ssh.command("show")
def show_connection(machine: MachineWord, as_json: AsJson = False) -> None:
    """Show one ssh machine."""
    found = _find(connection.api(), machine)
    if as_json:
        print_json(found)
        return
    print_fields(
        (
            ("id", found["id"]),
            ("name", found["name"]),
            ("address", f"{found['username']}@{found['host']}:{found['port']}"),
            ("status", found["status"]),
            ("host key", found["host_key"]["fingerprint"] if found["host_key"] else None),
            ("engine", found["engine_version"]),
            ("python", found["python_version"]),
            ("last seen", when(found["last_seen_at"])),
        )
    )
    if found["last_test"]:
        print_steps(found["last_test"]["steps"])


@ssh.command("add", epilog=shown("holdfast ssh add web1 web1.example.com --user backup"))
def add_connection(
    name: Annotated[str, typer.Argument(help="Name of the machine.")],
    host: Annotated[str, typer.Argument(help="Name or address of the machine.")],
    user: User = None,
    port: Port = None,
    engine_path: EnginePath = None,
    as_json: AsJson = False,
) -> None:
    """Add an ssh machine; the service's key must be deployed there."""
    body = {"name": name, "host": host, "username": user or "root", **_given(port=port, engine_path=engine_path)}
    answer = connection.api().post("/api/ssh-connections", body)
    if as_json:
        print_json(answer)
        return
    say(f"{answer['name']} was added (id {answer['id']}).")
    remark(f"Next: holdfast ssh deploy-key {answer['name']}, then holdfast ssh test {answer['name']}")


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
    """Change an ssh machine; fields that are not given stay. Its host key stays pinned."""
    service = connection.api()
    found = _find(service, machine)
    body = _given(name=name, host=host, username=user, port=port, engine_path=engine_path)
    answer = service.put(f"/api/ssh-connections/{found['id']}", body)
    if as_json:
        print_json(answer)
    else:
        say(f"{answer['name']} was changed.")


@ssh.command("test")
def try_connection(
    machine: MachineWord,
    path: Annotated[str, typer.Option(help="Path whose free space is reported.")] = ".",
    as_json: AsJson = False,
) -> None:
    """Test an ssh machine step by step: reach, host key, key, engine, Python, disk."""
    service = connection.api()
    answer = service.post(f"/api/ssh-connections/{_find(service, machine)['id']}/test", {"path": path})
    if as_json:
        print_json(answer)
    else:
        print_steps(answer["steps"])
    if answer["status"] != "ok":
        raise typer.Exit(exit_codes.FAILED)


@ssh.command("deploy-key")
def deploy_key(
    machine: MachineWord,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the machine's password from standard input.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put the service's public key on a machine, with its password (used once, not stored)."""
    service = connection.api()
    found = _find(service, machine)
    password = read_secret(f"Password of {found['username']}@{found['host']}", from_input=password_stdin)
    answer = service.post(f"/api/ssh-connections/{found['id']}/deploy-key", {"password": password})
    if as_json:
        print_json(answer)
        return
    say(f"The key is on {answer['name']}.")
    remark(f"Next: holdfast ssh test {answer['name']}")


@ssh.command("accept-host-key")
def accept_host_key(
    machine: MachineWord,
    fingerprint: Annotated[str, typer.Argument(help="Fingerprint to accept, SHA256:…")],
    as_json: AsJson = False,
) -> None:
    """Accept the new host key of a machine that was installed again."""
    service = connection.api()
    found = _find(service, machine)
    answer = service.post(f"/api/ssh-connections/{found['id']}/host-key/accept", {"fingerprint": fingerprint})
    if as_json:
        print_json(answer)
    else:
        say(f"The host key of {answer['name']} was accepted.")


@ssh.command("remove")
def remove_connection(machine: MachineWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove an ssh machine."""
    service = connection.api()
    found = _find(service, machine)
    confirm(f"Remove {found['name']}?", yes=yes)
    service.delete(f"/api/ssh-connections/{found['id']}")
    done(f"{found['name']} was removed.", as_json=as_json, id=found["id"])


@ssh.command("key")
def show_key(as_json: AsJson = False) -> None:
    """Print the service's public key, to put it into authorized_keys yourself."""
    answer = connection.api().get("/api/ssh-connections/system-key")
    if as_json:
        print_json(answer)
    else:
        say(answer["public_key"].rstrip("\n"))


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _find(service: Api, wanted: str) -> dict[str, Any]:
    return named(service.get("/api/ssh-connections")["connections"], wanted, "ssh machine", "name", see="ssh")
