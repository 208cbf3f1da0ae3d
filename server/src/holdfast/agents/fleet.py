"""Tracks which agents are alive: in memory, stored for all of them together, at most once a minute unless something
changed.

After the service has been killed, the stored times may be older by that minute plus one tick. No agent is considered
silent because of that: a newly started service waits for the full offline threshold before it sets any agent offline.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_protocol import AgentStatus
from holdfast.access import audit
from holdfast.agents import last_seen_times, store
from holdfast.agents.credentials import KnownAgent
from holdfast.agents.models import AgentMachine
from holdfast.agents.schemas import HeartbeatBody
from holdfast.errors import HoldfastError
from holdfast.kit import clock
from holdfast.settings import Settings
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.agents")

STORED_EVERY_SECONDS = 60.0
STORED_TOGETHER = 500
"""Maximum number of agents per transaction, because other writers wait for it."""
NOTED_SKEW_SECONDS = 5.0
"""Smaller differences may be the travel time of a message and are not worth a write."""


@frozen
class AgentState:
    """The state of an agent that has sent a heartbeat to this process."""

    seen: datetime
    stored: datetime
    """When it was last written to the store."""
    profile: tuple[Any, ...]
    skew: float | None
    stored_skew: float | None = None


@frozen
class Heartbeat:
    agent: KnownAgent
    body: HeartbeatBody
    at: datetime


class Fleet:
    def __init__(self, settings: Settings, database: Database) -> None:
        self._database = database
        self._threshold = timedelta(seconds=settings.agent_offline_seconds)
        self._store_every = timedelta(seconds=min(STORED_EVERY_SECONDS, settings.agent_offline_seconds / 2))
        self._began = clock.now()
        self._guard = threading.Lock()
        self._heard: dict[int, AgentState] = {}
        self._recorded: dict[int, datetime] = {}
        """The times stored by all processes, as of the last read."""
        self._next_look = self._next_store = self._checked_at = self._began
        self.on_online: list[Callable[[Session, Sequence[int]], None]] = []
        """Called with the ids of agents that have come online, in the transaction that records it."""

    def note_unchanged(self, agent: KnownAgent, body: HeartbeatBody, now: datetime) -> bool:
        """Record a heartbeat in memory if it reports nothing new. Return False if it has to be stored."""
        with self._guard:
            known = self._heard.get(agent.id)
            if known is None or known.profile != profile(body):
                return False
            self._heard[agent.id] = replace(known, seen=now, skew=skew_of(body, now))
            return True

    def process(self, heartbeats: Sequence[Heartbeat]) -> list[HoldfastError | None]:
        """Process heartbeats that could not be handled in memory. Return, for each, why it was refused, or None.

        After a restart memory is empty but the store is not: a whole fleet can reconnect without a single write.
        """
        with self._database.reading() as session:
            machines = store.by_id(session, [heartbeat.agent.id for heartbeat in heartbeats])
        refusals = [refusal(machines.get(heartbeat.agent.id)) for heartbeat in heartbeats]
        to_store: list[int] = []
        for place, heartbeat in enumerate(heartbeats):
            if refusals[place] is not None:
                continue
            machine = machines[heartbeat.agent.id]
            reported = profile(heartbeat.body)
            if machine.status == AgentStatus.ONLINE and machine.last_seen_at and stored_profile(machine) == reported:
                self._remember(heartbeat, machine.last_seen_at, machine.clock_skew_seconds)
            else:
                to_store.append(place)
        if to_store:
            for place, refused in zip(to_store, self._store([heartbeats[place] for place in to_store]), strict=True):
                refusals[place] = refused
        return refusals

    def _store(self, heartbeats: Sequence[Heartbeat]) -> list[HoldfastError | None]:
        """Store heartbeats in one transaction: first ones, those after a silence, and those with changed facts."""
        with self._database.writing() as session:
            machines = store.by_id(session, [heartbeat.agent.id for heartbeat in heartbeats], to_change=True)
            refusals = [refusal(machines.get(heartbeat.agent.id)) for heartbeat in heartbeats]
            taken = [heartbeat for heartbeat, refused in zip(heartbeats, refusals, strict=True) if refused is None]
            changed = {machines[heartbeat.agent.id]: heartbeat for heartbeat in taken}
            if changed:
                self._write(session, changed)
        for heartbeat in taken:
            self._remember(heartbeat, heartbeat.at, skew_of(heartbeat.body, heartbeat.at))
        return refusals

    def _write(self, session: Session, heard: Mapping[AgentMachine, Heartbeat]) -> None:
        came_back: dict[AgentMachine, str] = {}
        for machine, heartbeat in heard.items():
            body = heartbeat.body
            machine.hostname, machine.agent_version = body.hostname, body.agent_version
            machine.engine_versions = [version.model_dump() for version in body.engine_versions]
            machine.capabilities = list(dict.fromkeys(body.capabilities))
            machine.last_error = body.last_error
            machine.unstarted_services = [service.model_dump() for service in body.unstarted_services]
            machine.last_seen_at, machine.clock_skew_seconds = heartbeat.at, skew_of(body, heartbeat.at)
            if machine.status != AgentStatus.ONLINE:
                came_back[machine] = machine.status
        store.set_online(session, came_back)
        for listener in self.on_online if came_back else ():
            listener(session, [machine.id for machine in came_back])
        store.publish(session, *heard)
        note_transitions(session, came_back)

    def _remember(self, heartbeat: Heartbeat, stored: datetime, stored_skew: float | None) -> None:
        skew = skew_of(heartbeat.body, heartbeat.at)
        heard = AgentState(heartbeat.at, stored, profile(heartbeat.body), skew, stored_skew)
        with self._guard:
            self._heard[heartbeat.agent.id] = heard

    def last_seen(self, agent: AgentMachine) -> datetime | None:
        """The latest known time, in memory or stored."""
        return self._latest(agent.id, agent.last_seen_at)

    def _latest(self, agent_id: int, stored: datetime | None) -> datetime | None:
        with self._guard:
            heard, recorded = self._heard.get(agent_id), self._recorded.get(agent_id)
        return last_seen_times.latest((stored, recorded, heard.seen if heard else None))

    def skew(self, agent: AgentMachine) -> float | None:
        """How far the agent's clock was ahead at its last report; None if it never reported one."""
        with self._guard:
            heard = self._heard.get(agent.id)
        return heard.skew if heard is not None and heard.skew is not None else agent.clock_skew_seconds

    def forget(self, agent_id: int) -> None:
        with self._guard:
            self._heard.pop(agent_id, None)

    # --- ticks -----------------------------------------------------------------------------------------------------

    def store_seen(self, *, at_once: bool = False) -> None:
        """Store when agents last connected. All are written together, because neighbouring agents share a row."""
        now = clock.now()
        self._check_clock(now)
        if now < self._next_store and not at_once:
            return
        with self._guard:
            due = {agent_id: heard for agent_id, heard in self._heard.items() if heard.seen > heard.stored}
        if not due or not (at_once or any(now - heard.stored >= self._store_every for heard in due.values())):
            return
        self._next_store = now + self._store_every
        with self._database.writing() as session:
            others = store.not_online(session)
            times = {
                agent_id: heard.seen for agent_id, heard in due.items() if others.get(agent_id) not in store.SHUT_OUT
            }
            last_seen_times.store_times(session, times)
        changed = {number: heard for number, heard in due.items() if number in others or skew_changed(heard)}
        rows = [{"b_id": number, "b_seen": one.seen, "b_skew": one.skew} for number, one in sorted(changed.items())]
        for first in range(0, len(rows), STORED_TOGETHER):
            with self._database.writing() as session:
                store.note_seen(session, rows[first : first + STORED_TOGETHER])
        with self._guard:
            for agent_id, heard in due.items():
                if agent_id in self._heard:
                    self._heard[agent_id] = replace(self._heard[agent_id], stored=now, stored_skew=heard.skew)

    def find_silent(self) -> None:
        """Set agents offline that have been silent for too long. Their jobs stay as they are."""
        now = clock.now()
        self._check_clock(now)
        if now - self._began < self._threshold:
            self._read_recorded()
            return  # agents could not report while the service was down
        if now < self._next_look:
            return
        self._read_recorded()
        with self._database.reading() as session:
            online = store.online_since(session)
        times = {agent_id: self._latest(agent_id, stored) for agent_id, stored in online.items()}
        silent = [agent_id for agent_id, seen in times.items() if seen is None or seen < now - self._threshold]
        for agent_id in silent:
            self._set_offline(agent_id, now)
        first = min(
            (seen for seen in times.values() if seen is not None and seen >= now - self._threshold), default=now
        )
        self._next_look = min(first + self._threshold, now + self._threshold / 4)

    def _set_offline(self, agent_id: int, now: datetime) -> None:
        with self._database.writing() as session:
            machine = store.get(session, agent_id)
            if machine is None:
                return
            known = last_seen_times.latest((machine.last_seen_at, last_seen_times.one(session, agent_id)))
            if known is not None and known >= now - self._threshold:
                return  # another process has received a heartbeat in the meantime
            if store.went_silent(session, machine, machine.last_seen_at):
                note_transitions(session, {machine: AgentStatus.ONLINE})
        self.forget(agent_id)

    def _read_recorded(self) -> None:
        now = clock.now()
        with self._database.reading() as session:
            recorded = last_seen_times.all_agents(session)
            is_ahead = last_seen_times.is_any_ahead(session, recorded, now)
        if is_ahead:
            with self._database.writing() as session:
                last_seen_times.clip(session, now)
                recorded = last_seen_times.all_agents(session)
        with self._guard:
            self._recorded = recorded

    def _check_clock(self, now: datetime) -> None:
        """After the clock went back, begin as after a start: no agent was seen, and nothing is due, later than now."""
        if self._checked_at > now + clock.WENT_BACK:
            self._began = self._next_look = self._next_store = now
            with self._guard:
                for agent_id, heard in self._heard.items():
                    seen, stored = min(heard.seen, now), min(heard.stored, now)
                    self._heard[agent_id] = replace(heard, seen=seen, stored=stored)
        self._checked_at = now


