"""`holdfast remotes`: places in the cloud that repositories are mirrored to."""

import sys
from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.connection import Api, read_secret
from holdfast.entry.client.groups import group, shown
from holdfast.entry.client.lookup import named
from holdfast.entry.client.output import AsJson, Column, Yes, confirm, done, fail, print_json, print_table, remark, say

remotes = group(
    "Remotes that mirrors are stored on: list, add, change, test, remove.",
    "holdfast remotes add nas sftp -o host=nas.example.com -o user=backup --secret pass",
    "holdfast remotes test nas --path backups",
)
RemoteWord = Annotated[str, typer.Argument(help="Name or id of a remote.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="NAME=VALUE", help="Option of the provider, NAME=VALUE; may be repeated."),
]
Secrets = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME",
        help="Name of an option with a prompt for its value (or read from standard input, a line each).",
    ),
]


@remotes.command("list")
def list_remotes(as_json: AsJson = False) -> None:
    """List the remotes."""
    answer = connection.api().get("/api/rclone/remotes")
    if as_json:
        print_json(answer)
        return
    print_table(
        (Column("ID", right=True), Column("NAME", elastic=True), "PROVIDER", Column("REPOSITORIES", right=True)),
        ((one["id"], one["name"], one["provider"], len(one["repository_ids"])) for one in answer["remotes"]),
        empty="No remotes. Add one: holdfast remotes add NAME PROVIDER (see: holdfast remotes providers)",
    )


@remotes.command("providers")
def list_providers(
    provider: Annotated[str | None, typer.Argument(help="Show the options of this provider.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the providers, or the options of one."""
    answer = connection.api().get("/api/rclone/providers")
    found = answer["providers"]
    if provider is not None:
        found = [one for one in found if one["name"] == provider]
        if not found:
            fail(f"no provider is called {provider}. See: holdfast remotes providers", exit_codes.NOT_FOUND)
    if as_json:
        print_json({"providers": found})
    elif provider is None:
        print_table(
            ("PROVIDER", Column("DESCRIPTION", elastic=True)), ((one["name"], one["description"]) for one in found)
        )
    else:
        print_table(
            ("OPTION", "REQUIRED", "SECRET", Column("MEANING", elastic=True)),
            ((one["name"], one["required"], one["secret"], one["help"].split("\n")[0]) for one in found[0]["options"]),
        )


@remotes.command("add", epilog=shown("holdfast remotes add nas sftp -o host=nas.example.com --secret pass"))
def add_remote(
    name: Annotated[str, typer.Argument(help="Name of the remote.")],
    provider: Annotated[str, typer.Argument(help="Kind of storage (holdfast remotes providers).")],
    option: Options = None,
    secret: Secrets = None,
    as_json: AsJson = False,
) -> None:
    """Add a remote. Secret options are never given as arguments."""
    body = {"name": name, "provider": provider, "options": _options(option, secret)}
    answer = connection.api().post("/api/rclone/remotes", body)
    if as_json:
        print_json(answer)
        return
    say(f"Remote {answer['name']} was added (id {answer['id']}).")
    remark(f"Next: holdfast remotes test {answer['name']}")


@remotes.command("change")
def change_remote(
    remote: RemoteWord,
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    option: Options = None,
    secret: Secrets = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Option to remove; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change a remote; fields that are not given stay."""
    service = connection.api()
    found = find_remote(service, remote)
    options = {**_options(option, secret), **dict.fromkeys(unset or [])}
    answer = service.put(f"/api/rclone/remotes/{found['id']}", {**({"name": name} if name else {}), "options": options})
    if as_json:
        print_json(answer)
    else:
        say(f"Remote {answer['name']} was changed.")


@remotes.command("remove")
def remove_remote(remote: RemoteWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a remote. The files stored there stay."""
    service = connection.api()
    found = find_remote(service, remote)
    confirm(f"Remove the remote {found['name']}? What is stored there stays.", yes=yes)
    service.delete(f"/api/rclone/remotes/{found['id']}")
    done(f"Remote {found['name']} was removed.", as_json=as_json, id=found["id"])


@remotes.command("test")
def try_remote(
    remote: RemoteWord,
    path: Annotated[str, typer.Option(help="Where on the remote the probe is written.")] = "",
    as_json: AsJson = False,
) -> None:
    """Write, read back and delete a small object, and show how each step went."""
    service = connection.api()
    verdict = service.post(f"/api/rclone/remotes/{find_remote(service, remote)['id']}/test", {"path": path})
    if as_json:
        print_json(verdict)
    else:
        print_steps(verdict["steps"])
    if not verdict["ok"]:
        raise typer.Exit(exit_codes.FAILED)


def print_steps(steps: list[dict[str, Any]]) -> None:
    """The steps of a connection test."""
    print_table(
        ("STEP", "VERDICT", "KEY", Column("MESSAGE", elastic=True)),
        ((one["step"], one["verdict"], one["key"], one["message"]) for one in steps),
    )


def find_remote(service: Api, wanted: str) -> dict[str, Any]:
    return named(service.get("/api/rclone/remotes")["remotes"], wanted, "remote", "name", see="remotes list")


def _options(given: list[str] | None, secrets: list[str] | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for one in given or []:
        name, found, value = one.partition("=")
        if not found:
            fail(f"{one} is not NAME=VALUE.", exit_codes.USAGE)
        options[name] = value
    for name in secrets or []:
        options[name] = read_secret(f"Value of {name}", from_input=not sys.stdin.isatty())
    return options
