"""`holdfast scripts`: the library of scripts."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.follow import NoWait, after_start
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import SCRIPTS, find_repository, given
from holdfast.entry.client.output import AsJson, fail, print_json, report, say
from holdfast.entry.client.table import ID, Column
from holdfast.entry.client.units import when

scripts = group(
    "Scripts that run before or after backups, or manually: list, show, put, run, delete.",
    "holdfast scripts put freeze freeze.sh --interpreter /bin/bash",
    "holdfast scripts run freeze --repository photos",
)
ScriptWord = Annotated[str, typer.Argument(help="Name or id of a script.")]


@scripts.command("list")
def list_scripts(as_json: AsJson = False) -> None:
    """List the scripts that you can use."""
    version, by = Column("VERSION", right=True), Column("BY", "changed_by")
    changed = Column("CHANGED", lambda one: when(one["updated_at"]))
    columns = (ID, "NAME", "WHERE", version, changed, by, Column("OPERATORS", "operators_may_use"))
    SCRIPTS.print(columns, as_json=as_json, empty="No scripts. Add one: holdfast scripts put NAME FILE")


@scripts.command("show")
def show_script(script: ScriptWord, as_json: AsJson = False) -> None:
    """Show a script: its content on standard output, everything else on standard error."""
    service, listed = SCRIPTS.chosen(script)
    found = service.get(SCRIPTS.url_of(listed))
    if as_json:
        print_json(found)
        return
    say(f"{found['name']}, version {found['version']} by {found['changed_by']}, sha256 {found['sha256']}")
    say(f"runs on: {found['where']}; time limit: {found['timeout_seconds']} s; {' '.join(found['interpreter'])}")
    for use in found["used_by"]:
        say(f"used by the schedule {use['name']}")
    if found["content"] is not None:
        typer.echo(found["content"], nl=False)


@scripts.command("put")
def put_script(
    name: Annotated[str, typer.Argument(help="Name of the script; an existing script gets a new version.")],
    file: Annotated[str, typer.Argument(help="File with its content; - for standard input.")],
    interpreter: Annotated[
        str | None, typer.Option(help="Absolute path of the interpreter (default: /bin/sh).")
    ] = None,
    where: Annotated[str | None, typer.Option(help="Machine that runs it: service, ssh or agent.")] = None,
    timeout: Annotated[int | None, typer.Option(min=1, help="Time limit in seconds (default: 300).")] = None,
    operators: Annotated[
        bool | None, typer.Option("--operators/--no-operators", help="Allow operators to use it.")
    ] = None,
    description: Annotated[str | None, typer.Option(help="What the script is for.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add or change a script."""
    service = connection.api()
    body = given(
        content=_content(file),
        interpreter=[interpreter] if interpreter else None,
        where=where,
        timeout_seconds=timeout,
        operators_may_use=operators,
        description=description,
    )
    known = next((one for one in service.get(SCRIPTS.url)["scripts"] if one["name"] == name), None)
    if known is None:
        answer = service.post(SCRIPTS.url, {"name": name, **body})
    else:
        answer = service.put(SCRIPTS.url_of(known), body)
    sentence = f"Script {answer['name']} has id {answer['id']} and version {answer['version']}."
    report(answer, sentence, as_json=as_json)


@scripts.command("run")
def run_script(
    script: ScriptWord,
    repository: Annotated[
        str | None, typer.Option("--repository", "-r", help="Repository passed to it; its machine may run it.")
    ] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Parameter; may be given several times.")
    ] = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Run a script."""
    service, found = SCRIPTS.chosen(script)
    body: dict[str, Any] = {"parameters": _parameters(parameters or [])}
    if repository is not None:
        body["repository_id"] = find_repository(service, repository)["id"]
    answer = service.post(f"{SCRIPTS.url_of(found)}/run", body)
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


@scripts.command("delete")
def delete_script(script: ScriptWord, as_json: AsJson = False) -> None:
    """Delete a script that nothing uses."""
    SCRIPTS.remove(script, "Script {name} was deleted.", as_json=as_json)


def _content(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {error}.", exit_codes.USAGE)


def _parameters(words: list[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            fail(f"{word} must have the form NAME=VALUE.", exit_codes.USAGE)
        found[name] = value
    return found
