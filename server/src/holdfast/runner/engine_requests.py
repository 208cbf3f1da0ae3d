"""Requests that need an engine or another machine: they get threads of their own, and wait for these without any.

The framework's threads serve all requests. A route that may take longer than a query is marked with `asks_engine`. It
then runs in one of a few separate threads, limited per user and in total, so that no number of such requests delays the
others.

If a user repeats a question before the engine has been started for it, the same run answers both. If it has been
started, all further repetitions share one more run. After a run that answered several requests, the next run for the
same question is delayed by about the time the last one took, or longer if it answered many.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from anyio import CapacityLimiter, Semaphore, fail_after, to_thread
from fastapi import Depends, Request

from holdfast.api.parts import Part
from holdfast.errors import Unavailable
from holdfast.runner.engine_turns import TURNS, turns_of_a_user
from holdfast.runner.lane_ticket import LOW_PRIORITY, LaneTicket, without_a_thread
from holdfast.runner.waiting_route import called_in_turn
from holdfast.settings import Settings
from holdfast.storage.session import Database

WAITING_FOR_EACH_PLACE = 10
"""Requests of a user that may wait for each running one; more are refused immediately."""
PAUSE_SECONDS = (1.0, 5.0)
"""Shortest and longest pause between two runs for a question that several requests repeat."""
PAUSE_FOR_EACH_SECONDS = 0.1
"""Pause for each request that the last run answered: a crowd that keeps asking gets ten answers a second."""
SECONDS_BETWEEN_ANSWERS = 0.01
"""Interval between the answers of one run: many clients answered at once, and asking again, would block others."""

Result = TypeVar("Result")
Route = TypeVar("Route", bound=Callable[..., Any])


class _Places:
    """The places of one user who has at least one request running or waiting."""

    def __init__(self, number: int) -> None:
        self.semaphore = Semaphore(number)
        self.requests = 0
        """Running and waiting requests."""
        self.running = 0
        self.turns = turns_of_a_user()
        self._pauses: dict[Hashable, float] = {}
        """For each question, the time before which it is not put to the engine again."""

    def rest(self, key: Hashable, began: float, answered: int) -> None:
        """Delay the next run for a question. The last one began at `began` and answered several requests."""
        now = time.monotonic()
        self._pauses = {other: until for other, until in self._pauses.items() if until > now}
        least, most = PAUSE_SECONDS
        self._pauses[key] = now + min(max(now - began, PAUSE_FOR_EACH_SECONDS * answered, least), most)

    async def pause(self, key: Hashable) -> None:
        await asyncio.sleep(max(0.0, self._pauses.get(key, 0.0) - time.monotonic()))


class _Question:
    """A question that has not been put to the engine yet, and the requests that wait for its answer."""

    def __init__(self, wait_seconds: float) -> None:
        self.requests: list[Request] = []
        self.ticket = LaneTicket(wait_seconds)
        self.answer: asyncio.Task[Any]
        self.telling = asyncio.Lock()
        self.is_told = False

    async def is_left(self) -> bool:
        for request in self.requests:
            if not await request.is_disconnected():
                return False
        return True


class EngineRequests:
    """Runs requests that need an engine; used only on the event loop of the service."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.wait_seconds = settings.inline_wait_seconds
        self._work = database.work
        self._per_user = settings.engine_requests_per_user
        self._in_all = settings.engine_requests
        self._users: dict[int, _Places] = {}
        self._questions: dict[tuple[int, Hashable], _Question] = {}
        self._turns: Semaphore | None = None
        self._threads: CapacityLimiter | None = None

    async def run(
        self, request: Request, user_id: int, call: Callable[[], Result], same: Hashable | None = None
    ) -> Result:
        """Run a use case for a user. Raise Unavailable if no place becomes free in time, Locked if the lane does not.

        If the client has disconnected while waiting for a place, nothing is run: no engine runs without a reader.
        Engines for the user's second and further concurrent requests run at lower priority: a single request is treated
        like any other work, but a crowd of requests only gets what others leave.

        `same` is equal for calls with the same answer. That answer must depend neither on the user's rights nor on the
        request.
        """
        with self._places(user_id) as places:
            if same is None:
                return await self._run(places, call, request.is_disconnected, LaneTicket(self.wait_seconds))
            return await self._shared(places, (user_id, same), request, call)

    async def _shared(
        self, places: _Places, key: tuple[int, Hashable], request: Request, call: Callable[[], Result]
    ) -> Result:
        question = self._questions.get(key)
        if question is None or question.ticket.has_begun:  # its answer may miss later changes
            before = question
            question = self._questions[key] = _Question(self.wait_seconds)
            question.answer = asyncio.create_task(self._answered(places, key, question, before, call))
            question.answer.add_done_callback(_seen)
        question.requests.append(request)
        answer: Result = await asyncio.shield(question.answer)
        async with question.telling:
            if question.is_told:
                await asyncio.sleep(SECONDS_BETWEEN_ANSWERS)
            question.is_told = True
        return answer

    async def _answered(
        self,
        places: _Places,
        key: tuple[int, Hashable],
        question: _Question,
        before: _Question | None,
        call: Callable[[], Any],
    ) -> Any:
        """Ask once for all who wait, after the same question from before has been answered."""
        try:
            if before is not None:
                await asyncio.wait([before.answer], timeout=self.wait_seconds)
            await places.pause(key)
            question.ticket.restart(self.wait_seconds)
            began = time.monotonic()
            answer = await self._run(places, call, question.is_left, question.ticket)
            if (answered := len(question.requests)) > 1:
                places.rest(key, began, answered)
            return answer
        finally:
            if self._questions.get(key) is question:
                del self._questions[key]

    async def _run(
        self, places: _Places, call: Callable[[], Result], is_left: Callable[[], Awaitable[bool]], ticket: LaneTicket
    ) -> Result:
        await self._acquired(places.semaphore)
        places.running += 1
        try:
            LOW_PRIORITY.set(places.running > 1)
            TURNS.set(places.turns)
            if await is_left():
                raise Unavailable("api.client_left", "The client has disconnected.")
            return await without_a_thread(self._in_thread, call, self._work, ticket)
        finally:
            places.running -= 1
            places.semaphore.release()

    @contextmanager
    def _places(self, user_id: int) -> Iterator[_Places]:
        """Reserve a place for one more request of a user. Raise Unavailable if too many wait already."""
        self.require_room(user_id)
        places = self._users.setdefault(user_id, _Places(self._per_user))
        places.requests += 1
        try:
            yield places
        finally:
            places.requests -= 1
            if places.requests == 0:
                self._users.pop(user_id, None)

    def require_room(self, user_id: int) -> None:
        """Raise Unavailable if too many requests of the user wait already."""
        places = self._users.get(user_id)
        if places is not None and places.requests >= self._per_user * (1 + WAITING_FOR_EACH_PLACE):
            raise _too_many()

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        if self._turns is None or self._threads is None:
            self._turns, self._threads = Semaphore(self._in_all), CapacityLimiter(self._in_all)
        await self._acquired(self._turns)
        try:
            return await to_thread.run_sync(call, limiter=self._threads)
        finally:
            self._turns.release()

    async def _acquired(self, semaphore: Semaphore) -> None:
        try:
            with fail_after(self.wait_seconds):
                await semaphore.acquire()
        except TimeoutError as error:
            raise _too_many() from error


