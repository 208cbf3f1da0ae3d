"""How many requests may be at the store at once.

A request keeps its connection between the route and the sending of the answer, and needs a thread once more in between.
If all threads could wait for a connection at the same time, those who have one would wait for a thread, and nothing
would move until somebody's time is up. So fewer requests than there are threads are let to the store; the others wait
here, where waiting costs no thread. Readers and writers have turns of their own: a read never waits for a writer.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from anyio import Semaphore
from anyio.lowlevel import RunVar
from fastapi import Depends, Request

# Together fewer than the 40 threads of a process, and than the connections of its pool.
READERS = 20
WRITERS = 8

_readers: RunVar[Semaphore] = RunVar("readers at the store")
_writers: RunVar[Semaphore] = RunVar("writers at the store")


async def _read_turn(request: Request) -> AsyncIterator[None]:
    # Who has a turn to write does not wait for one to read: two requests could otherwise wait for each other.
    if getattr(request.state, "has_turn_to_write", False):
        yield
        return
    async with _turn(_readers, READERS):
        yield


async def _write_turn(request: Request) -> AsyncIterator[None]:
    async with _turn(_writers, WRITERS):
        request.state.has_turn_to_write = True
        yield


@asynccontextmanager
async def _turn(turns: RunVar[Semaphore], number: int) -> AsyncIterator[None]:
    """The semaphore belongs to the event loop, as the threads do."""
    semaphore = turns.get(None)
    if semaphore is None:
        semaphore = Semaphore(number)
        turns.set(semaphore)
    async with semaphore:
        yield


ReadTurn = Annotated[None, Depends(_read_turn, scope="function")]
WriteTurn = Annotated[None, Depends(_write_turn, scope="function")]
