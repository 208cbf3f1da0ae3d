"""Commands that start jobs of a repository and follow them."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from holdfast.entry.client import exit_codes
from holdfast.entry.client.follow import NoWait, after_start
from holdfast.entry.client.groups import examples
from holdfast.entry.client.lookup import REPOSITORIES, ArchiveWord, Repository, archive_reference, find_machine, given
from holdfast.entry.client.output import AsJson, Yes, confirm, fail, flag, print_json, remark
from holdfast.entry.client.retention_rules import NO_RULES, Rules, with_rules
from holdfast.entry.client.table import Column, print_list, print_table
from holdfast.entry.client.text import clean
from holdfast.entry.client.units import count, when

Paths = Annotated[
    list[str] | None, typer.Option("--path", metavar="PATH", help="Path in the archive; may be given several times.")
]


@examples("holdfast backup etc", "holdfast backup etc --no-wait", "holdfast backup etc --comment 'before the upgrade'")
def backup(
    repository: Repository,
    comment: Annotated[str | None, typer.Option(help="Comment of the archive.")] = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Back up a repository's sources now."""
    service, found = REPOSITORIES.chosen(repository)
    body = {"repository": found["path"], **({"comment": comment} if comment else {})}
    after_start(service, service.post("/api/backup/start", body), no_wait=no_wait, as_json=as_json)


