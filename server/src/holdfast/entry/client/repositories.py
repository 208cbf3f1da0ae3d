"""Repositories, their archives, and what is in them."""

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import EXIT_CONFLICT, Api, fail
from holdfast.entry.client.output import AsJson, print_json, print_table, size, when

Repository = Annotated[str, typer.Argument(help="Name, path or id of a repository.")]
ArchiveWord = Annotated[str, typer.Argument(help="Id or name of the archive, or `latest`.")]


def repos(as_json: AsJson = False) -> None:
    """List repositories."""
    answer = connection.api().get("/api/repositories/")
    if as_json:
        print_json(answer)
        return
    print_table(
        ("id", "name", "path", "archives", "stored", "last backup"),
        (
            (
                one["id"],
                one["name"],
                one["path"],
                one["archive_count"],
                size(one["unique_size"]),
                when(one["last_backup"]),
            )
            for one in answer["repositories"]
        ),
    )


def find_repository(service: Api, wanted: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        one
        for one in service.get("/api/repositories/")["repositories"]
        if wanted in (one["name"], one["path"], str(one["id"]))
    ]
    if not found:
        fail(f"there is no repository called {wanted}", connection.EXIT_NOT_FOUND)
    return found[0]


def archives(repository: Repository, as_json: AsJson = False, limit: int = 50) -> None:
    """List the archives of a repository, newest first."""
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.get(f"/api/repositories/{found['id']}/archives", limit=limit)
    if as_json:
        print_json(answer)
        return
    print_table(
        ("id", "name", "start", "files", "size"),
        (
            (one["id"], one["name"], when(one["start"]), one["nfiles"], size(one["original_size"]))
            for one in answer["archives"]
        ),
    )


def newest_archive(service: Api, repository: dict[str, Any]) -> int:
    newest = service.get(f"/api/repositories/{repository['id']}/archives", limit=1)["archives"]
    if not newest:
        fail("the repository has no archives", connection.EXIT_NOT_FOUND)
    found: int = newest[0]["id"]
    return found


def archive_id(service: Api, repository: dict[str, Any], wanted: str) -> int:
    """The id of an archive that the index knows, by its id, its name, or `latest`."""
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
            fail(f"the index knows no archive called {wanted}", connection.EXIT_NOT_FOUND)


def search(
    repository: Repository,
    text: Annotated[str, typer.Argument(help="Part of a name; of the whole path if it has a slash.")],
    deleted_only: Annotated[bool, typer.Option(help="Only what the newest archives lack.")] = False,
    limit: int = 50,
    as_json: AsJson = False,
) -> None:
    """Find files in all archives of a repository."""
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.get(f"/api/repositories/{found['id']}/search", q=text, limit=limit, deleted_only=deleted_only)
    if as_json:
        print_json(answer)
        return
    print_table(
        ("path", "size", "modified", "archives", "in latest"),
        (
            (
                one["path"],
                size(one["size"]),
                when(one["mtime"]),
                one["archive_count"],
                "yes" if one["present_in_latest"] else "no",
            )
            for one in answer["results"]
        ),
    )


def browse(
    repository: Repository,
    archive: ArchiveWord,
    path: Annotated[str, typer.Argument(help="Folder in the archive; its root when left out.")] = "",
    limit: int = 500,
    as_json: AsJson = False,
) -> None:
    """List a folder of an archive."""
    service = connection.api()
    found = find_repository(service, repository)
    place = f"/api/repositories/{found['id']}/archives/{archive_id(service, found, archive)}/browse"
    answer = service.get(place, path=path, limit=limit)
    if as_json:
        print_json(answer)
        return
    print_table(
        ("mode", "size", "modified", "name"),
        ((one["mode"], size(one["size"]), when(one["mtime"]), one["name"]) for one in answer["entries"]),
    )
    if answer["next_cursor"] is not None:
        typer.echo(f"More than {limit} entries; see --limit.", err=True)


def history(
    repository: Repository,
    path: Annotated[str, typer.Argument(help="Path of a file or folder, as archives have it.")],
    as_json: AsJson = False,
) -> None:
    """Tell which archives changed a path."""
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.get(f"/api/repositories/{found['id']}/history", path=path)
    if as_json:
        print_json(answer)
        return
    print_table(
        ("archive", "start", "change", "size", "modified"),
        (
            (one["archive_name"], when(one["start"]), one["change"], size(one["size"]), when(one["mtime"]))
            for one in answer["entries"]
        ),
    )


def download(
    repository: Repository,
    archive: ArchiveWord,
    path: Annotated[str, typer.Argument(help="Path of a file in the archive.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; `-` for standard output.")
    ] = None,
) -> None:
    """Fetch one file of an archive."""
    service = connection.api()
    found = find_repository(service, repository)
    place = f"/api/repositories/{found['id']}/archives/{archive_id(service, found, archive)}/files"
    target = output or Path(Path(path).name)
    if str(target) == "-":
        with service.stream(place, path=path) as answer:
            for piece in answer.iter_raw():
                sys.stdout.buffer.write(piece)
        return
    if target.exists():
        fail(f"{target} is there already", EXIT_CONFLICT)
    part = target.with_name(f"{target.name}.part")
    with service.stream(place, path=path) as answer, part.open("wb") as file:
        for piece in answer.iter_raw():
            file.write(piece)
    shutil.move(part, target)
    typer.echo(f"{target}: {size(target.stat().st_size)}")
