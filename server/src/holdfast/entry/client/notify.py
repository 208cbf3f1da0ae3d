"""`holdfast notify`: who gets messages about failures and recoveries, and whether they arrived."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.connection import read_secret
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import Collection, given
from holdfast.entry.client.output import AsJson, fail, flag, print_json, report, say
from holdfast.entry.client.table import ID, Column, print_list
from holdfast.entry.client.units import when

notify = group(
    "Notifications about failures and recoveries: destinations, rules and deliveries.",
    "holdfast notify add ops webhook --url https://hooks.example/holdfast",
    "holdfast notify add mail smtp --host mx.example --from nas@example.org --to me@example.org",
    "holdfast notify test ops",
    "holdfast notify deliveries --state failed",
)
DESTINATIONS = Collection("/api/notifications/destinations", "destinations", "destination", "notify list")


@notify.command("list")
def list_destinations(as_json: AsJson = False) -> None:
    """List all destinations."""
    where, state = Column("WHERE", _where, elastic=True), Column("STATE", _state)
    last_sent = Column("LAST SENT", lambda one: when(one["last_sent_at"]))
    DESTINATIONS.print(
        (ID, "NAME", "KIND", where, state, "WAITING", last_sent),
        as_json=as_json,
        empty="No destinations yet, so failures are not reported. Add one: holdfast notify add NAME webhook --url URL",
    )


@notify.command("add")
def add_destination(
    name: Annotated[str, typer.Argument(help="Name of the destination.")],
    kind: Annotated[str, typer.Argument(help="webhook, smtp, apprise or ping.")],
    url: Annotated[str | None, typer.Option(help="webhook, apprise, ping: the address.")] = None,
    host: Annotated[str | None, typer.Option(help="smtp: mail server.")] = None,
    port: Annotated[int | None, typer.Option(help="smtp: port (default: 587, with tls 465).")] = None,
    security: Annotated[str | None, typer.Option(help="smtp: starttls, tls or none (default: starttls).")] = None,
    username: Annotated[str | None, typer.Option(help="smtp: login name; prompts for the password.")] = None,
    password_stdin: Annotated[bool, flag("--password-stdin", "smtp: read the password from standard input.")] = False,
    sender: Annotated[str | None, typer.Option("--from", help="smtp: sender address.")] = None,
    to: Annotated[list[str] | None, typer.Option(help="smtp: a recipient; may be given several times.")] = None,
    schedule_id: Annotated[int | None, typer.Option("--schedule", help="ping: id of the schedule.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add a destination. The default rule then sends failures, warnings and recoveries there."""
    options: dict[str, Any] = {
        "url": url,
        "host": host,
        "port": port,
        "security": security,
        "username": username,
        "from": sender,
        "to": to or None,
        "schedule_id": schedule_id,
    }
    if username is not None:
        options["password"] = read_secret(
            "Password of the mail server", from_input=password_stdin, variable="HOLDFAST_SMTP_PASSWORD"
        )
    body = {"name": name, "kind": kind, "options": given(**options)}
    answer = connection.api().post(DESTINATIONS.url, body)
    if as_json:
        print_json(answer)
        return
    say(f"Destination {answer['name']} was added. Test it: holdfast notify test {answer['name']}")
    if answer.get("new_secret"):
        say(f"Secret for verifying its messages, shown only once: {answer['new_secret']}")


@notify.command("test")
def send_test(
    destination: Annotated[str, typer.Argument(help="Name or id of the destination.")], as_json: AsJson = False
) -> None:
    """Send a test message now and report whether it was accepted."""
    answer = DESTINATIONS.post(destination, "test")
    if as_json:
        print_json(answer)
    if not answer["ok"]:
        fail(str(answer["message"]), exit_codes.FAILED, key="notifications.test_failed")
    if not as_json:
        say(f"{answer['message']} ({answer['seconds']:.1f} s)")


@notify.command("rules")
def list_rules(as_json: AsJson = False) -> None:
    """List the rules that turn events into messages."""
    columns = (
        ID,
        "NAME",
        Column("ON", "enabled"),
        Column("EVENTS", lambda one: ", ".join(one["events"]) or "all", elastic=True),
        Column("FROM", "least_severity"),
        "SEND",
        Column("DESTINATIONS", _destinations),
    )
    empty = "No rules: no messages are sent. Add one with POST /api/notifications/rules."
    print_list(connection.api().get("/api/notifications/rules"), "rules", columns, as_json=as_json, empty=empty)


def _destinations(rule: dict[str, Any]) -> str:
    ids = rule["destination_ids"]
    return "all" if ids is None else ", ".join(map(str, ids))


@notify.command("deliveries")
def list_deliveries(
    state: Annotated[str | None, typer.Option(help="waiting, sending, sent, failed or cancelled.")] = None,
    destination: Annotated[str | None, typer.Option(help="Name or id of a destination.")] = None,
    limit: Annotated[int, typer.Option(help="Number of deliveries.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the delivery log, newest first."""
    service = connection.api()
    only = DESTINATIONS.find(service, destination)["id"] if destination is not None else None
    answer = service.get("/api/notifications/deliveries", limit=limit, state=state, destination_id=only)
    columns = (
        ID,
        Column("WHEN", lambda one: when(one["created_at"])),
        Column("TO", lambda one: one["destination"] or one["destination_id"]),
        "STATE",
        Column("TRIES", "attempts", right=True),
        Column("MESSAGE", lambda one: one["last_error"] or one["subject"] or one["type"], elastic=True),
    )
    print_list(answer, "deliveries", columns, as_json=as_json, empty="No deliveries.")


@notify.command("retry")
def retry_delivery(
    delivery_id: Annotated[int, typer.Argument(help="Id of a failed delivery.")], as_json: AsJson = False
) -> None:
    """Send a failed delivery again."""
    answer = connection.api().post(f"/api/notifications/deliveries/{delivery_id}/retry")
    report(answer, f"Delivery {delivery_id} is being retried.", as_json=as_json)


def _where(destination: dict[str, Any]) -> str:
    options = destination["options"]
    return str(options.get("url") or ", ".join(options.get("to", [])))


def _state(destination: dict[str, Any]) -> str:
    if not destination["enabled"]:
        return "off" + (f" ({destination['disabled_reason']})" if destination["disabled_reason"] else "")
    return "failing" if destination["failing_since"] else "on"
