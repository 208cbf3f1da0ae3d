"""Which agents are alive: heard in memory, stored together, once a minute at most unless something changed."""

import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from backup_protocol import AgentStatus
from holdfast.access import audit
from holdfast.agents import store
from holdfast.agents.credentials import KnownAgent
from holdfast.agents.models import AgentMachine
from holdfast.agents.schemas import HeartbeatBody
from holdfast.kit import clock
from holdfast.settings import Settings
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.agents")

STORED_EVERY_SECONDS = 60.0
NOTED_SKEW_SECONDS = 5.0
"""Less than this is the time that a message travels, and not worth a write."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What this process knows of an agent that has spoken to it."""

    seen: datetime
    stored: datetime
    profile: tuple[Any, ...]
    skew: float | None


class Fleet:
    def __init__(self, settings: Settings, database: Database) -> None:
        self._database = database
        self._threshold = timedelta(seconds=settings.agent_offline_seconds)
        self._store_every = timedelta(seconds=min(STORED_EVERY_SECONDS, settings.agent_offline_seconds / 2))
        self._began = clock.now()
        self._guard = threading.Lock()
        self._heard: dict[int, Heard] = {}

    def note(self, agent: KnownAgent, body: HeartbeatBody, now: datetime) -> bool:
        """Take a heartbeat that says nothing new into memory. False for one that has to be stored at once."""
        with self._guard:
            known = self._heard.get(agent.id)
            if known is None or known.profile != profile(body):
                return False
            self._heard[agent.id] = replace(known, seen=now, skew=skew_of(body, now))
            return True

    def take(self, agent: KnownAgent, body: HeartbeatBody, now: datetime) -> None:
        """Take a heartbeat that memory could not. Raise if the agent is shut out.

        After a restart memory knows nobody, but the store does: a whole fleet that comes back writes nothing.
        """
        with self._database.reading() as session:
            machine = store.seen(session, agent.id)
        told = profile(body)
        if (
            machine.status == AgentStatus.ONLINE
            and machine.last_seen_at is not None
            and stored_profile(machine) == told
        ):
            with self._guard:
                self._heard[agent.id] = Heard(now, machine.last_seen_at, told, skew_of(body, now))
        else:
            self.store_heartbeat(agent, body, now)

    def store_heartbeat(self, agent: KnownAgent, body: HeartbeatBody, now: datetime) -> None:
        """Store the first heartbeat, one after a silence, or one with other facts. Raise if the agent is shut out."""
        skew = skew_of(body, now)
        with self._database.writing() as session:
            machine = store.active(session, agent.id, to_change=True)
            machine.hostname, machine.agent_version = body.hostname, body.agent_version
            machine.engine_versions = [version.model_dump() for version in body.engine_versions]
            machine.capabilities = list(dict.fromkeys(body.capabilities))
            machine.last_error = body.last_error
            machine.last_seen_at, machine.clock_skew_seconds = now, skew
            before = machine.status
            if before != AgentStatus.ONLINE:
                store.set_status(session, machine, AgentStatus.ONLINE)
                note_transition(session, machine, before)
            else:
                store.tell(session, machine)
        with self._guard:
            self._heard[agent.id] = Heard(now, now, profile(body), skew)

    def last_seen(self, agent: AgentMachine) -> datetime | None:
        """The newest that is known, in memory or stored."""
        with self._guard:
            heard = self._heard.get(agent.id)
        times = [time for time in (agent.last_seen_at, heard.seen if heard else None) if time is not None]
        return max(times, default=None)

    def skew(self, agent: AgentMachine) -> float | None:
        """How far the agent's clock was ahead when it was last told; None if it never was."""
        with self._guard:
            heard = self._heard.get(agent.id)
        return heard.skew if heard is not None and heard.skew is not None else agent.clock_skew_seconds

    def forget(self, agent_id: int) -> None:
        with self._guard:
            self._heard.pop(agent_id, None)

    # --- ticks -----------------------------------------------------------------------------------------------------

    def store_seen(self, *, at_once: bool = False) -> None:
        """Store when agents were heard, of those where that is old enough to matter."""
        now = clock.now()
        with self._guard:
            due = {
                agent_id: heard
                for agent_id, heard in self._heard.items()
                if heard.seen > heard.stored and (at_once or now - heard.stored >= self._store_every)
            }
        if not due:
            return
        rows = [{"b_id": number, "b_seen": heard.seen, "b_skew": heard.skew} for number, heard in sorted(due.items())]
        with self._database.writing() as session:
            store.note_seen(session, rows)
        with self._guard:
            for agent_id, heard in due.items():
                if agent_id in self._heard:
                    self._heard[agent_id] = replace(self._heard[agent_id], stored=heard.seen)

    def find_silent(self) -> None:
        """Set agents offline that nobody has heard of for too long. Their jobs stay as they are."""
        now = clock.now()
        if now - self._began < self._threshold:
            return  # while the service was away, nobody could be heard
        with self._database.reading() as session:
            quiet = store.silent_since(session, now - self._threshold)
        for agent in quiet:
            seen = self.last_seen(agent)
            if seen is not None and seen >= now - self._threshold:
                continue
            with self._database.writing() as session:
                stored = agent.last_seen_at
                machine = store.get(session, agent.id)
                if machine is not None and store.went_silent(session, machine, stored):
                    note_transition(session, machine, AgentStatus.ONLINE)
            self.forget(agent.id)


def note_transition(session: Any, machine: AgentMachine, before: str) -> None:
    log.info("an agent changed its state", agent_id=machine.agent_id, before=str(before), now=str(machine.status))
    audit.add(
        session,
        actor_user_id=None,
        actor=actor(machine.agent_id),
        action="agent.status",
        object_type="agent",
        object_id=machine.id,
        details={"before": str(before), "now": str(machine.status)},
    )


def actor(agent_id: str) -> str:
    """How an agent is named in the audit trail."""
    return f"agent:{agent_id}"


def profile(body: HeartbeatBody) -> tuple[Any, ...]:
    """What a heartbeat says beside that the agent is alive."""
    engines = tuple((engine.major, engine.version, engine.path) for engine in body.engine_versions)
    capabilities = tuple(dict.fromkeys(body.capabilities))
    return (body.hostname, body.agent_version, engines, capabilities, body.last_error)


def stored_profile(machine: AgentMachine) -> tuple[Any, ...]:
    """What an agent has said of itself before, in the same form."""
    engines = tuple((engine["major"], engine["version"], engine["path"]) for engine in machine.engine_versions)
    return (machine.hostname, machine.agent_version, engines, tuple(machine.capabilities), machine.last_error)


def skew_of(body: HeartbeatBody, now: datetime) -> float | None:
    """How far the agent's clock is ahead of ours; None when it does not tell, 0 when it is about right."""
    if body.sent_at is None:
        return None
    skew = (body.sent_at - now).total_seconds()
    return round(skew, 1) if abs(skew) >= NOTED_SKEW_SECONDS else 0.0
