"""`holdfast ops`, `logs` and `activity`: jobs, their logs, and recent activity."""

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes, job_summaries, progress
from holdfast.entry.client.connection import Api
from holdfast.entry.client.follow import ENDED, NoWait, after_start, follow_and_end, print_last_lines
from holdfast.entry.client.groups import examples, group, shown
from holdfast.entry.client.lookup import find_repository
from holdfast.entry.client.option_groups import NOTHING, Given, with_options
from holdfast.entry.client.output import AsJson, fail, print_json, report, say
from holdfast.entry.client.table import ID, Column, print_fields, print_table
from holdfast.entry.client.text import clean
from holdfast.entry.client.units import duration, when
from holdfast.operations.status import Status


class CategoryWord(StrEnum):
    BACKUP = "backup"
    RESTORE = "restore"
    MAINTENANCE = "maintenance"
    INDEX = "index"
    MIRROR = "mirror"
    SYSTEM = "system"
    IMPORT = "import"
    SCRIPT = "script"


SHOWN = 20
"""Maximum number of warnings and other items that `ops show` prints; the log contains all."""
OperationId = Annotated[int, typer.Argument(help="Id of a job.")]
Statuses = Annotated[
    list[Status] | None,
    typer.Option("--status", metavar="STATUS", help="Only this status; may be given several times."),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="KIND", help="Only this kind, such as backup; may be given several times."),
]
Categories = Annotated[
    list[CategoryWord] | None,
    typer.Option("--category", metavar="CATEGORY", help="Only this category; may be given several times."),
]
OfRepository = Annotated[str | None, typer.Option("--repository", "-r", help="Only jobs of this repository.")]
Limit = Annotated[int, typer.Option(min=1, max=500, help="Maximum number of jobs.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Follow the job until it ends.")]

operations = group(
    "Jobs: list, show, follow, logs, cancel, retry; pause and resume follow-up work.",
    "holdfast ops list --status failed",
    "holdfast ops show 42",
    "holdfast ops logs 42 -f",
)


@examples("holdfast activity", "holdfast activity --status failed --limit 5")
@with_options(chosen={"status": Statuses, "category": Categories, "repository": OfRepository})
def activity(chosen: Given = NOTHING, limit: Limit = 30, as_json: AsJson = False) -> None:
    """Show recent activity."""
    answer = _some("/api/activity/recent", limit=limit, **chosen)
    _print_operations(answer, answer, as_json=as_json)


@examples("holdfast logs 42", "holdfast logs 42 -f")
def logs(operation_id: OperationId, follow_on: Follow = False, as_json: AsJson = False) -> None:
    """Print the log of a job."""
    _print_logs(connection.api(), operation_id, follow_on=follow_on, as_json=as_json)


@operations.command("list", epilog=shown("holdfast ops list --repository etc --kind backup --limit 5"))
@with_options(chosen={"status": Statuses, "kind": Kinds, "category": Categories, "repository": OfRepository})
def list_operations(chosen: Given = NOTHING, limit: Limit = 30, as_json: AsJson = False) -> None:
    """List jobs, newest first."""
    answer = _some("/api/operations/", limit=limit, **chosen)
    _print_operations(answer, answer["items"], as_json=as_json)


@operations.command("show")
def show_operation(operation_id: OperationId, as_json: AsJson = False) -> None:
    """Show one job: what it did, its warnings, and the end of its log."""
    service = connection.api()
    answer = service.get(f"/api/operations/{operation_id}")
    if as_json:
        print_json(answer)
        return
    if answer["status"] in ENDED:
        say(job_summaries.summary(answer))
    else:
        say(f"{progress.label(answer)}: {_state(answer)}")
    print_fields(
        answer,
        (
            "id",
            "kind",
            "status",
            "repository",
            ("archive", answer["archive_name"]),
            ("started by", answer["triggered_by"]),
            ("created", when(answer["created_at"])),
            ("started", when(answer["started_at"]) if answer["started_at"] else None),
            ("completed", when(answer["completed_at"]) if answer["completed_at"] else None),
            ("took", duration(answer["duration_seconds"]) if answer["duration_seconds"] is not None else None),
            ("attempt", answer["attempt"] if answer["attempt"] > 1 else None),
            ("error", answer["error_key"]),
        ),
    )
    for line in job_summaries.details(answer, SHOWN):
        say(line)
    print_last_lines(service, answer, show=say)


