"""Batches heartbeats that must be stored, so that a whole fleet can reconnect with few transactions."""

import asyncio

from starlette.concurrency import run_in_threadpool

from holdfast.agents.fleet import Fleet, Heartbeat
from holdfast.errors import HoldfastError

MOST_AT_ONCE = 200
"""Maximum number of agents per transaction, because other writers wait for it."""


class HeartbeatBatches:
    """Collects heartbeats for the next transaction. For use on the service's event loop only."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._waiting: list[tuple[Heartbeat, asyncio.Future[None]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def process(self, heartbeat: Heartbeat) -> None:
        """Return once the heartbeat has been processed and, if necessary, stored. Raise if the agent is shut out."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((heartbeat, done))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        await done

    async def _work(self) -> None:
        """Process batches until none are left. Heartbeats that arrive during a transaction go into the next one."""
        try:
            while self._waiting:
                now, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
                await self._process(now)
        finally:
            self._worker = None

    async def _process(self, taken: list[tuple[Heartbeat, "asyncio.Future[None]"]]) -> None:
        try:
            refusals = await run_in_threadpool(self._fleet.process, [heartbeat for heartbeat, _ in taken])
        except Exception as error:  # noqa: BLE001 - any error is the answer to each caller
            if len(taken) == 1 or isinstance(error, HoldfastError):
                for _, done in taken:
                    _answer(done, error)
                return
            for each in taken:  # one faulty heartbeat must not affect the others
                await self._process([each])
            return
        for (_, done), refused in zip(taken, refusals, strict=True):
            _answer(done, refused)


def _answer(done: "asyncio.Future[None]", refused: Exception | None) -> None:
    if done.done():
        return  # the caller is no longer waiting
    if refused is None:
        done.set_result(None)
    else:
        done.set_exception(refused)
