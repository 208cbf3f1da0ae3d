"""Looks up the agent of a credential, from memory if nothing has changed.

A cached result is enough for a heartbeat and for a poll that finds nothing to do. Requests that change something look
the agent up again in their own transaction.
"""

import threading
import time

from starlette.concurrency import run_in_threadpool

from backup_engine.frozen import frozen
from holdfast.agents import errors, store
from holdfast.agents.models import AgentMachine
from holdfast.kit.tokens import token_hash
from holdfast.storage.session import Database

MOST_AT_ONCE = 100_000
OLDEST_SECONDS = 1.0
"""How long another process may still accept a credential after an administrator has shut the agent out."""


@frozen
class KnownAgent:
    """An agent as of the last lookup of its credential."""

    id: int
    agent_id: str
    name: str
    status: str


class Credentials:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._guard = threading.Lock()
        self._loading = threading.Lock()
        self._loaded = -1
        """The generation at which all agents were last read together."""
        self._known: dict[str, KnownAgent] = {}
        self._generation = -1
        self._is_forgotten = False
        self._checked = float("-inf")

    async def of(self, credential: str) -> KnownAgent:
        """Return the agent, from memory if that is fresh enough. Raise Unauthenticated for an unknown credential."""
        known = self.cached(credential)
        return known if known is not None else await run_in_threadpool(self.find, credential)

    def cached(self, credential: str) -> KnownAgent | None:
        """Return the agent if it is in memory and fresh enough."""
        if time.monotonic() - self._checked > OLDEST_SECONDS:
            return None
        return self._known.get(token_hash(credential))

    def find(self, credential: str) -> KnownAgent:
        """Return the agent from the store. Raise Unauthenticated for an unknown credential."""
        hashed = token_hash(credential)
        if (found := self._from_all_agents(hashed)) is not None:
            return found
        asked_at = time.monotonic()
        with self._database.reading() as session:
            generation = store.generation(session)
            agent = store.by_credential(session, hashed)
        with self._guard:
            self._at(generation, asked_at)
            if agent is None:
                raise errors.credential_invalid()
            found = known_agent(agent)
            if generation == self._generation:
                self._known[hashed] = found
            return found

    def _from_all_agents(self, hashed: str) -> KnownAgent | None:
        """Read all agents together, once per generation: if one is missing from memory, as after a start, all of them
        are.
        """
        with self._loading:
            if time.monotonic() - self._checked <= OLDEST_SECONDS and self._loaded == self._generation:
                return self._known.get(hashed)
            asked_at = time.monotonic()
            with self._database.reading() as session:
                generation = store.generation(session)
                rows = store.identities(session, MOST_AT_ONCE) if generation != self._loaded else None
            with self._guard:
                self._at(generation, asked_at)
                if rows is not None and generation == self._generation:
                    self._known.update((row[0], KnownAgent(row[1], row[2], row[3], row[4])) for row in rows)
                    self._loaded = generation
                return self._known.get(hashed)

    @property
    def is_in_use(self) -> bool:
        """Whether memory has anything to check."""
        return bool(self._known) or self._is_forgotten

    def check(self) -> bool:
        """Check against the store whether memory is still valid, and return whether anything has changed since the last
        check.

        Called several times a second; does nothing while there are no agents.
        """
        if not self.is_in_use:
            return False
        before = self._generation
        asked_at = time.monotonic()
        with self._database.reading() as session:
            generation = store.generation(session)
        with self._guard:
            self._at(generation, asked_at)
            self._is_forgotten = False
        return generation != before

    def forget_all(self) -> None:
        """Invalidate the memory after this process has committed a change, until the store has been read again."""
        with self._guard:
            self._known.clear()
            self._loaded = -1
            self._is_forgotten = True
            self._checked = float("-inf")

    def _at(self, generation: int, asked_at: float) -> None:
        if generation > self._generation:
            self._known.clear()
            self._generation = generation
        if generation == self._generation:
            self._checked = max(self._checked, asked_at)


def known_agent(agent: AgentMachine) -> KnownAgent:
    return KnownAgent(agent.id, agent.agent_id, agent.name, agent.status)
