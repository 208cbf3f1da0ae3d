"""`holdfast archives`, `protect`, `browse`, `search`, `history`, `download`: the contents of archives."""

import codecs
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.groups import examples
from holdfast.entry.client.lookup import (
    REPOSITORIES,
    ArchiveWord,
    Repository,
    archive_id,
    machine_key,
    repository_names,
)
from holdfast.entry.client.output import AsJson, done, fail, flag, report
from holdfast.entry.client.table import ID, NAME, Column, print_list
from holdfast.entry.client.text import clean_lines
from holdfast.entry.client.units import count, size, when

SIZE = Column("SIZE", lambda one: size(one["size"]), right=True)
START = Column("START", lambda one: when(one["start"]))
MODIFIED = Column("MODIFIED", lambda one: when(one["mtime"]))
HOLDERS = Column("ARCHIVES", "archive_count", right=True)
IN_LATEST = Column("IN LATEST", "present_in_latest")


@examples("holdfast archives etc", "holdfast archives etc --limit 5 --json")
def archives(
    repository: Repository, as_json: AsJson = False, limit: Annotated[int, typer.Option(min=1, max=500)] = 50
) -> None:
    """List the archives of a repository, newest first."""
    service, found = REPOSITORIES.chosen(repository)
    answer = service.get(f"{REPOSITORIES.url_of(found)}/archives", limit=limit)
    files = Column("FILES", lambda one: count(one["nfiles"]), right=True)
    total = Column("SIZE", lambda one: size(one["original_size"]), right=True)
    protected = Column("PROTECTED", lambda one: "yes" if one["protected_at"] else "")
    print_list(
        answer,
        "archives",
        (ID, NAME, START, files, total, protected, "SERIES"),
        as_json=as_json,
        empty=f"{found['name']} has no archives. Create one: holdfast backup {found['name']}",
        note=f"Only the newest {limit} are shown; see --limit." if answer["next_cursor"] is not None else "",
    )


@examples("holdfast protect etc latest", "holdfast protect etc etc-2026-01-01")
def protect(repository: Repository, archive: ArchiveWord, as_json: AsJson = False) -> None:
    """Protect an archive: no prune, deletion or wipe of the service removes it."""
    _protect(repository, archive, as_json, protected=True)


@examples("holdfast unprotect etc etc-2026-01-01")
def unprotect(repository: Repository, archive: ArchiveWord, as_json: AsJson = False) -> None:
    """Let prunes, deletions and wipes remove an archive again."""
    _protect(repository, archive, as_json, protected=False)


def _protect(repository: str, archive: str, as_json: bool, *, protected: bool) -> None:
    service, found = REPOSITORIES.chosen(repository)
    number = archive_id(service, found, archive)
    answer = service.put(f"{REPOSITORIES.url_of(found)}/archives/{number}", {"protected": protected})
    state = "protected" if protected else "no longer protected"
    report(answer, f"{answer['name']} of {found['name']} is {state}.", as_json=as_json)


