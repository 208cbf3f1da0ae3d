"""Requests that require long computations: they wait for their turn, and for the computing process, without a thread.

Such a route is marked with `computes`. It is a generator: it reads from the store, yields each computation as packed by
`pack_call` (`kit/compute_process.py`), receives its result, and returns the answer. Each of its steps runs briefly in a
thread; between steps it holds neither a thread nor a transaction. One such request is answered at a time, and users
take turns.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response

from holdfast.api.parts import Part
from holdfast.api.threads import in_thread
from holdfast.errors import Unavailable
from holdfast.kit.compute_process import ComputeProcess
from holdfast.runner.waiting_route import called_in_turn
from holdfast.settings import Settings

MOST_OF_A_USER = 20
MOST_IN_ALL = 200
"""Requests that wait or are being answered; more are refused immediately."""
LOOK_SECONDS = 1.0
"""How often a waiting request checks whether its client is still connected."""

Steps = Generator[bytes, Any, Response]
Route = TypeVar("Route", bound=Callable[..., Steps])


class _User:
    """A user whose requests are answered one after the other."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.requests = 0


class Computations:
    """The requests that compute, in turn; used only on the event loop of the service."""

    def __init__(self, settings: Settings, computer: ComputeProcess) -> None:
        self.computer = computer
        self._wait_seconds = settings.inline_wait_seconds
        self._users: dict[int, _User] = {}
        self._turn = asyncio.Lock()

    async def run(self, request: Request, user_id: int, begin: Callable[[], Steps]) -> Response:
        """Return a route's answer. Raise Unavailable if too many requests wait, or if the turn does not come in time.

        If the client disconnects, the computation for it is ended.
        """
        with self._place(user_id) as user:
            return await _unless_left(request, self._in_turn(user, begin))

    async def _in_turn(self, user: _User, begin: Callable[[], Steps]) -> Response:
        held: list[asyncio.Lock] = []
        try:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    for turn in (user.turn, self._turn):
                        await turn.acquire()
                        held.append(turn)
            except TimeoutError as error:
                raise _busy() from error
            return await self._answered(begin())
        finally:
            for turn in held:
                turn.release()

    async def _answered(self, steps: Steps) -> Response:
        result: Any = None
        try:
            while True:
                yielded = await in_thread("reading", functools.partial(_step, steps, result))
                if isinstance(yielded, Response):
                    return yielded
                result = await self.computer.compute(yielded)
        finally:
            steps.close()

    @contextmanager
    def _place(self, user_id: int) -> Iterator[_User]:
        user = self._users.setdefault(user_id, _User())
        waiting = sum(each.requests for each in self._users.values())
        if user.requests >= MOST_OF_A_USER or waiting >= MOST_IN_ALL:
            raise _busy()
        user.requests += 1
        try:
            yield user
        finally:
            user.requests -= 1
            if not user.requests:
                del self._users[user_id]


def _step(steps: Steps, result: Any) -> bytes | Response:
    try:
        return steps.send(result)
    except StopIteration as end:
        answer: Response = end.value
        return answer


async def _unless_left(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait({task}, timeout=LOOK_SECONDS))[0]:
            if await request.is_disconnected():
                raise Unavailable("api.client_left", "The client has left.")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


def _busy() -> Unavailable:
    return Unavailable(
        "api.computations_busy",
        "Too many requests whose answers take long to compute are waiting; try again when some have been answered.",
        retry_after=5,
    )


COMPUTATIONS = Part[Computations]("computations")


class Computing:
    """One request that may compute."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._computations = COMPUTATIONS.of(request.app)

    async def run(self, user_id: int, begin: Callable[[], Steps]) -> Response:
        return await self._computations.run(self._request, user_id, begin)


async def the_computations(request: Request) -> Computing:
    return Computing(request)


def computes(route: Route) -> Route:
    """Mark a route that needs long computations: a generator with a caller, without a transaction as a dependency."""

    computing: Any = called_in_turn(route, Annotated[Computing, Depends(the_computations)], returns=Response)
    computing.computes = True
    del computing.__wrapped__  # a generator, whose answer the framework would stream
    return computing  # type: ignore[no-any-return]
