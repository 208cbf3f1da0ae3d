"""`holdfast notify`: who gets messages about failures and recoveries, and whether they arrived."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection, exit_codes
from holdfast.entry.client.connection import Api, read_secret
from holdfast.entry.client.groups import group
from holdfast.entry.client.lookup import named
from holdfast.entry.client.output import AsJson, Column, fail, print_json, print_table, say
from holdfast.entry.client.units import when

notify = group(
    "Messages about failures and recoveries: where they go, by which rules, and what became of them.",
    "holdfast notify add ops webhook --url https://hooks.example/holdfast",
    "holdfast notify add mail smtp --host mx.example --from nas@example.org --to me@example.org",
    "holdfast notify test ops",
    "holdfast notify deliveries --state failed",
)
DESTINATIONS = "/api/notifications/destinations"


@notify.command("list")
def list_destinations(as_json: AsJson = False) -> None:
    """List all destinations."""
    answer = connection.api().get(DESTINATIONS)
    if as_json:
        print_json(answer)
        return
    print_table(
        (Column("ID", right=True), "NAME", "KIND", Column("WHERE", elastic=True), "STATE", "WAITING", "LAST SENT"),
        (
            (one["id"], one["name"], one["kind"], _where(one), _state(one), one["waiting"], when(one["last_sent_at"]))
            for one in answer["destinations"]
        ),
        empty="No destinations yet, so failures are not reported. Add one: holdfast notify add NAME webhook --url URL",
    )


@notify.command("add")
def add_destination(
    name: Annotated[str, typer.Argument(help="Name of the destination.")],
    kind: Annotated[str, typer.Argument(help="webhook, smtp, apprise or ping.")],
    url: Annotated[str | None, typer.Option(help="webhook, apprise, ping: the address.")] = None,
    host: Annotated[str | None, typer.Option(help="smtp: mail server.")] = None,
    port: Annotated[int | None, typer.Option(help="smtp: port (default: 587, with tls 465).")] = None,
    security: Annotated[str | None, typer.Option(help="smtp: starttls (default), tls or none.")] = None,
    username: Annotated[str | None, typer.Option(help="smtp: login name; prompts for the password.")] = None,
    password_stdin: Annotated[bool, typer.Option(help="smtp: read the password from standard input.")] = False,
    sender: Annotated[str | None, typer.Option("--from", help="smtp: address of the sender.")] = None,
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
    given = {option: value for option, value in options.items() if value is not None}
    answer = connection.api().post(DESTINATIONS, {"name": name, "kind": kind, "options": given})
    if as_json:
        print_json(answer)
        return
    say(f"Destination {answer['name']} was added. Test it: holdfast notify test {answer['name']}")
    if answer.get("new_secret"):
        say(f"Secret for verifying its messages, shown only now: {answer['new_secret']}")


@notify.command("test")
def send_test(
    destination: Annotated[str, typer.Argument(help="Name or id of the destination.")], as_json: AsJson = False
) -> None:
    """Send a test message now and report whether it was accepted."""
    service = connection.api()
    answer = service.post(f"{DESTINATIONS}/{_id_of(service, destination)}/test")
    if as_json:
        print_json(answer)
    if not answer["ok"]:
        fail(str(answer["message"]), exit_codes.FAILED, key="notifications.test_failed")
    if not as_json:
        say(f"{answer['message']} ({answer['seconds']:.1f} s)")


@notify.command("rules")
def list_rules(as_json: AsJson = False) -> None:
    """List the rules: which events become messages."""
    answer = connection.api().get("/api/notifications/rules")
    if as_json:
        print_json(answer)
        return
    print_table(
        (Column("ID", right=True), "NAME", "ON", Column("EVENTS", elastic=True), "FROM", "SEND", "DESTINATIONS"),
        (
            (
                one["id"],
                one["name"],
                "yes" if one["enabled"] else "no",
                ", ".join(one["events"]) or "all",
                one["least_severity"],
                one["send"],
                "all" if one["destination_ids"] is None else ", ".join(map(str, one["destination_ids"])),
            )
            for one in answer["rules"]
        ),
        empty="No rules: no messages are sent. Add one with POST /api/notifications/rules.",
    )


@notify.command("deliveries")
def list_deliveries(
    state: Annotated[str | None, typer.Option(help="waiting, sending, sent, failed or cancelled.")] = None,
    destination: Annotated[str | None, typer.Option(help="Name or id of a destination.")] = None,
    limit: Annotated[int, typer.Option(help="Number of deliveries.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the delivery log, newest first."""
    service = connection.api()
    wanted: dict[str, Any] = {"limit": limit}
    if state is not None:
        wanted["state"] = state
    if destination is not None:
        wanted["destination_id"] = _id_of(service, destination)
    answer = service.get("/api/notifications/deliveries", **wanted)
    if as_json:
        print_json(answer)
        return
    print_table(
        (Column("ID", right=True), "WHEN", "TO", "STATE", Column("TRIES", right=True), Column("MESSAGE", elastic=True)),
        (
            (
                one["id"],
                when(one["created_at"]),
                one["destination"] or one["destination_id"],
                one["state"],
                one["attempts"],
                one["last_error"] or one["subject"] or one["type"],
            )
            for one in answer["deliveries"]
        ),
        empty="No deliveries.",
    )


@notify.command("retry")
def retry_delivery(
    delivery_id: Annotated[int, typer.Argument(help="Id of a delivery that has failed.")], as_json: AsJson = False
) -> None:
    """Send a failed delivery again."""
    answer = connection.api().post(f"/api/notifications/deliveries/{delivery_id}/retry")
    if as_json:
        print_json(answer)
    else:
        say(f"Delivery {delivery_id} is sent again.")


def _id_of(service: Api, name: str) -> int:
    known = service.get(DESTINATIONS)["destinations"]
    return int(named(known, name, "destination", "name", see="notify list")["id"])


def _where(destination: dict[str, Any]) -> str:
    options = destination["options"]
    return str(options.get("url") or ", ".join(options.get("to", [])))


def _state(destination: dict[str, Any]) -> str:
    if not destination["enabled"]:
        return "off" + (f" ({destination['disabled_reason']})" if destination["disabled_reason"] else "")
    return "failing" if destination["failing_since"] else "on"
