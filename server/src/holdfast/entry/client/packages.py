"""`holdfast packages`: what the service may install on its machine."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import Api, fail
from holdfast.entry.client.follow import NoWait, after_start
from holdfast.entry.client.output import AsJson, print_json, print_table, when

packages = typer.Typer(help="Packages of the service's machine: list, add, install, remove.", no_args_is_help=True)
PackageWord = Annotated[str, typer.Argument(help="Name or id of a package.")]


@packages.command("list")
def list_packages(as_json: AsJson = False) -> None:
    """List the known packages."""
    answer = connection.api().get("/api/packages/")
    if as_json:
        print_json(answer)
        return
    print_table(
        ("id", "name", "status", "installed", "command"),
        (
            (one["id"], one["name"], one["status"], when(one["installed_at"]), " ".join(one["install_command"]))
            for one in answer["packages"]
        ),
    )


@packages.command("add")
def add_package(
    name: Annotated[str, typer.Argument(help="What the package is called.")],
    command: Annotated[list[str], typer.Argument(help="Program and arguments that install it, behind `--`.")],
    as_json: AsJson = False,
) -> None:
    """Add a package; nothing is installed yet."""
    answer = connection.api().post("/api/packages/", {"name": name, "install_command": command})
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"Package {answer['name']} has id {answer['id']}.")


@packages.command("install")
def install_package(package: PackageWord, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Install a package, and follow it."""
    service = connection.api()
    answer = service.post(f"/api/packages/{_find(service, package)['id']}/install")
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


@packages.command("remove")
def remove_package(package: PackageWord) -> None:
    """Forget a package; what was installed stays."""
    service = connection.api()
    found = _find(service, package)
    service.delete(f"/api/packages/{found['id']}")
    typer.echo(f"Package {found['name']} was forgotten.")


def _find(service: Api, wanted: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        one for one in service.get("/api/packages/")["packages"] if wanted in (one["name"], str(one["id"]))
    ]
    if not found:
        fail(f"there is no package called {wanted}", connection.EXIT_NOT_FOUND)
    return found[0]
