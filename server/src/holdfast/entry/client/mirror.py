"""`holdfast mirror` and `holdfast remotes`: copies of repositories in the cloud."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import EXIT_FAILED, Api, fail
from holdfast.entry.client.follow import NoWait, after_start
from holdfast.entry.client.output import AsJson, print_json, print_table, size, when
from holdfast.entry.client.repositories import Repository, find_repository

mirror = typer.Typer(help="The mirror of a repository: status, sync, hydrate.", no_args_is_help=True)
remotes = typer.Typer(help="Remotes that mirrors lie on: list, test.", no_args_is_help=True)


@mirror.command()
def status(repository: Repository, as_json: AsJson = False) -> None:
    """Tell where a repository is mirrored to, and what is known of the mirror."""
    service = connection.api()
    answer = service.get(f"{_place(service, repository)}/mirror")
    if as_json:
        print_json(answer)
        return
    print_table(
        ("mirror", "mode", "last sync", "verified", "size"),
        (
            (
                f"{answer['remote']}:{answer['path']}",
                answer["mode"],
                when(answer["last_sync_at"]),
                when(answer["verified_at"]),
                size(answer["mirrored_bytes"]),
            ),
        ),
    )


@mirror.command()
def sync(
    repository: Repository,
    override_sanity: Annotated[
        bool, typer.Option("--override-sanity", help="Mirror it although it looks damaged or much smaller.")
    ] = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Make the mirror equal to the repository, and follow it."""
    service = connection.api()
    answer = service.post(f"{_place(service, repository)}/mirror/sync", {"override_sanity": override_sanity})
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


@mirror.command()
def hydrate(
    repository: Repository,
    destination: Annotated[Path, typer.Argument(help="Folder on the service's machine; empty or not there yet.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Make a repository from its mirror in a new place, and follow it."""
    folder = str(destination.absolute())
    if not yes:
        typer.confirm(f"Fill {folder} with the content of the mirror?", abort=True)
    service = connection.api()
    body = {"destination": folder, "confirm": True}
    answer = service.post(f"{_place(service, repository)}/mirror/hydrate", body)
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


@remotes.command("list")
def list_remotes(as_json: AsJson = False) -> None:
    """List the remotes."""
    answer = connection.api().get("/api/rclone/remotes")
    if as_json:
        print_json(answer)
        return
    print_table(
        ("id", "name", "provider", "repositories"),
        ((one["id"], one["name"], one["provider"], len(one["repository_ids"])) for one in answer["remotes"]),
    )


@remotes.command("test")
def try_remote(
    remote: Annotated[str, typer.Argument(help="Name or id of a remote.")],
    path: Annotated[str, typer.Option(help="Where on the remote the probe is written.")] = "",
    as_json: AsJson = False,
) -> None:
    """Write, read back and delete a small object, and tell how each step went."""
    service = connection.api()
    verdict = service.post(f"/api/rclone/remotes/{_find(service, remote)['id']}/test", {"path": path})
    if as_json:
        print_json(verdict)
    else:
        print_table(
            ("step", "status", "key", "message"),
            ((one["step"], one["status"], one["key"] or "", one["message"] or "") for one in verdict["steps"]),
        )
    if not verdict["ok"]:
        raise typer.Exit(EXIT_FAILED)


def _place(service: Api, repository: str) -> str:
    return f"/api/repositories/{find_repository(service, repository)['id']}"


def _find(service: Api, wanted: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        one for one in service.get("/api/rclone/remotes")["remotes"] if wanted in (one["name"], str(one["id"]))
    ]
    if not found:
        fail(f"there is no remote called {wanted}", connection.EXIT_NOT_FOUND)
    return found[0]
