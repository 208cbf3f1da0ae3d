"""`holdfast alarms`: list open problems, based on evidence, and acknowledge them."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.connection import Api
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import find_repository, repository_names
from holdfast.entry.client.output import AsJson, fail, report
from holdfast.entry.client.table import ID, Column, print_list
from holdfast.entry.client.units import when

alarms = group(
    "Current problems, based on evidence: overdue backups, silent agents, full storage, damage. Alarms clear by "
    "themselves.",
    "holdfast alarms list",
    "holdfast alarms list --severity critical --json",
    'holdfast alarms ack 12 --hours 48 --comment "the new disk comes on Monday"',
)
PAGE = 1000


@alarms.command("list")
def list_alarms(
    state: Annotated[
        list[str] | None,
        typer.Option(help="open, acknowledged or cleared (default: the first two); may be given several times."),
    ] = None,
    severity: Annotated[Literal["warning", "critical"] | None, typer.Option(help="Only these.")] = None,
    repository: Annotated[
        str | None, typer.Option(help="Only alarms of this repository.", autocompletion=repository_names)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List alarms, newest first."""
    service = connection.api()
    params: dict[str, Any] = {"limit": PAGE, **({"state": state} if state else {})}
    params |= {"severity": severity} if severity else {}
    if repository is not None:
        params["repository_id"] = find_repository(service, repository)["id"]
    since = Column("SINCE", lambda one: when(one["since"]))
    columns = (ID, "SEVERITY", Column("STATE", _state), "KIND", since, Column("MESSAGE", elastic=True))
    print_list(service.get("/api/alarms", **params), "alarms", columns, as_json=as_json, empty="No alarms.")


def _state(alarm: dict[str, Any]) -> str:
    state = str(alarm["state"])
    return state if alarm["evidence_known"] else f"{state}, not known"


def open_alarm_ids(incomplete: str) -> list[str]:
    """Ids that a shell offers as completions."""
    answer = connection.quietly("/api/alarms") or {}
    ids = [str(one["id"]) for one in answer.get("alarms", [])]
    return [number for number in ids if number.startswith(incomplete)]


@alarms.command("ack")
def acknowledge(
    alarm_id: Annotated[int, typer.Argument(help="Id of the alarm.", autocompletion=open_alarm_ids)],
    hours: Annotated[
        float | None,
        typer.Option(min=0.01, max=87_600, help="Stay silent for this many hours (default: until it gets worse)."),
    ] = None,
    comment: Annotated[str | None, typer.Option(help="Reason, shown to other users.")] = None,
    as_json: AsJson = False,
) -> None:
    """Acknowledge an alarm. It stays open but silent: for a time, until it gets worse, or until it clears."""
    answer = _acknowledged(connection.api(), alarm_id, hours, comment)
    until = answer["acknowledged_until"]
    rest = f"until {when(until)}, unless it gets worse" if until else "until it gets worse or clears"
    report(answer, f"Alarm {alarm_id} ({answer['kind']}) is acknowledged {rest}.", as_json=as_json)


def _acknowledged(service: Api, alarm_id: int, hours: float | None, comment: str | None) -> dict[str, Any]:
    if comment is not None and len(comment) > 1000:
        fail("--comment may have at most 1,000 characters.", exit_codes.USAGE, key="client.usage")
    until = (datetime.now(UTC) + timedelta(hours=hours)).isoformat() if hours is not None else None
    answer: dict[str, Any] = service.post(f"/api/alarms/{alarm_id}/acknowledge", {"until": until, "comment": comment})
    return answer
