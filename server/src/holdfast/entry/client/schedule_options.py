"""The options of `holdfast schedules create`, `edit` and `preview`, and the requests made from them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from backup_engine.frozen import frozen
from holdfast.entry.client import connection, exit_codes, schedule_text
from holdfast.entry.client.connection import Api
from holdfast.entry.client.lookup import SCRIPTS, Collection, find_repository, given
from holdfast.entry.client.output import fail

SCHEDULES = Collection("/api/schedules/", "schedules", "schedule", "schedules list")
URL = "/api/schedules"
MOST_NAMES = 3
RULES = {"before": ("stop", "warn"), "after": ("always", "success", "warning", "failure")}
"""What to do when a script before the backup fails, and when to run a script after the backup."""
ONCE = ":once"
"""Suffix for one run for all repositories."""


def schedule_names(incomplete: str) -> list[str]:
    """Schedule names that a shell offers as completions."""
    from holdfast.entry.client.lookup import PLAIN

    answer = connection.quietly("/api/schedules/") or {}
    names = [str(one["name"]) for one in answer.get("schedules", [])]
    return [name for name in names if name.startswith(incomplete) and PLAIN.fullmatch(name)]


ScheduleWord = Annotated[str, typer.Argument(help="Name or id of a schedule.", autocompletion=schedule_names)]
Cron = Annotated[str | None, typer.Option(help="Cron expression of five fields, such as '30 2 * * 1-5'.")]
At = Annotated[str | None, typer.Option(help="Every day at this time, such as 02:00.")]
Every = Annotated[str | None, typer.Option(help="At an exact interval, such as 6h.")]
Laptop = Annotated[
    str | None,
    typer.Option(
        metavar="SPAN", help="Whenever the machine is online and the last success is older than this, such as 1d."
    ),
]
Tz = Annotated[str | None, typer.Option("--tz", help="Time zone, such as Europe/Berlin (default: this machine's).")]
Repositories = Annotated[
    list[str] | None,
    typer.Option("--repository", "-r", metavar="NAME", help="Repository; may be given several times."),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=VALUE", help="Repositories with this label, including future ones."),
]
All = Annotated[bool | None, typer.Option("--all", help="Every repository, including future ones.")]
Windows = Annotated[
    list[str] | None,
    typer.Option("--window", metavar="WINDOW", help="Start only in this window, such as 'mon-fri 22:00-06:00'."),
]
Spread = Annotated[int | None, typer.Option(min=0, help="Spread the starts over this many minutes.")]
Retries = Annotated[int | None, typer.Option(min=0, help="Retries after temporary errors (default: 3).")]
Compact = Annotated[bool | None, typer.Option("--compact/--no-compact", help="Free up space after pruning.")]
CheckEvery = Annotated[int | None, typer.Option(min=0, metavar="DAYS", help="Days between checks; 0 turns them off.")]
RestoreCheckEvery = Annotated[
    int | None,
    typer.Option(min=0, metavar="DAYS", help="Days between restore checks, which read files back; 0 turns them off."),
]
Mirror = Annotated[bool | None, typer.Option("--mirror/--no-mirror", help="Update the mirror.")]
Dump = Annotated[bool | None, typer.Option("--dump/--no-dump", help="Dump the repository's databases first.")]
Before = Annotated[
    list[str] | None,
    typer.Option(metavar="SCRIPT[:warn][:once]", help="Run this script before the backup; may be given several times."),
]
After = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SCRIPT[:success|warning|failure][:once]", help="Run this script after the backup, or only then."
    ),
]
Description = Annotated[str | None, typer.Option(help="What the schedule is for.")]


TARGETS = {"repository": Repositories, "label": Labels, "everything": All}
CALENDAR = {"cron": Cron, "at": At, "every": Every, "laptop": Laptop, "tz": Tz}
STEPS = {
    "compact": Compact,
    "check_every": CheckEvery,
    "restore_check_every": RestoreCheckEvery,
    "mirror": Mirror,
    "dump": Dump,
    "before": Before,
    "after": After,
}
LIMITS = {"spread": Spread, "retries": Retries, "description": Description}


def calendar(
    cron: str | None = None,
    at: str | None = None,
    every: str | None = None,
    laptop: str | None = None,
    tz: str | None = None,
) -> dict[str, Any]:
    """The calendar fields of the request. Fail if more than one kind was given."""
    if sum(value is not None for value in (cron, at, every, laptop)) > 1:
        fail("specify only one of --cron, --at, --every and --laptop.", exit_codes.USAGE)
    zone = {"timezone": tz} if tz else {}
    if cron is not None or at is not None:
        expression = cron if cron is not None else schedule_text.daily_cron(at or "")
        return {"schedule_mode": "cron", "cron_expression": expression, **zone}
    if every is not None:
        return {"schedule_mode": "interval", "interval_minutes": schedule_text.minutes(every), **zone}
    if laptop is not None:
        gap = schedule_text.minutes(laptop)
        return {"schedule_mode": "availability", "min_success_interval_minutes": gap, **zone}
    return zone


def targets(
    service: Api,
    repository: Sequence[str] | None = None,
    label: Sequence[str] | None = None,
    everything: bool | None = None,
) -> dict[str, Any]:
    """The target fields of the request."""
    if sum((bool(repository), bool(label), bool(everything))) > 1:
        fail("specify only one of --repository, --label and --all.", exit_codes.USAGE)
    if repository:
        ids = [find_repository(service, word)["id"] for word in repository]
        return {"targets": {"repository_ids": ids}}
    if label:
        return {"targets": {"labels": dict(map(schedule_text.label, label))}}
    return {"targets": {"all": True}} if everything else {}


@frozen
class StepOptions:
    """The step options that were given; None leaves a step as it is."""

    keep: Mapping[str, Any]
    compact: bool | None = None
    check_every: int | None = None
    restore_check_every: int | None = None
    mirror: bool | None = None
    dump: bool | None = None
    before: Sequence[str] | None = None
    after: Sequence[str] | None = None


def steps(service: Api, present: Sequence[Mapping[str, Any]], options: StepOptions) -> list[dict[str, Any]]:
    """The schedule's steps, changed by the options.

    Given scripts replace those of the same place, before or after the backup.
    """
    scripts = [dict(step) for step in present if step.get("kind") == "script"]
    others = [step for step in present if step.get("kind") != "script"]
    by_kind = {str(step.get("kind")): dict(step) for step in others or [{"kind": "backup"}]}
    if options.keep:
        by_kind["prune"] = {"kind": "prune", **options.keep}
    for kind, wanted in (("compact", options.compact), ("mirror", options.mirror), ("dump", options.dump)):
        if wanted:
            by_kind.setdefault(kind, {"kind": kind})
        elif wanted is False:
            by_kind.pop(kind, None)
    for kind, days in (("check", options.check_every), ("restore_check", options.restore_check_every)):
        if days:
            by_kind[kind] = {**by_kind.get(kind, {}), "kind": kind, "every_days": days}
        elif days == 0:
            by_kind.pop(kind, None)
    for place, words in (("before", options.before), ("after", options.after)):
        if words:
            scripts = [step for step in scripts if step.get("when", "before") != place]
            scripts += [_script(service, place, word) for word in words]
    return [*scripts, *by_kind.values()]


def _script(service: Api, place: str, word: str) -> dict[str, Any]:
    """Given `NAME`, `NAME:RULE`, or either with `:once`, return the step."""
    word, once = (word.removesuffix(ONCE), True) if word.endswith(ONCE) else (word, False)
    name, _, rule = word.rpartition(":") if word.rpartition(":")[2] in RULES[place] else (word, "", "")
    found = SCRIPTS.find(service, name)
    field = "on_failure" if place == "before" else "run_on"
    more = {**({field: rule} if rule else {}), **({"scope": "once"} if once else {})}
    return {"kind": "script", "when": place, "script_id": found["id"], **more}


def limits(
    windows: list[str] | None, spread: int | None = None, retries: int | None = None, description: str | None = None
) -> dict[str, Any]:
    """The other request fields that were given."""
    parsed = [schedule_text.window(text) for text in windows] if windows else None
    return given(windows=parsed, spread_minutes=spread, retries=retries, description=description)
