"""`holdfast schedules run`, `next`, `calendar`, `history` and `preview`: past and future runs."""

import sys
import time
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes, schedule_calendar, schedule_options, schedule_text
from holdfast.entry.client.connection import Api
from holdfast.entry.client.follow import POLL_SECONDS, NoWait, print_ending, until_ended
from holdfast.entry.client.lookup import find_repository
from holdfast.entry.client.option_groups import NOTHING, Given, with_options
from holdfast.entry.client.output import AsJson, fail, flag, print_json, remark, report, say
from holdfast.entry.client.schedule_options import (
    CALENDAR,
    MOST_NAMES,
    SCHEDULES,
    URL,
    Repositories,
    ScheduleWord,
    Windows,
)
from holdfast.entry.client.table import Column, print_list, print_table
from holdfast.entry.client.units import UNKNOWN, count, duration, moment, when

DUE = Column("DUE", lambda one: when(one["due_at"]))


def run(
    schedule: ScheduleWord,
    repository: Repositories = None,
    step: Annotated[
        list[str] | None, typer.Option("--step", metavar="KIND", help="Only this step; may be given several times.")
    ] = None,
    respect_windows: Annotated[
        bool, flag("--respect-windows", "Wait for the next window instead of starting immediately.")
    ] = False,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Run a schedule now and follow it to the end."""
    service, found = SCHEDULES.chosen(schedule)
    ids = [find_repository(service, word)["id"] for word in repository or []]
    body = {
        "respect_windows": respect_windows,
        **({"repository_ids": ids} if ids else {}),
        **({"steps": step} if step else {}),
    }
    started = service.post(f"{SCHEDULES.url_of(found)}/run", body)
    if no_wait:
        sentence = f"Started {found['name']}. Follow it: holdfast schedules history {found['name']}"
        report(started, sentence, as_json=as_json)
        return
    _follow(service, found, started, as_json=as_json)


def next_fires(
    schedule: ScheduleWord,
    number: Annotated[int, typer.Option("--count", min=1, max=100)] = 10,
    as_json: AsJson = False,
) -> None:
    """Show the next due times of a schedule."""
    service, found = SCHEDULES.chosen(schedule)
    answer = service.get(f"{SCHEDULES.url_of(found)}/next", count=number)
    if as_json:
        print_json(answer)
        return
    empty = (
        f"{found['name']} is disabled."
        if not found["enabled"]
        else f"{found['explained']}: due times cannot be predicted."
    )
    _print_fires(answer["fires"], empty)


def calendar(
    days: Annotated[int, typer.Option(min=1, max=62, help="Number of days to show.")] = 14,
    since: Annotated[
        str | None, typer.Option(metavar="DAY", help="First day, such as 2026-12-01 (default: today).")
    ] = None,
    repository: Annotated[str | None, typer.Option("--repository", "-r", help="Only this repository.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw past and future runs, day by day."""
    service = connection.api()
    midnight = _midnight(since)
    only = find_repository(service, repository)["id"] if repository else None
    span = {"since": midnight.isoformat(), "until": (midnight + timedelta(days=days)).isoformat()}
    answer = service.get(f"{URL}/calendar", **span, repository_id=only)
    if as_json:
        print_json(answer)
    elif sys.stdout.isatty():
        schedule_calendar.draw(answer, midnight.date(), days)
    else:
        outcome = Column("OUTCOME", lambda one: one["outcome"] or "to come")
        columns = (DUE, Column("SCHEDULE", "name"), outcome, Column("TARGETS", _names))
        print_table(columns, answer["entries"], empty="Nothing is due.")


def history(
    schedule: ScheduleWord,
    outcome: Annotated[
        list[str] | None,
        typer.Option(help="Only this outcome: waiting, ran, skipped or missed; may be given several times."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number to show.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the outcome of a schedule's due times, newest first."""
    answer = SCHEDULES.get(schedule, "runs", limit=limit, outcome=outcome)
    ended = Column("OUTCOME", schedule_text.outcome, elastic=True)
    columns = (DUE, Column("REPOSITORY", elastic=True), ended, Column("TOOK", _took), Column("JOBS", _operations))
    print_list(answer, "runs", columns, as_json=as_json, empty="Nothing was due yet.")


@with_options(calendar={name: option for name, option in CALENDAR.items() if name != "laptop"})
def preview(
    calendar: Given = NOTHING,
    repository: Repositories = None,
    window: Windows = None,
    number: Annotated[int, typer.Option("--count", min=1, max=100, help="Number of due times to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show when a schedule would be due; nothing is stored."""
    service = connection.api()
    body = {
        **schedule_options.calendar(**{"tz": schedule_text.local_zone(), **calendar}),
        **schedule_options.targets(service, repository),
        **schedule_options.limits(window),
        "count": number,
    }
    answer = service.post(f"{URL}/preview", body)
    if as_json:
        print_json(answer)
        return
    say(answer["explained"])
    _print_fires(answer["fires"], "Nothing is due.")
    for warning in answer["warnings"]:
        if repository or warning["key"] != "no_repository":
            remark(warning["message"])


# Parts
# ------------------------------------------------------------------------------------------------------------------


def _print_fires(fires: list[dict[str, Any]], empty: str) -> None:
    starts = Column("STARTS", lambda fire: schedule_text.soon(fire["start_at"]))
    there = Column("DUE THERE", lambda fire: schedule_text.there(fire["local"]))
    print_table((starts, there, Column("TARGETS", _names, elastic=True), Column("NOTE", _why)), fires, empty=empty)


WHY = {
    "on_time": "",
    "moved_by_dst": "clocks skip the usual time",
    "first_of_two": "clocks show this time twice; runs once",
    "window_opens": "waits for the window",
    "window_closed": "no window opens in time",
    "blackout": "blackout day: skipped",
    "snoozed": "snoozed: skipped",
}


def _why(fire: dict[str, Any]) -> str:
    return WHY.get(str(fire["reason"]), str(fire["reason"]))


def _names(fire: dict[str, Any]) -> str:
    names = [one["name"] for one in fire["targets"]]
    more = fire["target_count"] - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _took(row: dict[str, Any]) -> str:
    started, ended = moment(row["released_at"]), moment(row["settled_at"])
    return duration((ended - started).total_seconds()) if started and ended else "-"


def _operations(row: dict[str, Any]) -> list[str]:
    return [str(step["operation_id"]) for step in row["steps"] if step.get("operation_id")]


def _midnight(since: str | None) -> datetime:
    today = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    if since is None:
        return today
    try:
        return datetime.fromisoformat(since).replace(hour=0, minute=0, second=0, microsecond=0).astimezone()
    except ValueError:
        fail(f"{since} is not a day such as 2026-12-01.", exit_codes.USAGE)


def _follow(service: Api, schedule: dict[str, Any], started: dict[str, Any], *, as_json: bool) -> None:
    """Wait for every row to end, print what each job did, and end with the worst exit code."""
    try:
        ended = [_follow_row(service, row, quiet=as_json) for row in started["runs"]]
    except KeyboardInterrupt:
        fail(
            f"the run continues in the background. Check it: holdfast schedules history {schedule['name']}",
            exit_codes.INTERRUPTED,
            key="client.interrupted",
            params={"run_id": started["run_id"]},
        )
    if as_json:
        print_json({"run_id": started["run_id"], "runs": ended})
    codes = [exit_codes.of_job(row["result"] or "") if row["outcome"] == "ran" else exit_codes.FAILED for row in ended]
    if not as_json and len(ended) > 1:
        good = codes.count(exit_codes.DONE)
        say(f"{schedule['name']}: {good} of {count(len(ended), 'repository', 'repositories')} without a problem.")
    if exit_codes.FAILED in codes:
        raise typer.Exit(exit_codes.FAILED)
    raise typer.Exit(max(codes, default=exit_codes.DONE))


def _follow_row(service: Api, started: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    place = f"{URL}/runs/{started['id']}"
    row: dict[str, Any] = service.get(place)
    shown: set[int] = set()
    told = False
    while row["settled_at"] is None or any(one["id"] not in shown for one in row["operations"]):
        if row["outcome"] == "waiting" and not told and not quiet:
            remark(f"{row['repository']}: {schedule_text.outcome(row)}")
            told = True
        for operation in [one for one in row["operations"] if one["id"] not in shown]:
            ended = until_ended(service, operation["id"], quiet=quiet)
            shown.add(operation["id"])
            if not quiet:
                print_ending(service, ended)
        time.sleep(POLL_SECONDS if row["settled_at"] is None else 0)
        row = service.get(place)
    if row["outcome"] != "ran" and not quiet:
        remark(f"{row['repository'] or UNKNOWN}: {schedule_text.outcome(row)}")
    return row
