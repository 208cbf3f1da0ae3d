"""`holdfast packages`: what the service may install on its machine."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import Api
from holdfast.entry.client.follow import NoWait, after_start
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import named
from holdfast.entry.client.output import AsJson, Column, done, print_json, print_table, say
from holdfast.entry.client.units import when

packages = group(
    "Packages of the service's machine: list, add, install, remove.",
    "holdfast packages add curl -- apt-get install -y curl",
    "holdfast packages install curl",
)
PackageWord = Annotated[str, typer.Argument(help="Name or id of a package.")]


@packages.command("list")
def list_packages(as_json: AsJson = False) -> None:
    """List the known packages."""
    answer = connection.api().get("/api/packages/")
    if as_json:
        print_json(answer)
        return
    print_table(
        (Column("ID", right=True), "NAME", "STATUS", "INSTALLED", Column("COMMAND", elastic=True)),
        (
            (one["id"], one["name"], one["status"], when(one["installed_at"]), " ".join(one["install_command"]))
            for one in answer["packages"]
        ),
        empty="No packages. Add one: holdfast packages add NAME -- COMMAND",
    )


@packages.command("add")
def add_package(
    name: Annotated[str, typer.Argument(help="Name of the package.")],
    command: Annotated[list[str], typer.Argument(help="Program and arguments that install it, after `--`.")],
    as_json: AsJson = False,
) -> None:
    """Add a package; nothing is installed yet."""
    answer = connection.api().post("/api/packages/", {"name": name, "install_command": command})
    if as_json:
        print_json(answer)
    else:
        say(f"Package {answer['name']} has id {answer['id']}. Install it: holdfast packages install {answer['name']}")


@packages.command("install")
def install_package(package: PackageWord, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Install a package."""
    service = connection.api()
    answer = service.post(f"/api/packages/{_find(service, package)['id']}/install")
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


@packages.command("remove")
def remove_package(package: PackageWord, as_json: AsJson = False) -> None:
    """Forget a package; the installed program stays."""
    service = connection.api()
    found = _find(service, package)
    service.delete(f"/api/packages/{found['id']}")
    done(f"Package {found['name']} was forgotten; the installed program stays.", as_json=as_json, id=found["id"])


def _find(service: Api, wanted: str) -> dict[str, Any]:
    return named(service.get("/api/packages/")["packages"], wanted, "package", "name", see="packages list")
