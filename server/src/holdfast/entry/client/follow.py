"""Following an operation to its end: a bar on a terminal, plain lines when piped."""

import sys
import time
from typing import Annotated, Any

import typer

from holdfast.entry.client.connection import EXIT_FAILED, EXIT_WARNINGS, Api
from holdfast.entry.client.output import print_json

ENDED = frozenset({"completed", "completed_with_warnings", "failed", "cancelled", "skipped"})
POLL_SECONDS = 0.5
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return at once with the job's id.")]


def after_start(api: Api, answer: dict[str, Any], *, no_wait: bool, as_json: bool) -> None:
    """What every command does that has started a job: follow it, or say its id. Ends with the job's exit code."""
    if no_wait:
        if as_json:
            print_json(answer)
        else:
            typer.echo(f"{answer['message']} Job {answer['job_id']}.")
        return
    operation = follow(api, answer["job_id"], quiet=as_json)
    if as_json:
        print_json(operation)
    raise typer.Exit(exit_code(operation["status"]))


def exit_code(status: str) -> int:
    if status == "completed_with_warnings":
        return EXIT_WARNINGS
    return 0 if status == "completed" else EXIT_FAILED


def follow(api: Api, operation_id: int, *, quiet: bool = False) -> dict[str, Any]:
    """Wait until an operation has ended and return it, showing how far it is."""
    if quiet:
        return _until_ended(api, operation_id, lambda _operation: None)
    if sys.stdout.isatty():
        return _with_bar(api, operation_id)
    return _with_lines(api, operation_id)


def _until_ended(api: Api, operation_id: int, show: Any) -> dict[str, Any]:
    while True:
        operation: dict[str, Any] = api.get(f"/api/operations/{operation_id}")
        show(operation)
        if operation["status"] in ENDED:
            return operation
        time.sleep(POLL_SECONDS)


def _with_bar(api: Api, operation_id: int) -> dict[str, Any]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn()
    with Progress(*columns) as progress:
        task = progress.add_task("waiting", total=100, note="")

        def show(operation: dict[str, Any]) -> None:
            progress.update(
                task,
                description=f"{operation['kind']} {operation_id}: {operation['status']}",
                completed=operation["progress_percent"] or 0,
                note=_note(operation),
            )

        operation = _until_ended(api, operation_id, show)
    typer.echo(_ending(operation))
    return operation


def _with_lines(api: Api, operation_id: int) -> dict[str, Any]:
    last = ""

    def show(operation: dict[str, Any]) -> None:
        nonlocal last
        line = f"{operation['kind']} {operation_id}: {operation['status']} {_note(operation)}".rstrip()
        if operation["status"] not in ENDED and line != last:
            typer.echo(line)
            last = line

    operation = _until_ended(api, operation_id, show)
    typer.echo(_ending(operation))
    return operation


def _note(operation: dict[str, Any]) -> str:
    if operation["queued_reason"]:
        behind = f" (behind {operation['queued_behind_id']})" if operation["queued_behind_id"] else ""
        return f"{operation['queued_reason']}{behind}"
    return str(operation["progress_message"] or "")


def _ending(operation: dict[str, Any]) -> str:
    line = f"{operation['kind']} {operation['id']}: {operation['status']}"
    return f"{line}: {operation['error_message']}" if operation["error_message"] else line
