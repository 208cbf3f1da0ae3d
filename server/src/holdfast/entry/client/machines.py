"""`holdfast machines`: machines that are backed up, and agents on them."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.connection import Api
from holdfast.entry.client.groups import group, shown
from holdfast.entry.client.lookup import named
from holdfast.entry.client.output import (
    AsJson,
    Column,
    Yes,
    confirm,
    done,
    print_fields,
    print_json,
    print_table,
    remark,
    say,
)
from holdfast.entry.client.units import age, when

machines = group(
    "Machines: list them, enrol new ones, disable, enable and revoke agents. (ssh machines: holdfast ssh)",
    "holdfast machines",
    "holdfast machines enroll web1",
    "holdfast machines revoke web1",
    no_args_is_help=False,
    invoke_without_command=True,
)
AgentWord = Annotated[str, typer.Argument(help="Name or id of an agent.")]


@machines.callback()
def default(context: typer.Context, as_json: AsJson = False) -> None:
    if context.invoked_subcommand is None:
        list_machines(as_json=as_json)


@machines.command("list")
def list_machines(as_json: AsJson = False) -> None:
    """List all machines."""
    answer = connection.api().get("/api/managed-machines/")
    if as_json:
        print_json(answer)
        return
    print_table(
        (Column("ID", right=True), Column("NAME", elastic=True), "TYPE", "STATUS", "LAST SEEN"),
        (
            (one["id"], one["name"], one["connection_type"], one["status"], age(one["last_seen_at"]))
            for one in answer["machines"]
        ),
        empty="No machines. Enrol one: holdfast machines enroll NAME; or by ssh: holdfast ssh add NAME HOST",
    )


@machines.command("enroll", epilog=shown("holdfast machines enroll web1 --expires-in 60"))
def enroll(
    name: Annotated[str, typer.Argument(help="What the token is for, such as the machine's name.")],
    expires_in: Annotated[int, typer.Option(min=5, max=43200, help="Minutes for which the token can be used.")] = 60,
    as_json: AsJson = False,
) -> None:
    """Make a token with which one machine can enrol, and print the command to run there."""
    service = connection.api()
    body = {"name": name, "expires_in_minutes": expires_in}
    answer = service.post("/api/managed-machines/enrollment-tokens", body)
    if as_json:
        print_json(answer)
        return
    remark(f"Run this on the machine, as root, before {when(answer['expires_at'])}:")
    say(f"curl -fsSL {service.server}/agent/install.sh | sh -s -- --server {service.server} --token {answer['token']}")
    remark("The token works once and is not shown again. Then: holdfast machines")
    if "//127." in service.server or "//localhost" in service.server:
        remark(
            f"{service.server} is this machine alone: use the address by which the other machine reaches the service."
        )


@machines.command("tokens")
def list_tokens(as_json: AsJson = False) -> None:
    """List enrolment tokens."""
    answer = connection.api().get("/api/managed-machines/enrollment-tokens")
    if as_json:
        print_json(answer)
        return
    print_table(
        (Column("ID", right=True), Column("NAME", elastic=True), "PREFIX", "STATUS", "EXPIRES"),
        (
            (one["id"], one["name"], one["token_prefix"], one["status"], when(one["expires_at"]))
            for one in answer["tokens"]
        ),
        empty="No enrolment tokens. Make one: holdfast machines enroll NAME",
    )


@machines.command("revoke-token")
def revoke_token(
    token: Annotated[str, typer.Argument(help="Name or id of the token.")], as_json: AsJson = False
) -> None:
    """Revoke an enrolment token that has not been used."""
    service = connection.api()
    tokens = service.get("/api/managed-machines/enrollment-tokens")["tokens"]
    found = named(tokens, token, "enrolment token", "name", see="machines tokens")
    answer = service.post(f"/api/managed-machines/enrollment-tokens/{found['id']}/revoke")
    if as_json:
        print_json(answer)
    else:
        say(f"The token {answer['name']} was revoked.")


@machines.command("agents")
def list_agents(as_json: AsJson = False) -> None:
    """List agents."""
    answer = connection.api().get("/api/managed-machines/agents")
    if as_json:
        print_json(answer)
        return
    print_table(
        (Column("ID", right=True), Column("NAME", elastic=True), "HOST", "STATUS", "LAST SEEN", "VERSION", "ENGINES"),
        (
            (
                one["id"],
                one["name"],
                one["hostname"],
                one["status"],
                age(one["last_seen_at"]),
                one["agent_version"],
                [engine["version"] for engine in one["engine_versions"]],
            )
            for one in answer["agents"]
        ),
        empty="No agents. Enrol a machine: holdfast machines enroll NAME",
    )


@machines.command("show")
def show_agent(agent: AgentWord, as_json: AsJson = False) -> None:
    """Show one agent."""
    found = _find(connection.api(), agent)
    if as_json:
        print_json(found)
        return
    print_fields(
        (
            ("id", found["id"]),
            ("name", found["name"]),
            ("host", found["hostname"]),
            ("status", found["status"]),
            ("last seen", when(found["last_seen_at"])),
            ("last error", found["last_error"]),
            ("system", f"{found['os']} {found['arch']}"),
            ("agent version", found["agent_version"]),
            ("engines", [f"{one['version']} ({one['path']})" for one in found["engine_versions"]]),
            ("can do", found["capabilities"]),
            ("clock differs by", f"{found['clock_skew_seconds']:.0f} s" if found["clock_skew_seconds"] else None),
        )
    )


@machines.command("disable")
def disable_agent(agent: AgentWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Disable an agent: its unfinished jobs fail, and it gets none until it is enabled."""
    _act(agent, "disable", f"Disable {agent}? Its unfinished jobs fail.", yes=yes, as_json=as_json)


@machines.command("enable")
def enable_agent(agent: AgentWord, as_json: AsJson = False) -> None:
    """Enable an agent again."""
    _act(agent, "enable", "", yes=True, as_json=as_json)


@machines.command("revoke")
def revoke_agent(agent: AgentWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Revoke an agent's credential: its machine must be enrolled again."""
    question = f"Revoke {agent}? Its unfinished jobs fail, and its machine must be enrolled again."
    _act(agent, "revoke", question, yes=yes, as_json=as_json)


@machines.command("remove")
def remove_agent(agent: AgentWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove an agent and its machine from the service."""
    service = connection.api()
    found = _find(service, agent)
    confirm(f"Remove {found['name']}?", yes=yes)
    service.delete(f"/api/managed-machines/agents/{found['id']}")
    done(f"{found['name']} was removed.", as_json=as_json, id=found["id"])


def _act(agent: str, verb: str, question: str, *, yes: bool, as_json: bool) -> None:
    service = connection.api()
    found = _find(service, agent)
    confirm(question, yes=yes)
    answer = service.post(f"/api/managed-machines/agents/{quote(str(found['id']))}/{verb}")
    if as_json:
        print_json(answer)
    else:
        say(f"{answer['name']} is {answer['status']}.")


def _find(service: Api, wanted: str) -> dict[str, Any]:
    agents = service.get("/api/managed-machines/agents")["agents"]
    return named(agents, wanted, "agent", "name", "agent_id", see="machines agents")
