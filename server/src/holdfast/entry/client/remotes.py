"""`holdfast remotes`: places in the cloud to which repositories are mirrored."""

import sys
from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.connection import read_secret
from holdfast.entry.client.groups import group, shown
from holdfast.entry.client.lookup import Collection
from holdfast.entry.client.output import AsJson, Yes, fail, print_json, report
from holdfast.entry.client.table import ID, NAME, Column, print_table

remotes = group(
    "Remotes that mirrors are stored on: list, add, change, test, remove.",
    "holdfast remotes add nas sftp -o host=nas.example.com -o user=backup --secret pass",
    "holdfast remotes test nas --path backups",
)
REMOTES = Collection("/api/rclone/remotes", "remotes", "remote", "remotes list")
RemoteWord = Annotated[str, typer.Argument(help="Name or id of a remote.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="NAME=VALUE", help="Option of the provider, NAME=VALUE; may be given several times."
    ),
]
Secrets = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME",
        help="Secret option: prompts for its value, or reads it from standard input, one per line.",
    ),
]


@remotes.command("list")
def list_remotes(as_json: AsJson = False) -> None:
    """List the remotes."""
    repositories = Column("REPOSITORIES", lambda one: len(one["repository_ids"]), right=True)
    empty = "No remotes. Add one: holdfast remotes add NAME PROVIDER (see: holdfast remotes providers)"
    REMOTES.print((ID, NAME, "PROVIDER", repositories), as_json=as_json, empty=empty)


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
            fail(f"no provider named {provider}. See: holdfast remotes providers", exit_codes.NOT_FOUND)
    if as_json:
        print_json({"providers": found})
    elif provider is None:
        print_table((Column("PROVIDER", "name"), Column("DESCRIPTION", elastic=True)), found)
    else:
        meaning = Column("MEANING", lambda one: one["help"].split("\n")[0], elastic=True)
        print_table((Column("OPTION", "name"), "REQUIRED", "SECRET", meaning), found[0]["options"])


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
    hint = "Next: holdfast remotes test {name}"
    REMOTES.add(body, "Remote {name} was added (id {id}).", as_json=as_json, hint=hint)


@remotes.command("change")
def change_remote(
    remote: RemoteWord,
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    option: Options = None,
    secret: Secrets = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Option to remove; may be given several times.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change a remote; other fields stay unchanged."""
    service, found = REMOTES.chosen(remote)  # before prompting for secrets
    options = {**_options(option, secret), **dict.fromkeys(unset or [])}
    answer = service.put(REMOTES.url_of(found), {**({"name": name} if name else {}), "options": options})
    report(answer, f"Remote {answer['name']} was changed.", as_json=as_json)


@remotes.command("remove")
def remove_remote(remote: RemoteWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a remote. The files stored there are kept."""
    question = "Remove the remote {name}? The data on it is kept."
    sentence = "Remote {name} was removed."
    REMOTES.remove(remote, sentence, as_json=as_json, question=question, yes=yes)


@remotes.command("test")
def try_remote(
    remote: RemoteWord,
    path: Annotated[str, typer.Option(help="Path on the remote where the test file is written.")] = "",
    as_json: AsJson = False,
) -> None:
    """Write, read back and delete a small object, and show how each step went."""
    verdict = REMOTES.post(remote, "test", {"path": path})
    end_test(verdict, passed=verdict["ok"], as_json=as_json)


def end_test(verdict: dict[str, Any], *, passed: bool, as_json: bool) -> None:
    """Print the steps of a connection test; the exit code shows whether it passed."""
    if as_json:
        print_json(verdict)
    else:
        print_steps(verdict["steps"])
    if not passed:
        raise typer.Exit(exit_codes.FAILED)


def print_steps(steps: list[dict[str, Any]]) -> None:
    """Print the steps of a connection test."""
    print_table(("STEP", "VERDICT", "KEY", Column("MESSAGE", elastic=True)), steps)


def _options(given: list[str] | None, secrets: list[str] | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for one in given or []:
        name, found, value = one.partition("=")
        if not found:
            fail(f"{one} must have the form NAME=VALUE.", exit_codes.USAGE)
        options[name] = value
    for name in secrets or []:
        options[name] = read_secret(f"Value of {name}", from_input=not sys.stdin.isatty())
    return options
