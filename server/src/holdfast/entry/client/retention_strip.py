"""A simulated retention as a drawing: a strip of days for each policy."""

from datetime import date, timedelta
from typing import Any

import typer

from holdfast.entry.client.output import bold, say, terminal_width
from holdfast.entry.client.text import clean
from holdfast.entry.client.units import count, duration, size

POINT, NOTHING = "█", "·"
LEFT, RIGHT = 4, 2
WIDEST = 100
ORIGINS = {
    "request": "as asked",
    "schedule": "as scheduled",
    "past": "as often as so far",
    "assumed": "daily, since nothing is known yet",
}


def draw(name: str, answer: dict[str, Any]) -> None:
    backups, until = answer["backups"], date.fromisoformat(answer["until"])
    policies = [one for one in (answer["simulated"], answer["compared"]) if one is not None]
    typer.echo(
        bold(
            f"{clean(name)}: {count(answer['archives'], 'archive')} now, "
            f"{count(backups['count'], 'backup')} to come until {until:%d %b %Y} ({ORIGINS[backups['origin']]})"
        )
    )
    first = min((date.fromisoformat(one["days"][-1]["day"]) for one in policies if one["days"]), default=until)
    for policy in policies:
        typer.echo("")
        _draw_policy(policy, first, until)


def _draw_policy(policy: dict[str, Any], first: date, until: date) -> None:
    rules = [f"{name.replace('_', ' ')} {value}" for name, value in policy["policy"].items() if value]
    typer.echo(bold(", ".join(rules)))
    say(f"  today: keeps {count(policy['kept_now'], 'archive')}, removes {policy['removed_now']}")
    if policy["losses"]:
        _tell_losses(policy["losses"])
    points = sum(one["restore_points"] for one in policy["days"])
    say(f"  on {until:%d %b %Y}: {count(points, 'restore point')}")
    if not policy["days"]:
        return
    typer.echo(" " * LEFT + strip(policy["days"], first, until))
    typer.echo(" " * LEFT + _labels(first, until))
    gaps = ", ".join(f"{duration(gap['worst_seconds'])} ({BANDS[gap['age']]})" for gap in policy["gaps"])
    say(f"  longest time without a restore point: {gaps}")


BANDS = {
    "day": "last day",
    "week": "last week",
    "month": "last month",
    "quarter": "last quarter",
    "year": "last year",
    "older": "before",
}


def _tell_losses(losses: dict[str, Any]) -> None:
    if not losses["versions_lost"]:
        say("  nothing would be lost: all of it is in other archives as well")
        return
    bytes_lost = losses["freed_bytes_at_most"]
    weight = f", {size(bytes_lost)} before compression" if bytes_lost is not None else ""
    say(
        f"  then {count(losses['paths_lost'], 'file or folder', 'files and folders')} would be in no archive any more, "
        f"and {count(losses['versions_lost'], 'older state', 'states')} of files{weight}"
    )
    for one in losses["sample"][:3]:
        say(f"    {clean(one['path'])}")
    if losses["paths_lost"] > len(losses["sample"][:3]) > 0:
        say("    …")


def strip(days: list[dict[str, Any]], first: date, until: date) -> str:
    """A cell for each day, or for as many days as it takes to fit the terminal."""
    width, per_cell = _scale(first, until)
    cells = [NOTHING] * width
    for one in days:
        cells[(date.fromisoformat(one["day"]) - first).days // per_cell] = POINT
    return "".join(cells)


def _labels(first: date, until: date) -> str:
    width, _ = _scale(first, until)
    left, right = f"{first:%d %b %Y}", f"{until:%d %b %Y}"
    return left + right.rjust(max(width - len(left), len(right) + 1))


def _scale(first: date, until: date) -> tuple[int, int]:
    """How many cells the strip has, and how many days each stands for."""
    days = (until - first) // timedelta(days=1) + 1
    most = max(20, min(terminal_width(), WIDEST) - LEFT - RIGHT)
    per_cell = -(-days // most)
    return -(-days // per_cell), per_cell
