"""Draws the calendar of schedules: a line per day, a column per hour."""

from datetime import date, datetime, timedelta
from typing import Any

import typer

from holdfast.entry.client.output import bold, say, terminal_width
from holdfast.entry.client.text import clean, cut
from holdfast.entry.client.units import count, moment

HOURS = 24
LABEL = 11
WIDE = 110
TO_COME, WAITS, GOOD, WARNED, BAD, LEFT_OUT = "○", "…", "●", "!", "✗", "-"
LEGEND = (
    (TO_COME, "to come"),
    (WAITS, "waiting or running"),
    (GOOD, "done"),
    (WARNED, "with warnings"),
    (BAD, "failed or missed"),
    (LEFT_OUT, "skipped"),
)
WORST_LAST = [TO_COME, GOOD, LEFT_OUT, WAITS, WARNED, BAD]


def draw(answer: dict[str, Any], first: date, days: int) -> None:
    """Print the drawing, a legend, and the schedules in it."""
    cell = 4 if terminal_width() >= WIDE else 2
    cells, names = _cells(answer["entries"])
    zone = datetime.now().astimezone().strftime("%Z")
    typer.echo(bold(f"{count(len(names), 'schedule')}, {first:%d %b %Y}, {count(days, 'day')} ({zone})"))
    heading = "".join(f"{hour:02d}".ljust(cell * 3) for hour in range(0, HOURS, 3))
    typer.echo(f"{' ' * LABEL} {heading}".rstrip())
    today = datetime.now().astimezone().date()
    for number in range(days):
        day = first + timedelta(days=number)
        line = "".join(cells.get((day, hour), "·").ljust(cell) for hour in range(HOURS))
        text = f"{day:%a %d %b} ".ljust(LABEL) + f" {line}".rstrip() + _note(answer["blackouts"], day)
        shown = cut(text, terminal_width() - 1)
        typer.echo(bold(shown) if day == today else shown)
    used = set(cells.values())
    typer.echo("")
    say("  ".join(f"{sign} {words}" for sign, words in LEGEND if sign in used) or "Nothing is due.")
    for name, times in sorted(names.items()):
        say(f"  {clean(name)}: {count(times, 'time')}")
    if answer["paused"]:
        say("All schedules are paused: nothing starts until they are resumed.")
    if answer["truncated"]:
        say("There are too many to show; choose fewer days.")


def _cells(entries: list[dict[str, Any]]) -> tuple[dict[tuple[date, int], str], dict[str, int]]:
    cells: dict[tuple[date, int], str] = {}
    names: dict[str, int] = {}
    for entry in entries:
        local = moment(entry["start_at"] or entry["due_at"])
        if local is None:
            continue
        names[entry["name"]] = names.get(entry["name"], 0) + 1
        place, sign = (local.date(), local.hour), sign_of(entry)
        cells[place] = max(cells.get(place, sign), sign, key=WORST_LAST.index)
    return cells, names


def sign_of(entry: dict[str, Any]) -> str:
    if entry["outcome"] is None:
        return TO_COME if entry["start_at"] is not None else LEFT_OUT
    if entry["outcome"] == "ran":
        signs = {"completed": GOOD, "completed_with_warnings": WARNED, "failed": BAD, "cancelled": LEFT_OUT}
        return signs.get(entry["result"] or "", WAITS)
    return {"waiting": WAITS, "missed": BAD}.get(entry["outcome"], LEFT_OUT)


def _note(blackouts: list[dict[str, Any]], day: date) -> str:
    covering = [one["name"] for one in blackouts if _covers(one, day)]
    return f" {clean(', '.join(covering))}" if covering else ""


def _covers(blackout: dict[str, Any], day: date) -> bool:
    try:
        first, last = (date.fromisoformat(blackout[name]) for name in ("first_day", "last_day"))
    except ValueError:
        return False
    if not blackout["yearly"]:
        return first <= day <= last
    start, end, this = ((each.month, each.day) for each in (first, last, day))
    return start <= this <= end if start <= end else this >= start or this <= end
