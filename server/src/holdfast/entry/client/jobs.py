"""Starting jobs of a repository, and following them."""

import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import EXIT_USAGE, Api, fail
from holdfast.entry.client.follow import NoWait, after_start
from holdfast.entry.client.output import AsJson, print_json, print_table, when
from holdfast.entry.client.repositories import ArchiveWord, Repository, find_repository, newest_archive


def backup(repository: Repository, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Back up a repository's sources now, and follow it."""
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.post("/api/backup/start", {"repository": found["path"]})
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


def restore(
    repository: Repository,
    archive: ArchiveWord,
    destination: Annotated[Path, typer.Argument(help="Folder on the service's machine to restore into.")],
    path: Annotated[
        list[str] | None, typer.Option("--path", help="What to restore; may be given several times.")
    ] = None,
    overwrite: Annotated[
        str, typer.Option(help="What to do with files that are there: skip, replace or fail.")
    ] = "skip",
    layout: Annotated[str, typer.Option(help="preserve_path or contents_only.")] = "preserve_path",
    dry_run: Annotated[bool, typer.Option(help="Read everything, write nothing.")] = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Restore an archive, or parts of it."""
    service = connection.api()
    found = find_repository(service, repository)
    body: dict[str, Any] = {
        "repository_id": found["id"],
        "paths": path or [],
        "destination": str(destination.absolute()),
        "overwrite": overwrite,
        "restore_layout": layout,
        "dry_run": dry_run,
        **named_archive(service, found, archive),
    }
    after_start(service, service.post("/api/restore/start", body), no_wait=no_wait, as_json=as_json)


def named_archive(service: Api, repository: dict[str, Any], wanted: str) -> dict[str, Any]:
    if wanted == "latest":
        return {"archive_id": newest_archive(service, repository)}
    return {"archive_id": int(wanted)} if wanted.isdigit() else {"archive": wanted}


def check(
    repository: Repository,
    verify_data: Annotated[bool, typer.Option(help="Also decrypt and verify all data.")] = False,
    max_duration: Annotated[int | None, typer.Option(help="Stop after so many seconds.")] = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Check a repository."""
    body = {"verify_data": verify_data, **({"max_duration": max_duration} if max_duration else {})}
    _maintain(repository, "check", body, no_wait=no_wait, as_json=as_json)


def compact(repository: Repository, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Free the space of what was deleted."""
    _maintain(repository, "compact", {}, no_wait=no_wait, as_json=as_json)


def prune(
    repository: Repository,
    dry_run: Annotated[bool, typer.Option(help="Say what would be kept and removed; remove nothing.")] = False,
    keep_last: int | None = None,
    keep_hourly: int | None = None,
    keep_daily: int | None = None,
    keep_weekly: int | None = None,
    keep_monthly: int | None = None,
    keep_yearly: int | None = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Remove archives by the repository's retention, or by the rules given."""
    rules = {
        "keep_last": keep_last,
        "keep_hourly": keep_hourly,
        "keep_daily": keep_daily,
        "keep_weekly": keep_weekly,
        "keep_monthly": keep_monthly,
        "keep_yearly": keep_yearly,
    }
    body = {name: value for name, value in rules.items() if value is not None}
    if not dry_run:
        _maintain(repository, "prune", body, no_wait=no_wait, as_json=as_json)
        return
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.post(f"/api/repositories/{found['id']}/prune", {**body, "dry_run": True})
    if as_json:
        print_json(answer)
        return
    result = answer["prune_result"]
    kept = [("keep", one["archive"], when(one["time"]), one["rule"]) for one in result["keep"]]
    gone = [("remove", one["archive"], when(one["time"]), None) for one in result["prune"]]
    print_table(("what", "archive", "time", "rule"), [*kept, *gone])


def _maintain(repository: str, verb: str, body: dict[str, Any], *, no_wait: bool, as_json: bool) -> None:
    service = connection.api()
    found = find_repository(service, repository)
    answer = service.post(f"/api/repositories/{found['id']}/{verb}", body)
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


def restore_check(
    repository: Repository,
    archive: Annotated[str, typer.Option(help="Id or name of the archive, or `latest`.")] = "latest",
    sample: Annotated[int | None, typer.Option(help="So many files, chosen at random (100 unless told).")] = None,
    full: Annotated[bool, typer.Option("--full", help="Every file of the archive.")] = False,
    path: Annotated[list[str] | None, typer.Option("--path", help="This path; may be given several times.")] = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Prove that files of an archive can be restored: read them, and write nothing."""
    service = connection.api()
    found = find_repository(service, repository)
    body: dict[str, Any] = named_archive(service, found, archive)
    body |= {"full_archive": True} if full else {}
    body |= {"sample": sample} if sample is not None else {}
    body |= {"paths": path} if path else {}
    answer = service.post(f"/api/repositories/{found['id']}/restore-check", body)
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


def delete(
    repository: Repository,
    archive: Annotated[str, typer.Argument(help="Id or name of the archive.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Delete an archive."""
    service = connection.api()
    found = find_repository(service, repository)
    if not yes:
        _confirm(f"Delete archive {archive} of {found['name']}?")
    if archive.isdigit():
        service.get(f"/api/repositories/{found['id']}/archives/{archive}")  # it must be one of this repository
        answer = service.delete(f"/api/archives/{archive}")
    else:
        answer = service.delete(f"/api/archives/{quote(archive, safe='')}", repository=found["path"])
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


def undelete(
    repository: Repository,
    engine_id: Annotated[str | None, typer.Argument(help="The engine's id of the archive; without it, a list.")] = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Bring an archive back that was deleted since the last compaction (engine 2)."""
    service = connection.api()
    place = f"/api/repositories/{find_repository(service, repository)['id']}/deleted-archives"
    if engine_id is not None:
        answer = service.post(f"{place}/{quote(engine_id, safe='')}/undelete")
        after_start(service, answer, no_wait=no_wait, as_json=as_json)
        return
    deleted = service.get(place)
    if as_json:
        print_json(deleted)
        return
    rows = [(one["engine_id"], one["name"], when(one["start"])) for one in deleted["archives"]]
    print_table(("engine id", "archive", "time"), rows)


def wipe(
    repository: Repository,
    confirm: Annotated[
        str | None, typer.Option(help="The phrase `WIPE <name>`, for scripts; asked for otherwise.")
    ] = None,
    no_compact: Annotated[bool, typer.Option("--no-compact", help="Leave the freed space for later.")] = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Delete every archive of a repository, after showing what goes."""
    service = connection.api()
    found = find_repository(service, repository)
    place = f"/api/repositories/{found['id']}"
    preview = service.post(f"{place}/wipe-preview", {})
    archives = "1 archive" if preview["archive_count"] == 1 else f"{preview['archive_count']} archives"
    typer.echo(f"{archives} of {found['name']} ({found['path']}) would be gone.", err=True)
    if confirm is None:
        if not sys.stdin.isatty():
            fail(f"say --confirm 'WIPE {found['name']}' to go on", EXIT_USAGE)
        confirm = str(typer.prompt(f"Type WIPE {found['name']} to go on"))
    body = {
        "preview_id": preview["id"],
        "preview_fingerprint": preview["archive_fingerprint"],
        "confirmation_phrase": confirm,
        "understood": True,
        "run_compact": not no_compact,
    }
    job = service.post(f"{place}/wipe", body)
    answer = {"job_id": job["id"], "status": job["status"], "message": "Wipe started."}
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        fail("say --yes to go on without being asked", EXIT_USAGE)
    if not typer.confirm(question):
        raise typer.Exit(EXIT_USAGE)
