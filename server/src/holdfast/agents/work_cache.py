"""A cache of the agents' pending, running and stopping jobs that detects when it is outdated."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from sqlalchemy import select
from starlette.concurrency import run_in_threadpool

from backup_engine.frozen import frozen
from holdfast.agents.models import AgentJob
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.storage.session import Database


@frozen
class RunningJob:
    id: int
    agent_machine_id: int
    has_started: bool
    cancel_requested: bool
    attempt: int


@frozen
class View:
    """The content of the store when `number` changes had been announced."""

    number: int = -1
    waiting: frozenset[int] = frozenset()
    running: Mapping[int, RunningJob] = field(default_factory=dict)
    stopping: Mapping[int, list[int]] = field(default_factory=dict)
    """Jobs that should stop, by agent."""
    held: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Running jobs, by agent."""

    @staticmethod
    def of(number: int, waiting: frozenset[int], jobs: Iterable[RunningJob]) -> "View":
        running = {job.id: job for job in jobs}
        stopping: dict[int, list[int]] = {}
        held: dict[int, frozenset[int]] = {}
        for job in running.values():
            held[job.agent_machine_id] = held.get(job.agent_machine_id, frozenset()) | {job.id}
            if job.cancel_requested:
                stopping.setdefault(job.agent_machine_id, []).append(job.id)
        return View(number, waiting, running, stopping, held)

    def held_by(self, agent_machine_id: int) -> frozenset[int]:
        return self.held.get(agent_machine_id, frozenset())

    def to_stop(self, agent_machine_id: int) -> list[int]:
        return list(self.stopping.get(agent_machine_id, ()))


class WorkCache:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._refreshing = threading.Lock()
        self._guard = threading.Lock()
        self._looking = asyncio.Lock()
        self._next_look: asyncio.Future[View] | None = None
        self._view = View()
        self._waiters: dict[int, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}

    def fresh(self) -> View | None:
        """Return the cached state, or None if anything has changed since."""
        view = self._view
        return view if view.number == self._database.operations.number else None

    async def now(self) -> View:
        """Return the current state, from memory if that is fresh."""
        fresh = self.fresh()
        if fresh is not None:
            return fresh
        if self._next_look is None:
            self._next_look = asyncio.ensure_future(self._look_for_all())
        return await asyncio.shield(self._next_look)

    async def _look_for_all(self) -> View:
        """Query once for all callers that arrived before: a fleet that polls at once takes only one thread."""
        async with self._looking:
            self._next_look = None
            return await run_in_threadpool(self.refreshed)

    def refreshed(self) -> View:
        """Return the current state from the store. Of simultaneous callers, only one queries the store."""
        with self._refreshing:
            fresh = self.fresh()
            return fresh if fresh is not None else self.look()

    def look(self) -> View:
        number = self._database.operations.number
        with self._database.reading() as session:
            waiting = frozenset(agent for agent in session.scalars(_WAITING) if agent is not None)
            running = [
                RunningJob(row[0], row[1] or 0, bool(row[2]), bool(row[3]), row[4]) for row in session.execute(_RUNNING)
            ]
        self._view = View.of(number, waiting, running)
        self.call(waiting)
        return self._view

    def look_again(self) -> None:
        """Query the store, whether or not the cache is fresh."""
        with self._refreshing:
            self.look()

    async def wait_for_work(
        self, agent_machine_id: int, seconds: float, seen: View, is_there: Callable[[], bool]
    ) -> None:
        """Return when there may be work for the agent, or after the given time. Waiting takes no thread.

        `seen` is the state on which the caller has acted. Changes that concern only other agents do not wake the
        caller, because a waiting fleet must not query again after every change of the queue. `is_there` is called once
        the waiter is registered, so that nothing is missed.
        """
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._guard:
            self._waiters.setdefault(agent_machine_id, set()).add(waiter)
        try:
            async with asyncio.timeout(seconds):
                view = await self.now()
                if is_there() or (view is not seen and agent_machine_id in view.waiting):
                    return  # it arrived after the caller had looked
                await waiter[1].wait()
        except TimeoutError:
            pass
        finally:
            self._leave(agent_machine_id, waiter)

    def _leave(self, agent_machine_id: int, waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event]) -> None:
        with self._guard:
            waiters = self._waiters.get(agent_machine_id, set())
            waiters.discard(waiter)
            if not waiters:
                self._waiters.pop(agent_machine_id, None)

    def call(self, agents: frozenset[int]) -> None:
        """Wake the waiting polls of these agents."""
        with self._guard:
            called = [waiter for agent in agents for waiter in self._waiters.get(agent, ())]
        for loop, event in called:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def waiting(self) -> frozenset[int]:
        """Agents with a waiting poll."""
        with self._guard:
            return frozenset(self._waiters)

    def wake_everybody(self) -> None:
        """End all waits, because the service is stopping."""
        self.call(self.waiting())


_WAITING = (
    select(Operation.machine_id).where(Operation.status == Status.PENDING, Operation.executor == "agent").distinct()
)
_RUNNING = (
    select(
        Operation.id,
        Operation.machine_id,
        AgentJob.started_at.is_not(None),
        Operation.cancel_requested_at.is_not(None),
        Operation.attempt,
    )
    .outerjoin(AgentJob, AgentJob.operation_id == Operation.id)
    .where(Operation.status == Status.RUNNING, Operation.executor == "agent")
)