@examples(
    "holdfast restore etc latest /srv/restored --path etc/hosts",
    "holdfast restore etc latest /srv/restored --dry-run",
    "holdfast restore etc latest /srv/restored --machine agent:web",
)
def restore(
    repository: Repository,
    archive: ArchiveWord,
    destination: Annotated[Path, typer.Argument(help="Folder to restore to, on the service's machine or --machine.")],
    path: Paths = None,
    machine: Annotated[
        str | None,
        typer.Option(
            help="Machine with the folder: local (the service's own; default), ssh:NAME or agent:NAME; an id also "
            "works."
        ),
    ] = None,
    overwrite: Annotated[
        Literal["skip", "replace", "fail"], typer.Option(help="What to do with files that already exist.")
    ] = "skip",
    layout: Annotated[
        Literal["preserve_path", "contents_only"],
        typer.Option(help="Keep the whole path below the destination, or only the contents of the chosen folders."),
    ] = "preserve_path",
    dry_run: Annotated[bool, flag("--dry-run", "Show what would be restored; write nothing.")] = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Restore an archive, or parts of it."""
    if machine is not None and not destination.is_absolute():
        fail("A folder on another machine must be an absolute path.", exit_codes.USAGE, key="client.usage")
    service, found = REPOSITORIES.chosen(repository)
    kind, number = find_machine(service, machine or "local")
    body: dict[str, Any] = {
        "repository_id": found["id"],
        "paths": path or [],
        "destination": str(destination.absolute()),
        "destination_type": kind,
        **({} if number is None else {"destination_machine_id": number}),
        "overwrite": overwrite,
        "restore_layout": layout,
        "dry_run": dry_run,
        **archive_reference(service, found, archive),
    }
    after_start(service, service.post("/api/restore/start", body), no_wait=no_wait, as_json=as_json)


@examples("holdfast check etc", "holdfast check etc --verify-data", "holdfast check etc --max-duration 3600")
def check(
    repository: Repository,
    verify_data: Annotated[bool, flag("--verify-data", "Also decrypt and verify all data.")] = False,
    max_duration: Annotated[
        int | None, typer.Option(min=1, help="Time limit in seconds; the next check resumes there.")
    ] = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Check a repository for damage."""
    body = {"verify_data": verify_data, **({"max_duration": max_duration} if max_duration else {})}
    _maintain(repository, "check", body, no_wait=no_wait, as_json=as_json)


@examples("holdfast compact etc")
def compact(repository: Repository, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Free the space of deleted archives."""
    _maintain(repository, "compact", {}, no_wait=no_wait, as_json=as_json)


@examples("holdfast prune etc --dry-run", "holdfast prune etc --keep-daily 7 --keep-weekly 4")
@with_rules
def prune(
    repository: Repository,
    dry_run: Annotated[bool, flag("--dry-run", "Show what would be kept and removed; remove nothing.")] = False,
    rules: Rules = NO_RULES,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Remove archives by the repository's retention rules, or by the rules given."""
    if not dry_run:
        _maintain(repository, "prune", dict(rules), no_wait=no_wait, as_json=as_json)
        return
    service, found = REPOSITORIES.chosen(repository)
    answer = service.post(f"{REPOSITORIES.url_of(found)}/prune", {**rules, "dry_run": True})
    if as_json:
        print_json(answer)
        return
    result = answer["prune_result"]
    kept = [{**one, "what": "keep"} for one in result["keep"]]
    gone = [{**one, "what": "remove", "rule": None} for one in result["prune"]]
    time = Column("TIME", lambda one: when(one["time"]))
    columns = ("WHAT", Column("ARCHIVE", elastic=True), time, "RULE")
    print_table(columns, [*kept, *gone], empty=f"{found['name']} has no archives.")
    remark(f"Would keep {count(result['kept_count'], 'archive')} and remove {count(result['pruned_count'])}.")
    if result["refusal"]:
        remark(f"A prune would refuse: {result['refusal']['message']} ({result['refusal']['key']})")


def _maintain(repository: str, verb: str, body: dict[str, Any], *, no_wait: bool, as_json: bool) -> None:
    service, found = REPOSITORIES.chosen(repository)
    answer = service.post(f"{REPOSITORIES.url_of(found)}/{verb}", body)
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


@examples("holdfast restore-check etc", "holdfast restore-check etc --full")
def restore_check(
    repository: Repository,
    archive: Annotated[str, typer.Option(help="Id or name of the archive, or `latest`.")] = "latest",
    sample: Annotated[int | None, typer.Option(min=1, help="Number of random files to read (default: 100).")] = None,
    full: Annotated[bool, flag("--full", "Read every file of the archive.")] = False,
    path: Paths = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Prove that files of an archive can be restored: read them, write nothing."""
    service, found = REPOSITORIES.chosen(repository)
    body: dict[str, Any] = archive_reference(service, found, archive)
    body |= given(full_archive=full or None, sample=sample, paths=path or None)
    answer = service.post(f"{REPOSITORIES.url_of(found)}/restore-check", body)
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


@examples("holdfast delete etc etc-2026-01-01 --yes")
def delete(
    repository: Repository,
    archive: Annotated[str, typer.Argument(help="Id or name of the archive.")],
    yes: Yes = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Delete an archive."""
    service, found = REPOSITORIES.chosen(repository)
    confirm(f"Delete archive {archive} of {found['name']}?", yes=yes)
    if archive.isdigit():
        service.get(f"{REPOSITORIES.url_of(found)}/archives/{archive}")  # it must belong to this repository
        answer = service.delete(f"/api/archives/{archive}")
    else:
        answer = service.delete(f"/api/archives/{quote(archive, safe='')}", repository=found["path"])
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


@examples("holdfast undelete etc", "holdfast undelete etc 8d3f…")
def undelete(
    repository: Repository,
    engine_id: Annotated[
        str | None, typer.Argument(help="The engine's id of the archive (default: list deleted archives).")
    ] = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Bring back an archive that was deleted since the last compaction (engine 2)."""
    service, found = REPOSITORIES.chosen(repository)
    place = f"{REPOSITORIES.url_of(found)}/deleted-archives"
    if engine_id is not None:
        answer = service.post(f"{place}/{quote(engine_id, safe='')}/undelete")
        after_start(service, answer, no_wait=no_wait, as_json=as_json)
        return
    start = Column("TIME", lambda one: when(one["start"]))
    columns = (Column("ENGINE ID", elastic=True), Column("ARCHIVE", "name", elastic=True), start)
    empty = f"{found['name']} has no deleted archives that can be undeleted."
    print_list(service.get(place), "archives", columns, as_json=as_json, empty=empty)


@examples("holdfast wipe old", "holdfast wipe old --confirm 'WIPE old'")
def wipe(
    repository: Repository,
    confirm: Annotated[
        str | None, typer.Option(help="The phrase `WIPE <name>`, for scripts (default: prompt for it).")
    ] = None,
    no_compact: Annotated[bool, flag("--no-compact", "Do not reclaim the space now.")] = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Delete every archive of a repository, after showing what will be deleted."""
    service, found = REPOSITORIES.chosen(repository)
    place = REPOSITORIES.url_of(found)
    preview = service.post(f"{place}/wipe-preview", {})
    if not as_json:
        remark(f"{count(preview['archive_count'], 'archive')} of {found['name']} ({found['path']}) would be deleted.")
    if confirm is None:
        if not sys.stdin.isatty():
            fail(f"add --confirm 'WIPE {found['name']}' to continue; nothing was deleted.", exit_codes.USAGE)
        confirm = str(typer.prompt(clean(f"Type WIPE {found['name']} to continue")))
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
