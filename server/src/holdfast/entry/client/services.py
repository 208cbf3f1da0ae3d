"""`holdfast services`: services that a repository's backups stop while they run."""

from typing import Annotated

import typer

from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import REPOSITORIES, Repository
from holdfast.entry.client.output import AsJson, report

services = group(
    "Services that a repository's backups stop and restart: show, set.",
    "holdfast services set nextcloud nextcloud.service redis.service",
    "holdfast services show nextcloud",
)


@services.command("show")
def show_services(repository: Repository, as_json: AsJson = False) -> None:
    """Show the services that backups of a repository stop."""
    answer = REPOSITORIES.get(repository, "services")
    names = "\n".join(answer["services"])
    report(answer, names or "Backups of this repository stop nothing.", as_json=as_json)


@services.command("set")
def set_services(
    repository: Repository,
    units: Annotated[
        list[str] | None,
        typer.Argument(help="systemd units in stopping order (none: stop nothing)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose the services that backups of a repository stop, replacing the previous ones."""
    service, found = REPOSITORIES.chosen(repository)
    answer = service.put(f"{REPOSITORIES.url_of(found)}/services", {"services": units or []})
    sentence = f"Backups of {found['name']} stop {', '.join(answer['services']) or 'nothing'}."
    report(answer, sentence, as_json=as_json)