def _state(operation: dict[str, Any]) -> str:
    if operation["status"] == "pending":
        return progress.waiting(operation)
    percent = operation["progress_percent"]
    known = [f"{percent:.0f}%"] if percent is not None else []
    return ", ".join(["running", *known, *progress.figures(operation), *filter(None, [progress.at(operation)])])


@operations.command("cancel")
def cancel_operation(operation_id: OperationId, as_json: AsJson = False) -> None:
    """Ask a job to stop."""
    answer = connection.api().post(f"/api/operations/{operation_id}/cancel")
    report(answer, f"{answer['status']}: {answer['message']}", as_json=as_json)


@operations.command("retry")
def retry_operation(operation_id: OperationId, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Retry a job that failed or was cancelled."""
    service = connection.api()
    answer = service.post(f"/api/operations/{operation_id}/retry")
    after_start(service, answer, no_wait=no_wait, as_json=as_json)


@operations.command("follow")
def follow_operation(operation_id: OperationId, as_json: AsJson = False) -> None:
    """Wait for a job to end; the exit code shows how it ended."""
    follow_and_end(connection.api(), operation_id, as_json=as_json)


@operations.command("logs")
def operation_logs(operation_id: OperationId, follow_on: Follow = False, as_json: AsJson = False) -> None:
    """Print the log of a job."""
    _print_logs(connection.api(), operation_id, follow_on=follow_on, as_json=as_json)


@operations.command("pause")
def pause(as_json: AsJson = False) -> None:
    """Hold follow-up and index work (admins); backups started by people still run."""
    _paused(connection.api().post("/api/operations/pause"), as_json=as_json)


@operations.command("resume")
def resume(as_json: AsJson = False) -> None:
    """Resume follow-up and index work (admins)."""
    _paused(connection.api().post("/api/operations/resume"), as_json=as_json)


def _paused(answer: dict[str, Any], *, as_json: bool) -> None:
    sentence = "Follow-up work is paused." if answer["paused"] else "Follow-up work has resumed."
    report(answer, sentence, as_json=as_json)


def _some(url: str, repository: str | None = None, **filters: Any) -> Any:
    service = connection.api()
    only = None if repository is None else find_repository(service, repository)["id"]
    return service.get(url, repository_id=only, **filters)


def _print_operations(answer: Any, items: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    columns = (
        ID,
        "KIND",
        "STATUS",
        Column("REPOSITORY", lambda one: one["repository"] or one["package_name"], elastic=True),
        Column("STARTED", lambda one: when(one["started_at"])),
        Column("TOOK", lambda one: duration(one["duration_seconds"]), right=True),
        Column("ERROR", "error_key", elastic=True),
    )
    print_table(columns, items, empty="No jobs. Start one: holdfast backup NAME")


def _print_logs(service: Api, operation_id: int, *, follow_on: bool, as_json: bool) -> None:
    if follow_on and as_json:
        fail("--follow prints lines and cannot be combined with --json.", exit_codes.USAGE)
    try:
        _read_logs(service, operation_id, follow_on=follow_on, as_json=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(exit_codes.INTERRUPTED) from None


def _read_logs(service: Api, operation_id: int, *, follow_on: bool, as_json: bool) -> None:
    offset = 0
    while True:
        page = service.get(f"/api/operations/{operation_id}/logs", offset=offset, limit=5000)
        if as_json:
            print_json(page)
            return
        for line in page["lines"]:
            typer.echo(clean(line["content"].expandtabs()))
        offset = page["total_lines"]
        if page["has_more"]:
            continue
        if not follow_on or page["status"] not in ("pending", "running"):
            return
        time.sleep(0.5)
