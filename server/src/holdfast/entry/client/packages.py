"""`holdfast packages`: what the service may install on its machine."""

from typing import Annotated

import typer

from holdfast.entry.client.follow import NoWait, after_start
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import Collection
from holdfast.entry.client.output import AsJson
from holdfast.entry.client.table import ID, Column
from holdfast.entry.client.units import when

packages = group(
    "Packages of the service's machine: list, add, install, remove.",
    "holdfast packages add curl -- apt-get install -y curl",
    "holdfast packages install curl",
)
PACKAGES = Collection("/api/packages/", "packages", "package", "packages list")
PackageWord = Annotated[str, typer.Argument(help="Name or id of a package.")]


@packages.command("list")
def list_packages(as_json: AsJson = False) -> None:
    """List the known packages."""
    installed = Column("INSTALLED", lambda one: when(one["installed_at"]))
    command = Column("COMMAND", lambda one: " ".join(one["install_command"]), elastic=True)
    empty = "No packages. Add one: holdfast packages add NAME -- COMMAND"
    PACKAGES.print((ID, "NAME", "STATUS", installed, command), as_json=as_json, empty=empty)


@packages.command("add")
def add_package(
    name: Annotated[str, typer.Argument(help="Name of the package.")],
    command: Annotated[list[str], typer.Argument(help="Install command (program and arguments), after `--`.")],
    as_json: AsJson = False,
) -> None:
    """Add a package; nothing is installed yet."""
    sentence = "Package {name} has id {id}. Install it: holdfast packages install {name}"
    PACKAGES.add({"name": name, "install_command": command}, sentence, as_json=as_json)


@packages.command("install")
def install_package(package: PackageWord, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Install a package."""
    service, found = PACKAGES.chosen(package)
    answer = service.post(f"{PACKAGES.url_of(found)}/install")
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


@packages.command("remove")
def remove_package(package: PackageWord, as_json: AsJson = False) -> None:
    """Remove a package from the list; the installed program stays."""
    PACKAGES.remove(package, "Package {name} was removed from the list; the program stays installed.", as_json=as_json)
