"""The threads in which routes use the store.

A request goes to a thread once: there it opens its transaction, runs, and has its answer written, and it comes back
when the transaction has ended. Readers and writers have threads of their own, so that a read never waits for a writer,
and fewer of them than the store's pool has connections; a request that waits for a thread waits here and holds nothing.
"""

from collections.abc import Callable
from typing import Literal, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from holdfast.kit import courtesy

Work = Literal["reading", "writing", "other"]
Result = TypeVar("Result")

# Those who read and write together need fewer connections than the pool has.
THREADS: dict[Work, int] = {"reading": 20, "writing": 8, "other": 20}

_limiters: dict[Work, RunVar[CapacityLimiter]] = {work: RunVar(f"threads for {work}") for work in THREADS}


async def in_thread(work: Work, call: Callable[[], Result]) -> Result:
    if work != "reading":
        return await to_thread.run_sync(call, limiter=_limiter(work))
    with courtesy.answering():
        return await to_thread.run_sync(call, limiter=_limiter(work))


def _limiter(work: Work) -> CapacityLimiter:
    """It belongs to the event loop."""
    limiter = _limiters[work].get(None)
    if limiter is None:
        limiter = CapacityLimiter(THREADS[work])
        _limiters[work].set(limiter)
    return limiter
