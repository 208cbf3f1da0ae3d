"""Shows a job's progress: one line that is updated on a terminal, occasional lines in a pipe."""

import sys
import time
from collections.abc import Mapping
from typing import Any

import typer

from holdfast.entry.client.output import may_decorate, say, terminal_width
from holdfast.entry.client.text import clean, cut, shorten, width
from holdfast.entry.client.units import count, duration, size

Operation = Mapping[str, Any]
LINE_SECONDS = 10.0
"""Interval between two lines about the same running job in a pipe."""
BAR_COLUMNS = 10
SIGNS_OF_LIFE = "|/-\\"
LEAST_PATH = 12

WAITS_FOR = {
    "repository_busy": "another job is using the repository",
    "limit_reached": "the limit on concurrent jobs is reached (holdfast limits)",
    "agent_offline": "its machine is offline (holdfast machines)",
    "agent_unsupported": "the agent on its machine cannot do this; update it",
    "paused": "follow-up work is paused (holdfast ops resume)",
    "dependency": "another job must finish first",
}


def label(operation: Operation) -> str:
    subject = operation["repository"] or operation["package_name"]
    kind = str(operation["kind"]).replace("_", " ")
    return f"{kind} {operation['id']}" + (f" of {subject}" if subject else "")


def waiting(operation: Operation) -> str:
    reason = operation["queued_reason"]
    if not reason:
        return "waiting"
    behind = f" (job {operation['queued_behind_id']})" if operation["queued_behind_id"] else ""
    return f"waiting: {WAITS_FOR.get(reason, reason)}{behind}"


def figures(operation: Operation) -> list[str]:
    """The progress figures of a running job, without its current file."""
    details = operation.get("progress_details") or {}
    done = details.get("original_size") if operation["kind"] != "restore" else details.get("restored_size")
    total = details.get("total_expected_size") or (
        details.get("original_size") if operation["kind"] == "restore" else None
    )
    rate = details.get("backup_speed") or details.get("restore_speed")
    shown = []
    if details.get("nfiles"):
        shown.append(count(details["nfiles"], "file"))
    if done:
        shown.append(f"{size(done)} of {size(total)}" if total and total >= done else size(done))
    if details.get("more_than_expected"):
        shown.append("more than last time")
    if rate:
        shown.append(f"{size(rate)}/s")
    if details.get("estimated_time_remaining"):
        shown.append(f"{duration(details['estimated_time_remaining'])} left")
    return shown


def at(operation: Operation) -> str:
    """The current file of a job, or its message."""
    details = operation.get("progress_details") or {}
    return str(details.get("current_file") or operation["progress_message"] or "")


class LiveLine:
    """One line on a terminal that is overwritten again and again."""

    def show(self, operation: Operation) -> None:
        columns = terminal_width() - 1
        if operation["status"] == "pending":
            text = "  ".join([label(operation), "─" * BAR_COLUMNS, waiting(operation)])
        else:
            text = self._running(operation, columns)
        sys.stdout.write(f"\r{cut(clean(text), columns)}\x1b[K")
        sys.stdout.flush()

    def close(self) -> None:
        sys.stdout.write("\r\x1b[K")
        sys.stdout.flush()

    def _running(self, operation: Operation, columns: int) -> str:
        """All figures and the current file; if space is short, first the bar is dropped, then the remaining time."""
        known, place = figures(operation), clean(at(operation))
        remaining = [one for one in known if one.endswith(" left")]
        for parts in (
            [label(operation), *self._bar(operation), *known],
            [label(operation), *self._bar(operation)[-1:], *known],
            [label(operation), *self._bar(operation)[-1:], *(one for one in known if one not in remaining)],
        ):
            text = clean("  ".join(parts))
            rest = columns - width(text) - 2
            if not place or rest >= LEAST_PATH:
                break
        return f"{text}  {shorten(place, rest)}" if place and rest >= LEAST_PATH else text

    def _bar(self, operation: Operation) -> list[str]:
        percent = operation["progress_percent"]
        if percent is None:  # the total is unknown, so no bar may suggest otherwise
            return [SIGNS_OF_LIFE[int(time.monotonic() * 4) % len(SIGNS_OF_LIFE)]]
        filled = int(min(percent, 100.0) / 100 * BAR_COLUMNS)
        return ["━" * filled + "─" * (BAR_COLUMNS - filled), f"{percent:.0f}%"]


class PlainLines:
    """A line at each change of status, and one every few seconds while the job runs."""

    def __init__(self) -> None:
        self._status = ""
        self._last = 0.0

    def show(self, operation: Operation) -> None:
        status = waiting(operation) if operation["status"] == "pending" else str(operation["status"])
        if status == self._status and time.monotonic() - self._last < LINE_SECONDS:
            return
        repeated, self._status, self._last = status == self._status, status, time.monotonic()
        percent = operation["progress_percent"]
        known = [f"{percent:.0f}%"] if percent is not None and operation["status"] == "running" else []
        known += figures(operation) if operation["status"] == "running" else []
        if operation["status"] in ("pending", "running") and (known or not repeated):
            say(", ".join([f"{label(operation)}: {status}", *known]))

    def close(self) -> None:
        typer.echo("", nl=False)


def progress_display() -> LiveLine | PlainLines:
    return LiveLine() if may_decorate() else PlainLines()
