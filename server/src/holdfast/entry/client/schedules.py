"""`holdfast schedules`: what runs by itself."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes, schedule_options, schedule_runs, schedule_words
from holdfast.entry.client.groups import group
from holdfast.entry.client.output import (
    AsJson,
    Column,
    Yes,
    confirm,
    done,
    fail,
    print_fields,
    print_json,
    print_table,
    remark,
    say,
)
from holdfast.entry.client.retention_rules import NO_RULES, Rules, with_rules
from holdfast.entry.client.schedule_options import (
    MOST_NAMES,
    URL,
    After,
    All,
    At,
    Before,
    CheckEvery,
    Compact,
    Cron,
    Description,
    Dump,
    Every,
    Labels,
    Laptop,
    Mirror,
    Repositories,
    RestoreCheckEvery,
    Retries,
    ScheduleWord,
    Spread,
    StepOptions,
    Tz,
    Windows,
    find,
)
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
    """List all schedules that you may see."""
    answer = connection.api().get(f"{URL}/")
    if as_json:
        print_json(answer)
        return
    rows = [
        (
            one["name"],
            schedule_words.state(one, paused=answer["paused"]),
            schedule_words.explained(one),
            schedule_words.soon(one["next_run"]),
            schedule_words.last(one),
            schedule_words.targets(one),
        )
        for one in answer["schedules"]
    ]
    columns = (
        Column("NAME", elastic=True),
        "STATE",
        Column("WHEN", elastic=True),
        "NEXT",
        "LAST",
        Column("TARGETS", elastic=True),
    )
    hint = "There are no schedules. Create one: holdfast schedules create nightly --repository NAME --at 02:00"
    print_table(columns, rows, empty=hint)


@schedules.command()
def show(schedule: ScheduleWord, as_json: AsJson = False) -> None:
    """Show one schedule: when, where, what, its next due time and what waits."""
    service = connection.api()
    found = service.get(f"{URL}/{find(service, schedule)['id']}")
    if as_json:
        print_json(found)
    else:
        _print(found)


@schedules.command()
@with_rules
def create(
    name: Annotated[str, typer.Argument(help="Name of the new schedule.")],
    repository: Repositories = None,
    label: Labels = None,
    everything: All = False,
    cron: Cron = None,
    at: At = None,
    every: Every = None,
    laptop: Laptop = None,
    tz: Tz = None,
    rules: Rules = NO_RULES,
    compact: Compact = None,
    check_every: CheckEvery = None,
    restore_check_every: RestoreCheckEvery = None,
    mirror: Mirror = None,
    dump: Dump = None,
    before: Before = None,
    after: After = None,
    window: Windows = None,
    spread: Spread = None,
    retries: Retries = None,
    description: Description = None,
    as_json: AsJson = False,
) -> None:
    """Create a schedule. It backs up; options add what comes after that."""
    if cron is None and at is None and every is None and laptop is None:
        fail("say when: --at 02:00, --cron '30 2 * * 1-5', --every 6h or --laptop 1d.", exit_codes.USAGE)
    service = connection.api()
    options = StepOptions(dict(rules), compact, check_every, restore_check_every, mirror, dump, before, after)
    body = {
        "name": name,
        **schedule_options.calendar(cron, at, every, laptop, tz or schedule_words.local_zone()),
        **schedule_options.targets(service, repository, label, everything),
        "steps": schedule_options.steps(service, [], options),
        **schedule_options.limits(window, spread, retries, description),
    }
    created = service.post(f"{URL}/", body)
    if as_json:
        print_json(created)
        return
    _print(created)
    remark(f"Try it now: holdfast schedules run {created['name']}")


@schedules.command()
@with_rules
def edit(
    schedule: ScheduleWord,
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    repository: Repositories = None,
    label: Labels = None,
    everything: All = False,
    cron: Cron = None,
    at: At = None,
    every: Every = None,
    laptop: Laptop = None,
    tz: Tz = None,
    rules: Rules = NO_RULES,
    no_prune: Annotated[bool, typer.Option("--no-prune", help="Do not prune any more.")] = False,
    compact: Compact = None,
    check_every: CheckEvery = None,
    restore_check_every: RestoreCheckEvery = None,
    mirror: Mirror = None,
    dump: Dump = None,
    before: Before = None,
    after: After = None,
    no_scripts: Annotated[bool, typer.Option("--no-scripts", help="Run no scripts any more.")] = False,
    window: Windows = None,
    no_windows: Annotated[bool, typer.Option("--no-windows", help="Start at any time.")] = False,
    spread: Spread = None,
    retries: Retries = None,
    description: Description = None,
    as_json: AsJson = False,
) -> None:
    """Change a schedule; what is not given stays. A new calendar counts from now."""
    service = connection.api()
    found = find(service, schedule)
    options = StepOptions(dict(rules), compact, check_every, restore_check_every, mirror, dump, before, after)
    left_out = {kind for kind, is_out in (("prune", no_prune), ("script", no_scripts)) if is_out}
    kept = [step for step in found["steps"] if step.get("kind") not in left_out]
    steps = schedule_options.steps(service, kept, options)
    body = {
        **({"name": name} if name else {}),
        **schedule_options.calendar(cron, at, every, laptop, tz),
        **schedule_options.targets(service, repository, label, everything),
        **({"steps": steps} if steps != found["steps"] else {}),
        **schedule_options.limits(window, spread, retries, description),
        **({"windows": []} if no_windows else {}),
    }
    if not body:
        fail("nothing to change was given. See: holdfast schedules edit --help", exit_codes.USAGE)
    changed = service.put(f"{URL}/{found['id']}", {**body, "revision": found["revision"]})
    if as_json:
        print_json(changed)
    else:
        _print(changed)


@schedules.command()
def enable(schedule: ScheduleWord, as_json: AsJson = False) -> None:
    """Let a schedule run again."""
    _switch(schedule, "enable", as_json=as_json)


@schedules.command()
def disable(schedule: ScheduleWord, as_json: AsJson = False) -> None:
    """Stop a schedule. What runs goes on; what waits is skipped."""
    _switch(schedule, "disable", as_json=as_json)


@schedules.command()
def snooze(
    schedule: ScheduleWord,
    until: Annotated[str | None, typer.Argument(help="For a time span such as 3d, or until a date or time.")] = None,
    off: Annotated[bool, typer.Option("--off", help="End the snooze.")] = False,
    as_json: AsJson = False,
) -> None:
    """Skip the due times of a schedule for a while."""
    if (until is None) == (not off):
        fail("say how long, such as 3d, or --off.", exit_codes.USAGE)
    service = connection.api()
    body = {"until": None if until is None else schedule_words.until(until)}
    answer = service.post(f"{URL}/{find(service, schedule)['id']}/snooze", body)
    if as_json:
        print_json(answer)
    elif off:
        say(f"{answer['name']} is awake. Next run: {schedule_words.soon(answer['next_run'])}")
    else:
        say(f"{answer['name']} is snoozed until {when(answer['snoozed_until'])}.")
        say(f"Next run: {schedule_words.soon(answer['next_run'])}")


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
    """Delete a schedule. Its history and its archives stay."""
    service = connection.api()
    found = find(service, schedule)
    confirm(f"Delete schedule {found['name']}? Its history and its archives stay.", yes=yes)
    service.delete(f"{URL}/{found['id']}")
    done(f"Deleted {found['name']}; its history and its archives stay.", as_json=as_json, id=found["id"])


# Parts ------------------------------------------------------------------------------------------------------------------


def _switch(schedule: str, verb: str, *, as_json: bool) -> None:
    service = connection.api()
    answer = service.post(f"{URL}/{find(service, schedule)['id']}/{verb}")
    if as_json:
        print_json(answer)
    elif answer["enabled"]:
        say(f"{answer['name']} is enabled. Next run: {schedule_words.soon(answer['next_run'])}")
    else:
        say(f"{answer['name']} is disabled.")


def _print(found: dict[str, Any]) -> None:
    print_fields(
        [
            ("name", found["name"]),
            ("description", found["description"]),
            ("state", schedule_words.state(found, paused=False)),
            ("when", found["explained"]),
            ("next run", schedule_words.soon(found["next_run"])),
            ("last run", schedule_words.last(found)),
            ("targets", schedule_words.targets(found)),
            ("steps", schedule_words.steps(found)),
            ("windows", schedule_words.windows(found)),
            ("spread", f"{found['spread_minutes']} minutes" if found["spread_minutes"] else None),
            ("retries", found["retries"]),
            ("snoozed until", when(found["snoozed_until"]) if found["snoozed_until"] else None),
            (
                "waiting",
                [f"{row['repository']}: {schedule_words.outcome(row)}" for row in found["waiting"][:MOST_NAMES]],
            ),
        ]
    )
