"""`holdfast schedules`: work that runs by itself."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import (
    connection,
    exit_codes,
    retention_rules,
    schedule_options,
    schedule_runs,
    schedule_text,
)
from holdfast.entry.client.groups import group
from holdfast.entry.client.option_groups import NOTHING, Given, with_options
from holdfast.entry.client.output import AsJson, Yes, fail, flag, print_json, remark, report
from holdfast.entry.client.schedule_options import LIMITS, MOST_NAMES, SCHEDULES, ScheduleWord, StepOptions, Windows
from holdfast.entry.client.table import NAME, Column, print_fields, print_list
from holdfast.entry.client.units import when

schedules = group(
    "Schedules: list, show, create, edit, enable, disable, snooze, run, next, calendar, history, delete, preview.",
    "holdfast schedules create nightly --repository etc --at 02:00 --keep-daily 7",
    "holdfast schedules list",
    "holdfast schedules run nightly",
    "holdfast schedules calendar --days 14",
)


@schedules.command("list")
def list_schedules(as_json: AsJson = False) -> None:
    """List all schedules that you can see."""
    answer = connection.api().get(SCHEDULES.url)
    columns = (
        NAME,
        Column("STATE", lambda one: schedule_text.state(one, paused=answer["paused"])),
        Column("WHEN", schedule_text.explained, elastic=True),
        Column("NEXT", lambda one: schedule_text.soon(one["next_run"])),
        Column("LAST", schedule_text.last),
        Column("TARGETS", schedule_text.targets, elastic=True),
    )
    hint = "No schedules. Create one: holdfast schedules create nightly --repository NAME --at 02:00"
    print_list(answer, "schedules", columns, as_json=as_json, empty=hint)


@schedules.command()
def show(schedule: ScheduleWord, as_json: AsJson = False) -> None:
    """Show one schedule: when, where and what it runs, its next due time, and what is waiting."""
    service, listed = SCHEDULES.chosen(schedule)
    _print(service.get(SCHEDULES.url_of(listed)), as_json=as_json)


with_schedule_options = with_options(
    targets=schedule_options.TARGETS,
    calendar=schedule_options.CALENDAR,
    rules=retention_rules.OPTIONS,
    steps=schedule_options.STEPS,
    limits=LIMITS,
)


@schedules.command()
@with_schedule_options
def create(
    name: Annotated[str, typer.Argument(help="Name of the new schedule.")],
    targets: Given = NOTHING,
    calendar: Given = NOTHING,
    rules: Given = NOTHING,
    steps: Given = NOTHING,
    window: Windows = None,
    limits: Given = NOTHING,
    as_json: AsJson = False,
) -> None:
    """Create a schedule. It runs a backup; options add further steps."""
    if not set(calendar) - {"tz"}:
        fail("specify when to run: --at 02:00, --cron '30 2 * * 1-5', --every 6h or --laptop 1d.", exit_codes.USAGE)
    service = connection.api()
    body = {
        "name": name,
        **schedule_options.calendar(**{"tz": schedule_text.local_zone(), **calendar}),
        **schedule_options.targets(service, **targets),
        "steps": schedule_options.steps(service, [], StepOptions(dict(rules), **steps)),
        **schedule_options.limits(window, **limits),
    }
    created = service.post(SCHEDULES.url, body)
    _print(created, as_json=as_json)
    if not as_json:
        remark(f"Try it now: holdfast schedules run {created['name']}")


@schedules.command()
@with_schedule_options
def edit(
    schedule: ScheduleWord,
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    targets: Given = NOTHING,
    calendar: Given = NOTHING,
    rules: Given = NOTHING,
    no_prune: Annotated[bool, flag("--no-prune", "Stop pruning.")] = False,
    steps: Given = NOTHING,
    no_scripts: Annotated[bool, flag("--no-scripts", "Stop running scripts.")] = False,
    window: Windows = None,
    no_windows: Annotated[bool, flag("--no-windows", "Allow starts at any time.")] = False,
    limits: Given = NOTHING,
    as_json: AsJson = False,
) -> None:
    """Change a schedule; other fields stay unchanged. A new calendar counts from now."""
    service, found = SCHEDULES.chosen(schedule)
    left_out = {kind for kind, is_out in (("prune", no_prune), ("script", no_scripts)) if is_out}
    kept = [step for step in found["steps"] if step.get("kind") not in left_out]
    changed = schedule_options.steps(service, kept, StepOptions(dict(rules), **steps))
    body = {
        **({"name": name} if name else {}),
        **schedule_options.calendar(**calendar),
        **schedule_options.targets(service, **targets),
        **({"steps": changed} if changed != found["steps"] else {}),
        **schedule_options.limits(window, **limits),
        **({"windows": []} if no_windows else {}),
    }
    if not body:
        fail("specify at least one change. See: holdfast schedules edit --help", exit_codes.USAGE)
    _print(service.put(SCHEDULES.url_of(found), {**body, "revision": found["revision"]}), as_json=as_json)


@schedules.command()
def enable(schedule: ScheduleWord, as_json: AsJson = False) -> None:
    """Enable a schedule again."""
    _switch(schedule, "enable", as_json=as_json)


@schedules.command()
def disable(schedule: ScheduleWord, as_json: AsJson = False) -> None:
    """Disable a schedule. Running jobs continue; waiting ones are skipped."""
    _switch(schedule, "disable", as_json=as_json)


@schedules.command()
def snooze(
    schedule: ScheduleWord,
    until: Annotated[str | None, typer.Argument(help="Time span such as 3d, or a date or time.")] = None,
    off: Annotated[bool, flag("--off", "End the snooze.")] = False,
    as_json: AsJson = False,
) -> None:
    """Skip the due times of a schedule for a while."""
    if (until is None) == (not off):
        fail("specify how long, such as 3d, or --off.", exit_codes.USAGE)
    body = {"until": None if until is None else schedule_text.until(until)}
    answer = SCHEDULES.post(schedule, "snooze", body)
    state = "is awake. " if off else f"is snoozed until {when(answer['snoozed_until'])}.\n"
    report(answer, f"{answer['name']} {state}Next run: {schedule_text.soon(answer['next_run'])}", as_json=as_json)


for command_name, function in (
    ("run", schedule_runs.run),
    ("next", schedule_runs.next_fires),
    ("calendar", schedule_runs.calendar),
    ("history", schedule_runs.history),
    ("preview", schedule_runs.preview),
):
    schedules.command(command_name)(function)


@schedules.command()
def delete(schedule: ScheduleWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a schedule. Its history and archives are kept."""
    question = "Delete schedule {name}? Its history and archives are kept."
    sentence = "Deleted {name}; its history and archives are kept."
    SCHEDULES.remove(schedule, sentence, as_json=as_json, question=question, yes=yes)


# Parts
# ------------------------------------------------------------------------------------------------------------------


def _switch(schedule: str, verb: str, *, as_json: bool) -> None:
    service, found = SCHEDULES.chosen(schedule)
    answer = service.post(f"{SCHEDULES.url_of(found)}/{verb}")
    enabled = f"is enabled. Next run: {schedule_text.soon(answer['next_run'])}"
    report(answer, f"{answer['name']} {enabled if answer['enabled'] else 'is disabled.'}", as_json=as_json)


def _print(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_fields(
        found,
        [
            "name",
            "description",
            ("state", schedule_text.state(found, paused=False)),
            ("when", found["explained"]),
            ("next run", schedule_text.soon(found["next_run"])),
            ("last run", schedule_text.last(found)),
            ("targets", schedule_text.targets(found)),
            ("steps", schedule_text.steps(found)),
            ("windows", schedule_text.windows(found)),
            ("spread", f"{found['spread_minutes']} minutes" if found["spread_minutes"] else None),
            "retries",
            ("snoozed until", when(found["snoozed_until"]) if found["snoozed_until"] else None),
            (
                "waiting",
                [f"{row['repository']}: {schedule_text.outcome(row)}" for row in found["waiting"][:MOST_NAMES]],
            ),
        ],
    )
