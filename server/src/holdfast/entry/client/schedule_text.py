"""Parses times that people type and formats times for them: `02:00`, `6h`, `tomorrow 02:00`."""

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast.entry.client import exit_codes
from holdfast.entry.client.output import fail
from holdfast.entry.client.units import UNKNOWN, age, moment

CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
LENGTH = re.compile(r"(\d+)\s*(m|min|h|d|w)")
WINDOW = re.compile(r"(?:([a-z,\-]+)\s+)?(\d\d:\d\d)-(\d\d:\d\d)(?:\s+(\d+)k)?")
MINUTES = {"m": 1, "min": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WEEK = 7
ZONE_FILES = "zoneinfo/"


def local_zone() -> str:
    """The IANA name of this machine's zone; UTC if it has none."""
    named = os.environ.get("TZ", "").lstrip(":")
    if named and not named.startswith("/"):
        return named
    try:
        target = str(Path("/etc/localtime").readlink())
    except OSError:
        return "UTC"
    return target.rpartition(ZONE_FILES)[2] if ZONE_FILES in target else "UTC"


def daily_cron(clock: str) -> str:
    """Given `02:00`, return the cron expression for every day at that time."""
    found = CLOCK.fullmatch(clock.strip())
    if found is None:
        fail(f"{clock} is not a time of day such as 02:00.", exit_codes.USAGE)
    return f"{int(found[2])} {int(found[1])} * * *"


def minutes(text: str) -> int:
    """Given `6h`, return the number of minutes."""
    found = LENGTH.fullmatch(text.strip().lower())
    if found is None:
        fail(f"{text} is not a time span such as 30m, 6h, 2d or 1w.", exit_codes.USAGE)
    return int(found[1]) * MINUTES[found[2]]


def until(text: str) -> str:
    """Given `3d`, a date or a time, return the instant."""
    if LENGTH.fullmatch(text.strip().lower()):
        return (datetime.now(UTC) + timedelta(minutes=minutes(text))).isoformat()
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        fail(f"{text} is not a time span such as 3d, a date, or a time such as 2026-12-24T08:00.", exit_codes.USAGE)
    return (parsed if parsed.tzinfo else parsed.astimezone()).astimezone(UTC).isoformat()


def window(text: str) -> dict[str, Any]:
    """Given `mon-fri 22:00-06:00 500k`, return the window."""
    found = WINDOW.fullmatch(text.strip().lower())
    if found is None:
        fail(f"{text} is not a window such as '22:00-06:00' or 'mon-fri 22:00-06:00 500k'.", exit_codes.USAGE)
    days, opens, closes, limit = found.groups()
    shown: dict[str, Any] = {"days": _days(days) if days else [], "from": opens, "to": closes}
    return {**shown, **({"upload_kib": int(limit)} if limit else {})}


def _days(text: str) -> list[str]:
    chosen: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last and last not in DAYS):
            fail(f"{part} is not a day such as mon, or a span such as mon-fri.", exit_codes.USAGE)
        start, end = DAYS.index(first), DAYS.index(last or first)
        chosen += [DAYS[day % WEEK] for day in range(start, end + 1 if end >= start else end + 1 + WEEK)]
    return list(dict.fromkeys(chosen))


def label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        fail(f"{text} is not a label such as site=north.", exit_codes.USAGE)
    return name, value


def soon(stamp: str | None) -> str:
    """A future time relative to today, in the user's zone: `tomorrow 02:00 CET`."""
    local = moment(stamp)
    if local is None:
        return UNKNOWN
    days = (local.date() - datetime.now().astimezone().date()).days
    near = {0: "today", 1: "tomorrow", -1: "yesterday"}.get(days)
    if near is None:
        near = f"{local:%a}" if 1 < days < WEEK else f"{local:%Y-%m-%d}"
    return f"{near} {local:%H:%M %Z}"


def there(local: str) -> str:
    """A due time as shown by clocks in the schedule's zone."""
    try:
        return f"{datetime.fromisoformat(local):%a %Y-%m-%d %H:%M}"
    except ValueError:
        return local