ENGINE_REQUESTS = Part[EngineRequests]("engine_requests")


def _seen(answer: asyncio.Task[Any]) -> None:
    """Mark the error of an answer as retrieved: it is for those who still wait, and there may be none."""
    if not answer.cancelled():
        answer.exception()


def _too_many() -> Unavailable:
    return Unavailable(
        "api.too_many_engine_requests",
        "Too many requests that need the engine are waiting; try again when some have finished.",
        retry_after=10,
    )


class EngineRequest:
    """One request that may call the engine."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._requests = ENGINE_REQUESTS.of(request.app)

    def require_room(self, user_id: int) -> None:
        """Raise Unavailable if the request would be refused anyway, before anything is looked up for it."""
        self._requests.require_room(user_id)

    async def run(self, user_id: int, call: Callable[[], Result], same: Hashable | None = None) -> Result:
        return await self._requests.run(self._request, user_id, call, same)


async def the_engine_request(request: Request) -> EngineRequest:
    return EngineRequest(request)


TheEngineRequest = Annotated[EngineRequest, Depends(the_engine_request)]


def asks_engine(route: Route) -> Route:
    """Mark a route that calls an engine or another machine. It is an ordinary function with a caller.

    It must not open a transaction, which would stay open while it waits. It must have no effect until it holds its
    first lane, because it is called again from the start if the lane is not free.
    """

    asking: Any = called_in_turn(route, TheEngineRequest)
    asking.asks_engine = True
    return asking  # type: ignore[no-any-return]
