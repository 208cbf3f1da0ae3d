"""Password hashes, and the small thread pool that computes them."""

import asyncio
import contextvars
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import Annotated, Any, ParamSpec, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from fastapi import Depends
from pydantic import TypeAdapter, ValidationError

from holdfast.access.caller import Caller
from holdfast.access.fair_queue import ClientKey, FairQueue
from holdfast.api.parts import Part
from holdfast.errors import Unavailable
from holdfast.kit.fields import PlainText

MIN_CHARACTERS = 8
MAX_BYTES = 1024
THREADS = 2
MAX_WAITING = 200
MAX_OF_ADDRESS = 50
MAX_WAITING_ALIKE = 20
"""Waiting logins with one name from one address. After five failures, none is tried anyway."""

# Argon2id with 19 MiB, two passes and one lane: a login should not take all cores from the engines.
HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)

AnyPassword = Annotated[str, PlainText(1, MAX_BYTES, max_bytes=MAX_BYTES)]
NewPassword = Annotated[str, PlainText(MIN_CHARACTERS, MAX_BYTES, max_bytes=MAX_BYTES)]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def is_acceptable(password: str) -> bool:
    """Whether the text is valid as a new password."""
    return _fits(password, NewPassword)


def is_storable(password: str) -> bool:
    """Whether the text is valid as any password, including a short one chosen by the operator."""
    return _fits(password, AnyPassword)


def _fits(password: str, form: Any) -> bool:
    try:
        TypeAdapter(form).validate_python(password)
    except ValidationError:
        return False
    return True


def hash_password(password: str) -> str:
    return HASHER.hash(password)


def is_password(password: str, password_hash: str | None) -> bool:
    """Whether the password matches the hash. Without a hash, return false after the same amount of work."""
    try:
        HASHER.verify(password_hash or _hash_of_nobody(), password)
    except (VerificationError, InvalidHashError):
        return False
    return password_hash is not None


def random_password() -> str:
    return secrets.token_urlsafe(18)


@cache
def _hash_of_nobody() -> str:
    return HASHER.hash(secrets.token_urlsafe(32))


class HashingThreads:
    """Hashes passwords two at a time, so that a flood of logins can exhaust neither the memory nor the threads that
    answer all other requests.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="hashing")
        self._pool.submit(_hash_of_nobody)  # otherwise the first login with an unknown name takes twice as long
        self._guard = threading.Lock()
        self._queue: FairQueue[Future[None]] = FairQueue()
        self._running: set[ClientKey] = set()
        self._places = THREADS

    async def run(
        self,
        client: ClientKey,
        function: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Result:
        """Run a function that hashes passwords when it is this client's turn. Raise Unavailable if too many are
        waiting.
        """
        await self._turn(client)
        call = partial(contextvars.copy_context().run, partial(function, *arguments, **named))
        future = self._pool.submit(call)
        future.add_done_callback(lambda _future: self._done(client))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def _turn(self, client: ClientKey) -> None:
        turn: Future[None] = Future()
        with self._guard:
            alike, of_address = self._queue.waiting(client), self._queue.of_address(client.address)
            if alike >= MAX_WAITING_ALIKE or of_address >= MAX_OF_ADDRESS:
                raise _busy()
            if len(self._queue) >= MAX_WAITING:
                self._make_room(client)
            self._queue.put(client, turn)
            self._next()
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            self._give_up(client, turn)
            raise

    def _make_room(self, client: ClientKey) -> None:
        """Refuse the latest login of the address with the most waiting ones, so that a flood affects only itself."""
        fullest = self._queue.fullest()
        if fullest is None or self._queue.of_address(fullest.address) <= self._queue.of_address(client.address) + 1:
            raise _busy()
        turned_away = self._queue.take_last(fullest)
        if turned_away.set_running_or_notify_cancel():
            turned_away.set_exception(_busy())

    def _give_up(self, client: ClientKey, turn: "Future[None]") -> None:
        with self._guard:
            had_its_turn = turn.done() and not turn.cancelled()
            if not had_its_turn:
                self._queue.remove(client, turn)
        if had_its_turn:
            self._done(client)

    def _next(self) -> None:
        """Give free places to the next in line.

        Logins of the same client run one after the other, because they would block each other anyway.
        """
        while self._places and (found := self._queue.take(self._running)) is not None:
            client, turn = found
            if turn.set_running_or_notify_cancel():
                self._places -= 1
                self._running.add(client)
                turn.set_result(None)

    def _done(self, client: ClientKey) -> None:
        with self._guard:
            self._places += 1
            self._running.discard(client)
            self._next()


HASHING_THREADS = Part[HashingThreads]("hashing_threads")


def _busy() -> Unavailable:
    return Unavailable("auth.busy", "Too many logins at the same time; try again in a moment.", retry_after=2)


Hashing = Annotated[HashingThreads, Depends(HASHING_THREADS)]


def client_key(caller: Caller) -> ClientKey:
    return ClientKey(caller.address or "", caller.username)
