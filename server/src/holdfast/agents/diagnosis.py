"""Diagnoses why an agent does not do its work, from stored facts and one live query."""

import time
from collections.abc import Iterator

from backup_agent import AGENT_VERSION
from backup_engine.frozen import frozen
from backup_protocol import Capability
from holdfast.agents.models import AgentMachine
from holdfast.agents.schemas import AgentFinding, FindingVerdict
from holdfast.agents.store import SHUT_OUT
from holdfast.errors import HoldfastError
from holdfast.repositories.location import AgentEngines

MOST_SKEW_SECONDS = 5.0
SLOW_SECONDS = 5.0
ROOT = {"ask": "listing", "path": "Lw==", "after": "", "limit": 1, "folders_only": True}


@frozen
class AgentFacts:
    agent: AgentMachine
    skew: float | None


def findings(known: AgentFacts, agents: AgentEngines) -> Iterator[AgentFinding]:
    """Yield the findings, most important first. The live query is skipped if the agent cannot be reached."""
    agent = known.agent
    if agent.status in SHUT_OUT:
        word = "disabled; enable it" if agent.status == "disabled" else "revoked; enrol the machine again"
        yield _found("access", "failed", f"The agent is {word}.")
        return
    yield _found("access", "ok", "The agent may take jobs.")
    if agent.status != "online":
        yield _found(
            "connection",
            "failed",
            "The service has no contact with the agent. Run `backup-agent status` and `systemctl status backup-agent` "
            "on the machine to see why.",
        )
    else:
        yield _found("connection", "ok", "The agent reports regularly.")
        yield _answer(agent, agents)
    yield from _state(known)


def _answer(agent: AgentMachine, agents: AgentEngines) -> AgentFinding:
    if Capability.FOLDERS_LOOK not in (agent.capabilities or ()):
        return _found("answer", "warning", "This agent is too old to be queried; update it.")
    began = time.monotonic()
    try:
        answer = agents.look(agent.id, ROOT)
    except HoldfastError as error:
        return _found("answer", "failed", error.message)
    seconds = time.monotonic() - began
    if answer.failure is not None or answer.code != 0:
        return _found("answer", "failed", "The agent did not respond to a query in time; check its log.")
    words = f"The agent responded to a query after {seconds:.1f} s."
    return _found("answer", "warning" if seconds > SLOW_SECONDS else "ok", words)


def _state(known: AgentFacts) -> Iterator[AgentFinding]:
    agent = known.agent
    engines = ", ".join(f"BorgBackup {one.get('version', '')}" for one in agent.engine_versions or ())
    missing = "The machine has no BorgBackup; install it there."
    yield _found("engine", "ok" if engines else "failed", f"Found {engines}." if engines else missing)
    if agent.agent_version == AGENT_VERSION:
        yield _found("version", "ok", f"The agent and the service have the same version, {AGENT_VERSION}.")
    else:
        words = f"The agent has version {agent.agent_version}, the service provides {AGENT_VERSION}; update the agent."
        yield _found("version", "warning", words)
    if known.skew is not None:
        is_off = abs(known.skew) > MOST_SKEW_SECONDS
        words = (
            f"The clock of the machine differs by {abs(known.skew):.0f} s; correct it."
            if is_off
            else "The clock is correct."
        )
        yield _found("clock", "warning" if is_off else "ok", words)
    if agent.last_error:
        yield _found("last_error", "warning", agent.last_error)


def _found(step: str, verdict: FindingVerdict, message: str) -> AgentFinding:
    return AgentFinding(step=step, verdict=verdict, message=message)
