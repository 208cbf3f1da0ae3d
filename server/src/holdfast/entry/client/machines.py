"""`holdfast machines`: machines that are backed up, and their agents."""

from typing import Annotated, Any

import typer

from holdfast.entry.client import connection
from holdfast.entry.client.groups import by_default, group_with_default, shown
from holdfast.entry.client.lookup import AGENTS, MACHINES, Collection
from holdfast.entry.client.output import AsJson, Yes, confirm, print_json, remark, report, say
from holdfast.entry.client.table import ID, NAME, Column, Fields
from holdfast.entry.client.units import age, when

machines = group_with_default(
    "Machines: list them, enrol new ones, disable, enable and revoke agents. (For ssh machines, see: holdfast ssh)",
    "holdfast machines",
    "holdfast machines enroll web1",
    "holdfast machines revoke web1",
)
AgentWord = Annotated[str, typer.Argument(help="Name or id of an agent.")]

TOKENS = Collection("/api/managed-machines/enrollment-tokens", "tokens", "enrolment token", "machines tokens")


@by_default(machines)
@machines.command("list")
def list_machines(as_json: AsJson = False) -> None:
    """List all machines."""
    last_seen = Column("LAST SEEN", lambda one: age(one["last_seen_at"]))
    MACHINES.print(
        (ID, NAME, Column("TYPE", "connection_type"), "STATUS", last_seen),
        as_json=as_json,
        empty="No machines. Enrol one: holdfast machines enroll NAME; or over ssh: holdfast ssh add NAME HOST",
    )


@machines.command("enroll", epilog=shown("holdfast machines enroll web1 --expires-in 60"))
def enroll(
    name: Annotated[str, typer.Argument(help="What the token is for, such as the machine's name.")],
    expires_in: Annotated[int, typer.Option(min=5, max=43200, help="Minutes until the token expires.")] = 60,
    as_json: AsJson = False,
) -> None:
    """Create a token with which one machine can enrol, and print the command to run there."""
    service = connection.api()
    body = {"name": name, "expires_in_minutes": expires_in}
    answer = service.post(TOKENS.url, body)
    if as_json:
        print_json(answer)
        return
    remark(f"Run this on the machine, as root, before {when(answer['expires_at'])}:")
    say(f"curl -fsSL {service.server}/agent/install.sh | sh -s -- --server {service.server} --token {answer['token']}")
    remark("The token works once and is not shown again. Then: holdfast machines")
    if "//127." in service.server or "//localhost" in service.server:
        remark(
            f"{service.server} works only on this machine: use the address at which the other machine reaches the "
            f"service."
        )


@machines.command("tokens")
def list_tokens(as_json: AsJson = False) -> None:
    """List enrolment tokens."""
    expires = Column("EXPIRES", lambda one: when(one["expires_at"]))
    columns = (ID, NAME, Column("PREFIX", "token_prefix"), "STATUS", expires)
    TOKENS.print(columns, as_json=as_json, empty="No enrolment tokens. Create one: holdfast machines enroll NAME")


@machines.command("revoke-token")
def revoke_token(
    token: Annotated[str, typer.Argument(help="Name or id of the token.")], as_json: AsJson = False
) -> None:
    """Revoke an enrolment token that has not been used."""
    answer = TOKENS.post(token, "revoke")
    report(answer, f"The token {answer['name']} was revoked.", as_json=as_json)


@machines.command("agents")
def list_agents(as_json: AsJson = False) -> None:
    """List agents."""
    AGENTS.print(
        (
            ID,
            NAME,
            Column("HOST", "hostname"),
            "STATUS",
            Column("LAST SEEN", lambda one: age(one["last_seen_at"])),
            Column("VERSION", "agent_version"),
            Column("ENGINES", lambda one: [engine["version"] for engine in one["engine_versions"]]),
        ),
        as_json=as_json,
        empty="No agents. Enrol a machine: holdfast machines enroll NAME",
    )


@machines.command("show")
def show_agent(agent: AgentWord, as_json: AsJson = False) -> None:
    """Show one agent."""
    AGENTS.show(agent, _fields, as_json=as_json)


def _fields(agent: dict[str, Any]) -> Fields:
    return (
        "id",
        "name",
        ("host", agent["hostname"]),
        "status",
        ("last seen", when(agent["last_seen_at"])),
        ("last error", agent["last_error"]),
        ("system", f"{agent['os']} {agent['arch']}"),
        ("agent version", agent["agent_version"]),
        ("engines", [f"{one['version']} ({one['path']})" for one in agent["engine_versions"]]),
        ("can do", agent["capabilities"]),
        ("clock differs by", f"{agent['clock_skew_seconds']:.0f} s" if agent["clock_skew_seconds"] else None),
    )


@machines.command("disable")
def disable_agent(agent: AgentWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Disable an agent: its unfinished jobs fail, and it gets no new ones until it is enabled."""
    _act(agent, "disable", f"Disable {agent}? Its unfinished jobs will fail.", yes=yes, as_json=as_json)


@machines.command("enable")
def enable_agent(agent: AgentWord, as_json: AsJson = False) -> None:
    """Enable an agent again."""
    _act(agent, "enable", "", yes=True, as_json=as_json)


@machines.command("revoke")
def revoke_agent(agent: AgentWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Revoke an agent's credential; its machine must then be enrolled again."""
    question = f"Revoke {agent}? Its unfinished jobs will fail, and its machine must be enrolled again."
    _act(agent, "revoke", question, yes=yes, as_json=as_json)


@machines.command("remove")
def remove_agent(agent: AgentWord, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove an agent and its machine from the service."""
    AGENTS.remove(agent, "{name} was removed.", as_json=as_json, question="Remove {name}?", yes=yes)


def _act(agent: str, verb: str, question: str, *, yes: bool, as_json: bool) -> None:
    service, found = AGENTS.chosen(agent)
    confirm(question, yes=yes)
    answer = service.post(f"{AGENTS.url_of(found)}/{verb}")
    report(answer, f"{answer['name']} is {answer['status']}.", as_json=as_json)
