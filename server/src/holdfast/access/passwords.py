"""Password hashes, and the few threads in which they are computed."""

import asyncio
import contextvars
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Annotated, Any, ParamSpec, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from fastapi import Depends, Request
from pydantic import TypeAdapter, ValidationError

from holdfast.errors import Unavailable
from holdfast.kit.fields import PlainText

MIN_CHARACTERS = 8
MAX_BYTES = 1024
THREADS = 2
MAX_WAITING = 200

# Argon2id with 19 MiB and two passes. One lane: a login should not take all cores from the engines.
HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)

AnyPassword = Annotated[str, PlainText(1, MAX_BYTES, max_bytes=MAX_BYTES)]
NewPassword = Annotated[str, PlainText(MIN_CHARACTERS, MAX_BYTES, max_bytes=MAX_BYTES)]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def is_acceptable(password: str) -> bool:
    """Fit to be anybody's new password."""
    return _fits(password, NewPassword)


def is_storable(password: str) -> bool:
    """Fit to be a password at all."""
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
    """Whether the password is the one of the hash. Without a hash the answer is no, after the same work."""
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
    """Where passwords are hashed: two at a time, so that a flood of logins takes neither all memory nor the threads
    that answer everybody else.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="hashing")
        self._lock = threading.Lock()
        self._waiting = 0

    async def run(
        self, function: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        """Run a use case that hashes. Raise Unavailable if too many wait already."""
        with self._lock:
            if self._waiting >= MAX_WAITING:
                raise Unavailable("auth.busy", "Too many logins at once; try again in a moment.", retry_after=2)
            self._waiting += 1
        call = partial(contextvars.copy_context().run, partial(function, *arguments, **named))
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, call)
        finally:  # here and not in the thread: a request given up while it waits must be counted out too
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


async def the_hashing_threads(request: Request) -> HashingThreads:
    threads: HashingThreads = request.app.state.hashing_threads
    return threads


Hashing = Annotated[HashingThreads, Depends(the_hashing_threads)]