@examples(
    "holdfast search etc hosts",
    "holdfast search home report.odt --deleted-only",
    "holdfast search report.odt",
    "holdfast search report.odt --machine agent:web",
)
def search(
    words: Annotated[
        list[str],
        typer.Argument(
            help="Repository (name, path or id; default: all) and part of a file name, or of the full path if it "
            "contains a slash.",
            autocompletion=repository_names,
        ),
    ],
    deleted_only: Annotated[bool, flag("--deleted-only", "Only files missing from the newest archives.")] = False,
    machine: Annotated[
        list[str] | None,
        typer.Option(
            help="Search all repositories of a machine: local, ssh:NAME or agent:NAME; an id also works;"
            " may be given several times."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of files.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Find files in all archives of one repository, of all repositories, or of some machines."""
    *repositories, text = words
    if len(repositories) > 1 or (repositories and machine):
        fail("specify one search text, and either one repository or --machine.", exit_codes.USAGE, key="client.usage")
    if repositories:
        _search_one(repositories[0], text, deleted_only, limit, as_json=as_json)
    else:
        _search_all(text, deleted_only, machine or [], limit, as_json=as_json)


def _search_all(text: str, deleted_only: bool, machines: list[str], limit: int, *, as_json: bool) -> None:
    service = connection.api()
    query = {"q": text, "deleted_only": deleted_only, "machine[]": [machine_key(service, one) for one in machines]}
    answer = service.get("/api/search", **query, limit=limit)
    found = answer["results"]
    while answer["next_cursor"] is not None and len(found) < limit:  # a page ends after two seconds of searching
        answer = service.get("/api/search", **query, limit=limit - len(found), cursor=answer["next_cursor"])
        found += answer["results"]
    repositories = count(answer["coverage"]["repositories"], "repository", "repositories")
    more = f"There are more than {count(len(found), 'file')}; see --limit, or use a longer search text."
    left_out = ", ".join(one["repository_name"] for one in answer["coverage"]["incomplete"])
    print_list(
        {**answer, "results": found},
        "results",
        (Column("REPOSITORY", "repository_name"), Column("PATH", elastic=True), SIZE, MODIFIED, HOLDERS, IN_LATEST),
        as_json=as_json,
        empty=f"No file with {text} in its name in {repositories}.",
        note=(more if answer["next_cursor"] is not None else "")
        or (f"Not all archives are indexed in {left_out}." if left_out else ""),
    )


def _search_one(repository: str, text: str, deleted_only: bool, limit: int, *, as_json: bool) -> None:
    answer = REPOSITORIES.get(repository, "search", q=text, limit=limit, deleted_only=deleted_only)
    known = count(len(answer["results"]), "file")
    more = answer["truncated"] or answer["next_cursor"] is not None
    print_list(
        answer,
        "results",
        (Column("PATH", elastic=True), SIZE, MODIFIED, HOLDERS, IN_LATEST),
        as_json=as_json,
        empty=f"No file with {text} in its name in {searched(answer['coverage'])}.",
        note=f"There are more than {known}; see --limit, or use a longer search text." if more else "",
    )


def searched(coverage: dict[str, Any]) -> str:
    """How much of a repository the answer of its index covers."""
    indexed, total = coverage["indexed"], coverage["total"]
    if indexed == total:
        return f"any of its {count(total, 'archive')}" if total != 1 else "its only archive"
    if indexed == 0:
        return "the index, which has not processed any archive yet; try again in a moment"
    return f"the {count(indexed, 'archive')} indexed so far ({total - indexed:,} not indexed yet)"


@examples("holdfast browse etc latest", "holdfast browse etc latest etc/ssh")
def browse(
    repository: Repository,
    archive: ArchiveWord,
    path: Annotated[str, typer.Argument(help="Folder in the archive (default: its root).")] = "",
    limit: Annotated[int, typer.Option(min=1, max=5000, help="Maximum number of entries.")] = 500,
    as_json: AsJson = False,
) -> None:
    """List a folder of an archive."""
    service, found = REPOSITORIES.chosen(repository)
    place = f"{REPOSITORIES.url_of(found)}/archives/{archive_id(service, found, archive)}/browse"
    answer = service.get(place, path=path, limit=limit)
    more = f"More than {limit} entries; see --limit." if answer["next_cursor"] is not None else ""
    columns = ("MODE", SIZE, MODIFIED, NAME)
    print_list(answer, "entries", columns, as_json=as_json, empty="The folder is empty.", note=more)


@examples("holdfast history etc etc/hosts")
def history(
    repository: Repository,
    path: Annotated[
        str, typer.Argument(help="Path of a file or folder as stored in archives, without a leading slash.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show which archives changed a path."""
    service, found = REPOSITORIES.chosen(repository)
    answer = service.get(f"{REPOSITORIES.url_of(found)}/history", path=path)
    gone = "It is no longer in the newest archive." if answer["presence"] == "gone" else ""
    columns = (Column("ARCHIVE", "archive_name", elastic=True), START, "CHANGE", SIZE, MODIFIED)
    print_list(answer, "entries", columns, as_json=as_json, empty=_nowhere(answer, found["name"]), note=gone)


def _nowhere(answer: dict[str, Any], repository: str) -> str:
    """Why a path has no history: it was never in the repository, or not all of it has been indexed."""
    if answer["coverage"]["total"] == 0:
        return f"{repository} has no archives yet."
    if answer["presence"] == "never":
        return f"{answer['path']} was never in {repository}: it is not in {searched(answer['coverage'])}."
    return f"{answer['path']} is not in {searched(answer['coverage'])}."


@examples("holdfast download etc latest etc/hosts", "holdfast download etc latest etc/hosts -o - | diff - /etc/hosts")
def download(
    repository: Repository,
    archive: ArchiveWord,
    path: Annotated[str, typer.Argument(help="Path of a file in the archive.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; `-` for standard output.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download one file from an archive."""
    service, found = REPOSITORIES.chosen(repository)
    place = f"{REPOSITORIES.url_of(found)}/archives/{archive_id(service, found, archive)}/files"
    target = output or Path(Path(path).name)
    if str(target) == "-":
        with service.stream(place, path=path) as answer:
            _to_output(answer.iter_raw())
        return
    if target.exists():
        fail(f"{target} already exists. Choose another file with --output.", exit_codes.CONFLICT)
    part = target.with_name(f"{target.name}.part")
    try:
        with service.stream(place, path=path) as answer, part.open("wb") as file:
            for piece in answer.iter_raw():
                file.write(piece)
        shutil.move(part, target)
    except OSError as error:
        fail(f"cannot write {target}: {error.strerror}.", exit_codes.FAILED)
    finally:
        part.unlink(missing_ok=True)
    fetched = target.stat().st_size
    done(f"{target}: {size(fetched)}", as_json=as_json, file=str(target), size=fetched)


def _to_output(pieces: Iterable[bytes]) -> None:
    """Write the bytes unchanged to a pipe, or as text without control sequences to a terminal."""
    if not sys.stdout.isatty():
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        return
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        typer.echo(clean_lines(decoder.decode(piece)), nl=False)
    typer.echo(clean_lines(decoder.decode(b"", final=True)))
