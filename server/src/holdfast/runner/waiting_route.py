"""Routes whose requests wait for their turn before the route is called."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol

from holdfast.access.caller import Caller

PARAMETER = "turns"


class TakesTurns(Protocol):
    """Given a request by dependency injection: calls the route in the caller's turn."""

    async def run(self, user_id: int, call: Callable[[], Any]) -> Any: ...


def called_in_turn(route: Callable[..., Any], turns: Any, returns: Any = inspect.Signature.empty) -> Callable[..., Any]:
    """Return the route as a coroutine that passes it to an object of the annotation `turns`, with the caller's id.

    The route is an ordinary function one of whose parameters is the caller. `returns` replaces its annotation.
    """

    @functools.wraps(route)
    async def waiting(**values: Any) -> Any:
        waits: TakesTurns = values.pop(PARAMETER)
        caller = next(value for value in values.values() if isinstance(value, Caller))
        return await waits.run(caller.user_id, functools.partial(route, **values))

    signature = inspect.signature(route)
    extra = inspect.Parameter(PARAMETER, inspect.Parameter.KEYWORD_ONLY, annotation=turns)
    if returns is not inspect.Signature.empty:
        signature = signature.replace(return_annotation=returns)
    waiting.__signature__ = signature.replace(parameters=[*signature.parameters.values(), extra])  # type: ignore[attr-defined]
    return waiting
