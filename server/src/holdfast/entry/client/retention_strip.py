"""Draws a simulated retention: a strip of days for each policy."""

from datetime import date, timedelta
from textwrap import fill, wrap
from typing import Any

import typer

from holdfast.entry.client.output import bold, say, terminal_width
from holdfast.entry.client.text import clean
from holdfast.entry.client.units import count, duration, size

POINT, GONE, NOTHING = "█", "░", "·"
LEFT, RIGHT = 4, 2
WIDEST = 100
ORIGINS = {
    "request": "as asked",
    "schedule": "as scheduled",
    "past": "as often as so far",
    "assumed": "daily, as there is no history yet",
}


def draw(name: str, answer: dict[str, Any]) -> None:
    backups, until = answer["backups"], date.fromisoformat(answer["until"])
    policies = [one for one in (answer["simulated"], answer["compared"]) if one is not None]
    _title(
        f"{clean(name)}: {count(answer['archives'], 'archive')} now, "
        f"{count(backups['count'], 'backup')} to come until {until:%d %b %Y} ({ORIGINS[backups['origin']]})"
    )
    if answer["is_shortened"]:
        _line("fewer than 90 days, because there are too many backups")
    first = min((date.fromisoformat(one["days"][-1]["day"]) for one in policies if one["days"]), default=until)
    for policy in policies:
        typer.echo("")
        _draw_policy(policy, first, until)
    if any(policy["days"] for policy in policies):
        typer.echo("")
        _line(f"{POINT} has a restore point on {until:%d %b %Y}, {NOTHING} none from that day")


def draw_past(name: str, answer: dict[str, Any]) -> None:
    """Draw a cell for each past day: restore points that still exist, that were removed, or none."""
    first, until = date.fromisoformat(answer["since"]), date.fromisoformat(answer["until"])
    gone = [one for one in answer["points"] if one["gone_at"] is not None]
    left = [one for one in answer["points"] if one["gone_at"] is None]
    _title(f"{clean(name)}: {count(answer['points_count'], 'restore point')} since {first:%d %b %Y}")
    cells = strip(days_of(gone, first), first, until, GONE)
    typer.echo(" " * LEFT + over(cells, strip(days_of(left, first), first, until)))
    typer.echo(" " * LEFT + _labels(first, until))
    _line(f"{POINT} still exists, {GONE} removed since, {NOTHING} none from that day")
    recorded = date.fromisoformat(answer["recorded_since"][:10])
    if recorded > first:
        _line(
            f"removals are recorded since {recorded:%d %b %Y}; "
            "earlier removals are known only from prunes by this service"
        )
    if answer["points_count"] > len(answer["points"]):
        _line(f"only the newest {len(answer['points'])} are drawn")
    for which, one in (("fewest", min(answer["counts"], key=_points)), ("most", max(answer["counts"], key=_points))):
        day = date.fromisoformat(one["day"])
        _line(f"{which}: {count(one['restore_points'], 'restore point')} at the end of {day:%d %b %Y}")


def _title(text: str) -> None:
    for line in wrap(text, terminal_width(), subsequent_indent="  "):
        typer.echo(bold(line))


def _line(text: str) -> None:
    say(fill(text, terminal_width(), initial_indent="  ", subsequent_indent=" " * LEFT))


def _points(of_day: dict[str, Any]) -> int:
    return int(of_day["restore_points"])


def days_of(points: list[dict[str, Any]], first: date) -> list[dict[str, Any]]:
    """The days, from the first one on, that have a restore point."""
    days = {one["start"][:10] for one in points}
    return [{"day": day} for day in sorted(days) if date.fromisoformat(day) >= first]


def over(below: str, above: str) -> str:
    return "".join(low if high == NOTHING else high for low, high in zip(below, above, strict=True))


def _draw_policy(policy: dict[str, Any], first: date, until: date) -> None:
    rules = [f"{name.replace('_', ' ')} {value}" for name, value in policy["policy"].items() if value]
    _title(", ".join(rules))
    _line(f"today: keeps {count(policy['kept_now'], 'archive')}, removes {policy['removed_now']}")
    if policy["losses"]:
        _tell_losses(policy["losses"])
    points = sum(one["restore_points"] for one in policy["days"])
    _line(f"on {until:%d %b %Y}: {count(points, 'restore point')}")
    if not policy["days"]:
        return
    typer.echo(" " * LEFT + strip(policy["days"], first, until))
    typer.echo(" " * LEFT + _labels(first, until))
    gaps = ", ".join(f"{duration(gap['worst_seconds'])} ({BANDS[gap['age']]})" for gap in policy["gaps"])
    _line(f"longest time without a restore point: {gaps}")
    _tell_bytes(policy["forecast"])


NO_FORECAST = {
    "too_few_backups": "too few backups for a forecast",
    "several_series": "the sizes of the repository's series are not known separately",
    "no_sizes": "the repository has not been measured",
}


def _tell_bytes(forecast: dict[str, Any]) -> None:
    if forecast["reason"]:
        _line(f"no size forecast: {NO_FORECAST.get(forecast['reason'], forecast['reason'])}")
        return
    _line(f"size today: {size(forecast['now'])}")
    for one in forecast["points"]:
        expected = f"{size(one['bytes'])}, " if one["bytes"] is not None else ""
        between = f"between {size(one['low'])} and {size(one['high'])}"
        _line(f"size on {date.fromisoformat(one['day']):%d %b %Y}: {expected}{between}")


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
        _line("nothing would be lost: everything is also in other archives")
        return
    bytes_lost = losses["freed_bytes_at_most"]
    weight = f" ({size(bytes_lost)} before compression)" if bytes_lost is not None else ""
    paths = f"{count(losses['paths_lost'], 'path')} completely"
    _line(f"This would lose {paths} and {count(losses['versions_lost'], 'file version')}{weight}.")
    for one in losses["sample"][:3]:
        say(f"    {clean(one['path'])}")
    if losses["paths_lost"] > len(losses["sample"][:3]) > 0:
        say("    …")


def strip(days: list[dict[str, Any]], first: date, until: date, mark: str = POINT) -> str:
    """A cell for each day, or for several days if the terminal is too narrow."""
    width, per_cell = _scale(first, until)
    cells = [NOTHING] * width
    for one in days:
        cells[(date.fromisoformat(one["day"]) - first).days // per_cell] = mark
    return "".join(cells)


def _labels(first: date, until: date) -> str:
    width, _ = _scale(first, until)
    left, right = f"{first:%d %b %Y}", f"{until:%d %b %Y}"
    return left + right.rjust(max(width - len(left), len(right) + 1))


def _scale(first: date, until: date) -> tuple[int, int]:
    """The number of cells of the strip, and the number of days per cell."""
    days = (until - first) // timedelta(days=1) + 1
    most = max(20, min(terminal_width(), WIDEST) - LEFT - RIGHT)
    per_cell = -(-days // most)
    return -(-days // per_cell), per_cell
