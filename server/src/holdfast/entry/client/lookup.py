"""Finds the objects named in a command, such as repositories and archives, by name or id."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import typer

from backup_engine.frozen import frozen
from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.connection import Api
from holdfast.entry.client.output import confirm, done, fail, report
from holdfast.entry.client.table import Column, Fields, print_list, print_object

PLAIN = re.compile(r"[A-Za-z0-9._-]+")
"""Names that are safe as completions: some shells evaluate what a completion prints."""


def repository_names(incomplete: str) -> list[str]:
    """Repository names that a shell offers as completions; none if the service does not answer immediately."""
    answer = connection.quietly("/api/repositories/") or {}
    names = [str(one["name"]) for one in answer.get("repositories", [])]
    return [name for name in names if name.startswith(incomplete) and PLAIN.fullmatch(name)]


Repository = Annotated[str, typer.Argument(help="Name, path or id of a repository.", autocompletion=repository_names)]
ArchiveWord = Annotated[str, typer.Argument(help="Id or name of the archive, or `latest`.")]


@frozen
class Collection:
    """Objects of one sort: their URL, the fields that name them, and the commands that all sorts share."""

    url: str
    field: str
    """The response field with the list of objects."""
    noun: str
    see: str
    """The command that lists them."""
    known_by: tuple[str, ...] = ("name",)

    def print(self, columns: Sequence[str | Column], *, as_json: bool, empty: str = "") -> None:
        print_list(connection.api().get(self.url), self.field, columns, as_json=as_json, empty=empty)

    def find(self, service: Api, wanted: str) -> dict[str, Any]:
        return named(service.get(self.url)[self.field], wanted, self.noun, *self.known_by, see=self.see)

    def chosen(self, wanted: str) -> tuple[Api, dict[str, Any]]:
        """The service client and the object with this name or id."""
        service = connection.api()
        return service, self.find(service, wanted)

    def url_of(self, found: dict[str, Any]) -> str:
        return f"{self.url.rstrip('/')}/{found['id']}"

    def get(self, wanted: str, below: str, /, **query: Any) -> Any:
        """The service's response for a path below the object's URL."""
        service, found = self.chosen(wanted)
        return service.get(f"{self.url_of(found)}/{below}", **query)

    def show(self, wanted: str, fields: Callable[[dict[str, Any]], Fields], *, as_json: bool) -> dict[str, Any]:
        """Print the fields of an object, or all of it as JSON, and return it."""
        _, found = self.chosen(wanted)
        print_object(found, fields(found), as_json=as_json)
        return found

    def add(self, body: Any, sentence: str, *, as_json: bool, hint: str = "") -> None:
        """Add an object. Both texts may contain fields of the response in braces."""
        answer = connection.api().post(self.url, body)
        report(answer, sentence.format_map(answer), as_json=as_json, hint=hint.format_map(answer))

    def change(self, wanted: str, body: Any, sentence: str, *, as_json: bool) -> None:
        """Change an object. The text may contain fields of the response in braces."""
        service, found = self.chosen(wanted)
        answer = service.put(self.url_of(found), body)
        report(answer, sentence.format_map(answer), as_json=as_json)

    def post(self, wanted: str, below: str, body: Any = None) -> Any:
        service, found = self.chosen(wanted)
        return service.post(f"{self.url_of(found)}/{below}", body)

    def remove(self, wanted: str, sentence: str, *, as_json: bool, question: str = "", yes: bool = True) -> None:
        """Remove an object after a confirmed question. Both texts may contain its fields in braces."""
        service, found = self.chosen(wanted)
        confirm(question.format_map(found), yes=yes)
        service.delete(self.url_of(found))
        done(sentence.format_map(found), as_json=as_json, id=found["id"])


def named(things: Iterable[dict[str, Any]], wanted: str, noun: str, *fields: str, see: str) -> dict[str, Any]:
    """The object with this value in one of the fields, or with this id.

    Fail if there is none, or more than one.
    """
    known = list(things)
    for field in (*fields, "id"):
        found = [one for one in known if str(one[field]) == wanted]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(str(one["id"]) for one in found)
            fail(f"{len(found)} of them are named {wanted}; use the id ({ids}).", exit_codes.USAGE)
    return fail(f"no {noun} named {wanted}. See: holdfast {see}", exit_codes.NOT_FOUND, key="client.not_found")


REPOSITORIES = Collection("/api/repositories/", "repositories", "repository", "repos", ("name", "path"))
MACHINES = Collection("/api/managed-machines/", "machines", "machine", "machines")
AGENTS = Collection("/api/managed-machines/agents", "agents", "agent", "machines agents", ("name", "agent_id"))
SSH_MACHINES = Collection("/api/ssh-connections", "connections", "ssh machine", "ssh")
USERS = Collection("/api/users", "users", "user", "users", ("username",))
SCRIPTS = Collection("/api/scripts/", "scripts", "script", "scripts list")
find_repository = REPOSITORIES.find


def given(**values: Any) -> dict[str, Any]:
    """The request fields that were given on the command line."""
    return {name: value for name, value in values.items() if value is not None}


def find_machine(service: Api, wanted: str) -> tuple[str, int | None]:
    """The kind and the id of the machine named by `local`, `ssh:NAME` or `agent:NAME`.

    Only admins can look up names; an id needs no lookup.
    """
    kind, _, name = wanted.partition(":")
    if kind == "local" and not name:
        return kind, None
    if kind in ("ssh", "agent") and name.isdecimal():
        return kind, int(name)
    if kind == "ssh" and name:
        known = service.get("/api/ssh-connections")["connections"]
        return kind, int(named(known, name, "ssh connection", "name", see="ssh list")["id"])
    if kind == "agent" and name:
        known = service.get("/api/managed-machines/agents")["agents"]
        return kind, int(named(known, name, "agent", "name", see="machines list")["id"])
    return fail("--machine must be local, ssh:NAME or agent:NAME.", exit_codes.USAGE, key="client.usage")


def machine_key(service: Api, wanted: str) -> str:
    """The key of a machine in the service's lists and filters."""
    kind, number = find_machine(service, wanted)
    return kind if number is None else f"{kind}:{number}"


def newest_archive(service: Api, repository: dict[str, Any]) -> int:
    newest = service.get(f"/api/repositories/{repository['id']}/archives", limit=1)["archives"]
    if not newest:
        name = repository["name"]
        fail(
            f"{name} has no archives in its index. Create one: holdfast backup {name}",
            exit_codes.NOT_FOUND,
            key="client.not_found",
        )
    found: int = newest[0]["id"]
    return found


def archive_id(service: Api, repository: dict[str, Any], wanted: str) -> int:
    """The id of an indexed archive, given its id, its name or `latest`."""
    if wanted == "latest":
        return newest_archive(service, repository)
    if wanted.isdigit():
        return int(wanted)
    cursor = None
    while True:
        page = service.get(f"/api/repositories/{repository['id']}/archives", limit=500, cursor=cursor)
        for one in page["archives"]:
            if one["name"] == wanted:
                found: int = one["id"]
                return found
        cursor = page["next_cursor"]
        if cursor is None:
            fail(
                f"the index of {repository['name']} has no archive named {wanted}. See: holdfast archives "
                f"{repository['name']}",
                exit_codes.NOT_FOUND,
                key="client.not_found",
            )


def archive_reference(service: Api, repository: dict[str, Any], wanted: str) -> dict[str, Any]:
    """An archive as request bodies refer to it; it need not be in the index."""
    if wanted == "latest":
        return {"archive_id": newest_archive(service, repository)}
    return {"archive_id": int(wanted)} if wanted.isdigit() else {"archive": wanted}
