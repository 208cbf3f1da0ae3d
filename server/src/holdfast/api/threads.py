"""The threads in which routes use the store.

A request visits a thread once: there it opens its transaction, runs, and serialises its response; it returns when the
transaction has ended. Readers and writers have separate threads, so that a read never waits for a writer. There are
fewer threads than connections in the store's pool. Requests that wait for a thread wait here and occupy no connection.
"""

from collections.abc import Callable
from typing import Literal, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from holdfast.kit import request_priority

Work = Literal["reading", "writing", "other"]
Result = TypeVar("Result")

# Readers and writers together need fewer connections than the pool has.
THREADS: dict[Work, int] = {"reading": 20, "writing": 8, "other": 20}

_limiters: dict[Work, RunVar[CapacityLimiter]] = {work: RunVar(f"threads for {work}") for work in THREADS}


async def in_thread(work: Work, call: Callable[[], Result]) -> Result:
    if work != "reading":
        return await to_thread.run_sync(call, limiter=_limiter(work))
    with request_priority.answering():
        return await to_thread.run_sync(call, limiter=_limiter(work))


def _limiter(work: Work) -> CapacityLimiter:
    """The limiter of the current event loop."""
    limiter = _limiters[work].get(None)
    if limiter is None:
        limiter = CapacityLimiter(THREADS[work])
        _limiters[work].set(limiter)
    return limiter
