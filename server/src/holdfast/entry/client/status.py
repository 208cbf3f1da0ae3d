"""`holdfast status`: whether everything is backed up, and which jobs are running, failed or overdue."""

from typing import Any

import typer

from holdfast.entry.client import connection, exit_codes, progress
from holdfast.entry.client.groups import examples
from holdfast.entry.client.output import AsJson, bold, print_json, say
from holdfast.entry.client.text import clean
from holdfast.entry.client.units import age, count, when

MOST = 10


@examples("holdfast status", "holdfast status --json | jq .verdict")
def status(as_json: AsJson = False) -> None:
    """Show whether everything is backed up. Exit code 0: all is well; 8: something needs attention."""
    answer = connection.api().get("/api/activity/status")
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    if answer["verdict"] != "ok":
        raise typer.Exit(exit_codes.ATTENTION)


def _print(answer: dict[str, Any]) -> None:
    typer.echo(bold(clean(answer["summary"])))
    _section("Running", [_active(one) for one in answer["running"]])
    _section("Waiting", [_active(one) for one in answer["waiting"]])
    _section("Failed", [_failed(one) for one in answer["failed"]])
    _section("With warnings", [_warned(one) for one in answer["warned"]])
    troubled = [one for one in answer["repositories"] if one["health"] in ("overdue", "never")]
    _section("Overdue or never backed up", [f"{one['name']}: {one['summary']}" for one in troubled])
    offline = answer["machines_offline"] or []
    _section("Offline", [f"{one['name']}: {one['status']}, last seen {age(one['last_seen_at'])}" for one in offline])
    _section("Alarms", [f"{one['severity']}: {one['message']} See: holdfast alarms list" for one in answer["alarms"]])
    if not answer["repositories"]:
        say("Next: holdfast repos create NAME PATH --source FOLDER")


def _section(title: str, lines: list[str]) -> None:
    if not lines:
        return
    typer.echo(bold(f"{title}:"))
    for line in lines[:MOST]:
        say(f"  {clean(line)}")
    if len(lines) > MOST:
        say(f"  and {count(len(lines) - MOST, 'more', 'more')}")


def _active(operation: dict[str, Any]) -> str:
    if operation["status"] == "pending":
        return f"{progress.label(operation)}: {progress.waiting(operation)}"
    percent = operation["progress_percent"]
    known = [f"{percent:.0f}%"] if percent is not None else []
    known += progress.figures(operation)
    since = f"since {when(operation['started_at'])}"
    return f"{progress.label(operation)}: {', '.join([*known, since])}"


def _failed(operation: dict[str, Any]) -> str:
    return (
        f"{progress.label(operation)}, {age(operation['completed_at'])}: {operation['error_message']} "
        f"({operation['error_key']}) See: holdfast ops show {operation['id']}"
    )


def _warned(operation: dict[str, Any]) -> str:
    warnings = operation["warnings"]
    first = f": {warnings[0].get('message') or warnings[0].get('path')}" if warnings else ""
    return (
        f"{progress.label(operation)}, {age(operation['completed_at'])}{first} See: holdfast ops show {operation['id']}"
    )
