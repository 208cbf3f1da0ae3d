"""`holdfast services`: what backups of a repository stop while they run."""

from typing import Annotated

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import Repository, find_repository
from holdfast.entry.client.output import AsJson, print_json, say

services = group(
    "Services that backups of a repository stop and start again: show, set.",
    "holdfast services set nextcloud nextcloud.service redis.service",
    "holdfast services show nextcloud",
)


@services.command("show")
def show_services(repository: Repository, as_json: AsJson = False) -> None:
    """Show the services that backups of a repository stop."""
    service = connection.api()
    answer = service.get(f"/api/repositories/{find_repository(service, repository)['id']}/services")
    if as_json:
        print_json(answer)
    elif not answer["services"]:
        say("Backups of this repository stop nothing.")
    for name in [] if as_json else answer["services"]:
        say(name)


@services.command("set")
def set_services(
    repository: Repository,
    units: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[UNIT]...", help="systemd units, in the order in which they are stopped; none: stop nothing."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose the services that backups of a repository stop, in place of those before."""
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.put(f"/api/repositories/{found['id']}/services", {"services": units or []})
    if as_json:
        print_json(answer)
    else:
        say(f"Backups of {found['name']} stop {', '.join(answer['services']) or 'nothing'}.")
