"""`holdfast mirror`: a repository's copy in the cloud."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from holdfast.entry.client.follow import NoWait, after_start
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import REPOSITORIES, Repository, given
from holdfast.entry.client.output import AsJson, Yes, confirm, done, flag, print_json, remark
from holdfast.entry.client.remotes import REMOTES
from holdfast.entry.client.table import Column, print_table
from holdfast.entry.client.units import size, when

OverrideSanity = Annotated[bool, flag("--override-sanity", "Mirror it even if it looks damaged or much smaller.")]

mirror = group(
    "The mirror of a repository: status, set, sync, hydrate, off.",
    "holdfast mirror set etc nas backups/etc",
    "holdfast mirror sync etc",
    "holdfast mirror hydrate etc /srv/from-the-mirror",
)


@mirror.command()
def status(repository: Repository, as_json: AsJson = False) -> None:
    """Show where a repository is mirrored to and how current the mirror is."""
    service, found = REPOSITORIES.chosen(repository)
    answer = service.get(_url(found))
    if as_json:
        print_json(answer)
    else:
        _print(answer)


@mirror.command("set")
def set_mirror(
    repository: Repository,
    remote: Annotated[str, typer.Argument(help="Name or id of a remote (holdfast remotes).")],
    path: Annotated[str, typer.Argument(help="Folder on the remote.")],
    mode: Annotated[
        Literal["after_backup", "interval", "manual"], typer.Option(help="When the mirror is updated.")
    ] = "after_backup",
    interval_minutes: Annotated[
        int | None, typer.Option(min=1, help="Minutes between syncs, for `--mode interval`.")
    ] = None,
    bandwidth_limit: Annotated[int | None, typer.Option(min=1, help="Limit in KiB per second.")] = None,
    shrink_threshold: Annotated[
        int,
        typer.Option(min=1, max=100, help="Refuse to mirror a repository that shrank by more than this percentage."),
    ] = 50,
    verify: Annotated[bool, typer.Option(help="Compare the mirror with the repository after each sync.")] = True,
    verify_sample: Annotated[
        int, typer.Option(help="Files to read back after each sync where the remote has no hashes.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Mirror a repository to a remote, or change how it is mirrored."""
    service, found = REPOSITORIES.chosen(repository)
    body: dict[str, Any] = {
        "remote_id": REMOTES.find(service, remote)["id"],
        "path": path,
        "mode": mode,
        "shrink_threshold_percent": shrink_threshold,
        "verify": verify,
        "verify_sample": verify_sample,
        **given(interval_minutes=interval_minutes, bandwidth_limit_kib=bandwidth_limit),
    }
    answer = service.put(_url(found), body)
    if as_json:
        print_json(answer)
        return
    _print(answer)
    if answer["sync_operation_id"] is not None:
        remark(f"A first sync was started: holdfast ops follow {answer['sync_operation_id']}")


@mirror.command("off")
def remove_mirror(repository: Repository, yes: Yes = False, as_json: AsJson = False) -> None:
    """Stop mirroring a repository. The files on the remote are kept."""
    service, found = REPOSITORIES.chosen(repository)
    confirm(f"Stop mirroring {found['name']}? The files on the remote are kept.", yes=yes)
    service.delete(_url(found))
    done(f"{found['name']} is no longer mirrored; the files on the remote are kept.", as_json=as_json, id=found["id"])


@mirror.command()
def sync(
    repository: Repository,
    override_sanity: OverrideSanity = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Synchronise the mirror with the repository."""
    _start(repository, "sync", {"override_sanity": override_sanity}, no_wait=no_wait, as_json=as_json)


@mirror.command()
def hydrate(
    repository: Repository,
    destination: Annotated[
        Path, typer.Argument(help="Folder on the service's machine; must be empty or not exist yet.")
    ],
    yes: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild a repository from its mirror in a new place."""
    folder = str(destination.absolute())
    confirm(f"Fill {folder} with the content of the mirror?", yes=yes)
    body = {"destination": folder, "confirm": True}
    _start(repository, "hydrate", body, no_wait=no_wait, as_json=as_json)


def _start(repository: str, verb: str, body: dict[str, Any], *, no_wait: bool, as_json: bool) -> None:
    service, found = REPOSITORIES.chosen(repository)
    after_start(service, service.post(f"{_url(found)}/{verb}", body), no_wait=no_wait, as_json=as_json)


def _url(repository: dict[str, Any]) -> str:
    return f"{REPOSITORIES.url_of(repository)}/mirror"


def _print(answer: dict[str, Any]) -> None:
    columns = (
        Column("MIRROR", lambda one: f"{one['remote']}:{one['path']}", elastic=True),
        "MODE",
        Column("LAST SYNC", lambda one: when(one["last_sync_at"])),
        Column("VERIFIED", lambda one: when(one["verified_at"])),
        Column("SIZE", lambda one: size(one["mirrored_bytes"]), right=True),
    )
    print_table(columns, [answer])
