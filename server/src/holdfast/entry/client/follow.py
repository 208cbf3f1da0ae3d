"""Follows a job to its end and prints its result."""

import time
from typing import Annotated, Any

import typer

from holdfast.entry.client import exit_codes, job_summaries, progress
from holdfast.entry.client.connection import Api
from holdfast.entry.client.output import fail, flag, print_json, remark, report, say

ENDED = frozenset({"completed", "completed_with_warnings", "failed", "cancelled", "skipped"})
POLL_SECONDS = 0.5
LAST_LINES = 8
NoWait = Annotated[bool, flag("--no-wait", "Do not wait: print the job's id and return.")]


def after_start(api: Api, answer: dict[str, Any], *, no_wait: bool, as_json: bool) -> None:
    """Follow a job that was just started, or print its id. Following it ends the program with the job's exit code."""
    if no_wait:
        sentence = f"Started job {answer['job_id']}. Follow it: holdfast ops follow {answer['job_id']}"
        report(answer, sentence, as_json=as_json)
        return
    follow_and_end(api, answer["job_id"], as_json=as_json)


def follow_and_end(api: Api, operation_id: int, *, as_json: bool) -> None:
    """Wait for a job to end, print its result, and end the program with its exit code."""
    try:
        operation = until_ended(api, operation_id, quiet=as_json)
    except KeyboardInterrupt:
        fail(
            f"job {operation_id} continues in the background. Check it: holdfast ops show {operation_id}, or "
            f"holdfast logs {operation_id} -f. Stop it: holdfast ops cancel {operation_id}",
            exit_codes.INTERRUPTED,
            key="client.interrupted",
            params={"job_id": operation_id},
        )
    if as_json:
        print_json(operation)
    else:
        print_ending(api, operation)
    raise typer.Exit(exit_codes.of_job(operation["status"]))


def until_ended(api: Api, operation_id: int, *, quiet: bool) -> dict[str, Any]:
    display = None if quiet else progress.progress_display()
    try:
        while True:
            operation: dict[str, Any] = api.get(f"/api/operations/{operation_id}")
            if operation["status"] in ENDED:
                return operation
            if display is not None:
                display.show(operation)
            time.sleep(POLL_SECONDS)
    finally:
        if display is not None:
            display.close()


def print_ending(api: Api, operation: dict[str, Any]) -> None:
    """Print what a job did; if it failed, also why, the end of its log, and where to find more."""
    show = remark if operation["status"] == "failed" else say
    show(job_summaries.summary(operation))
    for line in job_summaries.details(operation):
        show(line)
    if operation["status"] == "failed":
        print_last_lines(api, operation, show=show)


def print_last_lines(api: Api, operation: dict[str, Any], *, show: Any) -> None:
    lines = last_lines(api, operation["id"]) if operation["has_logs"] else []
    if lines:
        show("The last lines of the log:")
        for line in lines:
            show(f"  {line}")
    show(f"All of it: holdfast ops show {operation['id']}, holdfast logs {operation['id']}")


def last_lines(api: Api, operation_id: int) -> list[str]:
    place = f"/api/operations/{operation_id}/logs"
    total = api.get(place, limit=1)["log_lines"]
    page = api.get(place, offset=max(0, total - LAST_LINES), limit=LAST_LINES)
    return [one["content"] for one in page["lines"]]
