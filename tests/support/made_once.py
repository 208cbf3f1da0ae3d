"""What a test process makes once, whichever of its threads asks for it first."""

import functools
import threading
from collections.abc import Callable
from typing import TypeVar

Made = TypeVar("Made")


def made_once(make: Callable[..., Made]) -> Callable[..., Made]:
    """As `functools.cache`, which lets two threads make it, and keeps what the second one made."""
    cached, making = functools.cache(make), threading.RLock()

    @functools.wraps(make)
    def found(*given: object) -> Made:
        with making:
            return cached(*given)

    return found
