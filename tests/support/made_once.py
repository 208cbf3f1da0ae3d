"""Values that a test process creates once, whichever of its threads needs them first."""

import functools
import threading
from collections.abc import Callable
from typing import TypeVar

Made = TypeVar("Made")


def made_once(make: Callable[..., Made]) -> Callable[..., Made]:
    """Like `functools.cache`, but never creates a value twice, which `functools.cache` may do in two threads."""
    cached, making = functools.cache(make), threading.RLock()

    @functools.wraps(make)
    def found(*given: object) -> Made:
        with making:
            return cached(*given)

    return found
