"""Operations, their logs, and the activity."""

import time
from typing import Annotated, Any

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import EXIT_USAGE, Api, fail
from holdfast.entry.client.follow import exit_code, follow
from holdfast.entry.client.output import AsJson, print_json, print_table, when

OperationId = Annotated[int, typer.Argument(help="Id of an operation (job).")]

operations = typer.Typer(help="Look at operations: list, show, cancel, follow, logs.", no_args_is_help=True)


def activity(limit: int = 30, as_json: AsJson = False) -> None:
    """What happened lately."""
    answer = connection.api().get("/api/activity/recent", limit=limit)
    if as_json:
        print_json(answer)
        return
    _print_operations(answer)


def logs(
    operation_id: OperationId,
    follow_on: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the operation has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the log of an operation."""
    _print_logs(connection.api(), operation_id, follow_on=follow_on, as_json=as_json)


@operations.command("list")
def list_operations(
    status: Annotated[list[str] | None, typer.Option(help="Only this status; may be given several times.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind; may be given several times.")] = None,
    limit: int = 30,
    as_json: AsJson = False,
) -> None:
    """List operations, newest first."""
    answer = connection.api().get("/api/operations/", status=status, kind=kind, limit=limit)
    if as_json:
        print_json(answer)
        return
    _print_operations(answer["items"])


@operations.command("show")
def show_operation(operation_id: OperationId, as_json: AsJson = False) -> None:
    """Show one operation."""
    answer = connection.api().get(f"/api/operations/{operation_id}")
    if as_json:
        print_json(answer)
        return
    shown = (
        "kind status repository triggered_by created_at started_at completed_at duration_seconds attempt archive_name "
        "queued_reason queued_behind_id error_key error_message"
    )
    print_table(("field", "value"), ((name, answer[name]) for name in shown.split() if answer[name] is not None))


@operations.command("cancel")
def cancel_operation(operation_id: OperationId, as_json: AsJson = False) -> None:
    """Ask an operation to stop."""
    answer = connection.api().post(f"/api/operations/{operation_id}/cancel")
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"{answer['status']}: {answer['message']}")


@operations.command("follow")
def follow_operation(operation_id: OperationId, as_json: AsJson = False) -> None:
    """Wait for an operation's end; the exit code says how it ended."""
    operation = follow(connection.api(), operation_id, quiet=as_json)
    if as_json:
        print_json(operation)
    raise typer.Exit(exit_code(operation["status"]))


@operations.command("logs")
def operation_logs(
    operation_id: OperationId,
    follow_on: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the operation has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the log of an operation."""
    _print_logs(connection.api(), operation_id, follow_on=follow_on, as_json=as_json)


def _print_operations(items: list[dict[str, Any]]) -> None:
    print_table(
        ("id", "kind", "status", "repository", "started", "seconds", "error"),
        (
            (
                one["id"],
                one["kind"],
                one["status"],
                one["repository"],
                when(one["started_at"]),
                one["duration_seconds"],
                one["error_key"],
            )
            for one in items
        ),
    )


def _print_logs(service: Api, operation_id: int, *, follow_on: bool, as_json: bool) -> None:
    if follow_on and as_json:
        fail("--follow prints lines; it does not go with --json", EXIT_USAGE)
    offset = 0
    while True:
        page = service.get(f"/api/operations/{operation_id}/logs", offset=offset, limit=5000)
        if as_json:
            print_json(page)
            return
        for line in page["lines"]:
            typer.echo(line["content"])
        offset = page["total_lines"]
        if page["has_more"]:
            continue
        if not follow_on or page["status"] not in ("pending", "running"):
            return
        time.sleep(0.5)