def explained(schedule: dict[str, Any]) -> str:
    """The calendar in words; the zone is left out if it is this machine's."""
    return str(schedule["explained"]).removesuffix(f" ({local_zone()})")


def last(schedule: dict[str, Any]) -> str:
    """How the last run ended and how long ago it started."""
    if schedule["last_run"] is None:
        return "never"
    result = {"completed": "ok", "completed_with_warnings": "warnings"}.get(schedule["last_result"] or "")
    return f"{result or schedule['last_result'] or 'running'}, {age(schedule['last_run'])}"


def state(schedule: dict[str, Any], *, paused: bool) -> str:
    if not schedule["enabled"]:
        return "disabled"
    if paused:
        return "paused"
    snoozed = moment(schedule["snoozed_until"])
    if snoozed is not None and snoozed > datetime.now(UTC):
        return "snoozed"
    return "waiting" if schedule["waiting"] else "on"


def targets(schedule: dict[str, Any]) -> str:
    chosen = schedule["targets"]
    names = [one["name"] for one in schedule["repositories"]]
    if chosen.get("all"):
        return f"all ({len(names)})"
    if chosen.get("labels"):
        labels = ", ".join(f"{name}={value}" for name, value in dict(chosen["labels"]).items())
        return f"{labels} ({len(names)})"
    return ", ".join(names) or "none"


def steps(schedule: dict[str, Any]) -> list[str]:
    """Each step with its most important options."""
    return [_step(step) for step in schedule["steps"]]


def _step(step: dict[str, Any]) -> str:
    kept = [
        f"{value} {name.removeprefix('keep_')}" for name, value in step.items() if name.startswith("keep_") and value
    ]
    every = step.get("every_days")
    notes = [f"keep {', '.join(kept)}"] if kept else []
    notes += ["by the repository's retention"] if step.get("kind") == "prune" and not kept else []
    notes += [f"every {every} days"] if every else []
    notes += ["verify data"] if step.get("verify_data") else []
    name = str(step.get("kind")).replace("_", " ")
    if name == "script":
        name = f"script {step.get('script_id')} {step.get('when', 'before')} the backup"
        notes += ["once for all repositories"] if step.get("scope") == "once" else []
        rule = step.get("run_on") if step.get("when") == "after" else step.get("on_failure")
        notes += [{"warn": "only warns"}.get(str(rule), f"on {rule}")] if rule not in (None, "stop", "always") else []
    return f"{name} ({', '.join(notes)})" if notes else name


def windows(schedule: dict[str, Any]) -> list[str]:
    return [_window(one) for one in schedule["windows"]]


def _window(one: dict[str, Any]) -> str:
    chosen = one.get("days") or []
    joined = len(chosen) > 2 and ",".join(chosen) in ",".join(DAYS)
    days = f"{chosen[0]}-{chosen[-1]}" if joined else ",".join(chosen) or "daily"
    limit = f" at most {one['upload_kib']} KiB/s" if one.get("upload_kib") else ""
    return f"{days} {one.get('from', '00:00')}-{one.get('to', '24:00')}{limit}"


OUTCOMES = {
    "snoozed": "snoozed",
    "paused": "all schedules paused",
    "blackout": "blackout day",
    "overlap": "the earlier run had not ended",
    "too_soon": "the last success was too recent",
    "no_targets": "no repository matched",
    "nothing_due": "no step was due",
    "observe_only": "the repository is in observe mode",
    "setup_pending": "the repository is not set up yet",
    "machine_offline": "the machine was offline",
    "service_down": "the service was not running",
    "window_closed": "no window opened in time",
    "overtaken": "the next due time came first",
}


def outcome(row: dict[str, Any]) -> str:
    """The outcome of a due time, in a few words."""
    if row["outcome"] == "ran":
        return str(row["result"] or "running").replace("_", " ")
    if row["outcome"] == "waiting":
        return f"waiting for the {str(row['waiting_for']).replace('_', ' ')}" if row["waiting_for"] else "waiting"
    reason = str(row["reason"] or "")
    return f"{row['outcome']}: {OUTCOMES.get(reason, reason.replace('_', ' '))}"