def refusal(machine: AgentMachine | None) -> HoldfastError | None:
    """Return the error with which an agent's messages are refused, or None."""
    try:
        store.not_shut_out(machine)
    except HoldfastError as error:
        return error
    return None


def note_transitions(session: Session, before: Mapping[AgentMachine, str]) -> None:
    """Log and audit agents whose status has changed, given their previous statuses."""
    for machine, status in before.items():
        log.info("an agent changed its state", agent_id=machine.agent_id, before=str(status), now=str(machine.status))
    audit.add(
        session,
        *(
            audited(machine, "agent.status", details={"before": str(status), "now": str(machine.status)})
            for machine, status in before.items()
        ),
    )


def audited(machine: AgentMachine, action: str, **more: Any) -> dict[str, Any]:
    """An audit entry for an agent's action on itself."""
    name = actor(machine.agent_id)
    return audit.entry(actor_user_id=None, actor=name, action=action, object_type="agent", object_id=machine.id, **more)


def actor(agent_id: str) -> str:
    """The agent's name in the audit trail."""
    return f"agent:{agent_id}"


def profile(body: HeartbeatBody) -> tuple[Any, ...]:
    """The facts that a heartbeat reports about the agent."""
    engines = tuple((engine.major, engine.version, engine.path) for engine in body.engine_versions)
    capabilities = tuple(dict.fromkeys(body.capabilities))
    unstarted = tuple((service.name, service.error) for service in body.unstarted_services)
    return (body.hostname, body.agent_version, engines, capabilities, body.last_error, unstarted)


def stored_profile(machine: AgentMachine) -> tuple[Any, ...]:
    """The stored facts of an agent, in the form of ``profile``."""
    engines = tuple((engine["major"], engine["version"], engine["path"]) for engine in machine.engine_versions)
    unstarted = tuple((service["name"], service["error"]) for service in machine.unstarted_services)
    capabilities = tuple(machine.capabilities)
    return (machine.hostname, machine.agent_version, engines, capabilities, machine.last_error, unstarted)


def skew_changed(heard: AgentState) -> bool:
    """Whether the agent's clock skew differs from the stored one by more than a message's travel time can explain."""
    if heard.skew is None or heard.stored_skew is None:
        return heard.skew is not heard.stored_skew and heard.skew is not None
    return abs(heard.skew - heard.stored_skew) >= NOTED_SKEW_SECONDS


def skew_of(body: HeartbeatBody, now: datetime) -> float | None:
    """Seconds by which the agent's clock is ahead of ours; None if it reported no time, 0 if it is about right."""
    if body.sent_at is None:
        return None
    skew = (body.sent_at - now).total_seconds()
    return round(skew, 1) if abs(skew) >= NOTED_SKEW_SECONDS else 0.0
