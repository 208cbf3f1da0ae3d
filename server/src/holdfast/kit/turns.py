"""How much of something each user has at the moment."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Turns(Counter[int]):
    """A number for each user who has any."""

    @contextmanager
    def one(self, user_id: int) -> Iterator[None]:
        """Count one in for as long as it lasts."""
        self[user_id] += 1
        try:
            yield
        finally:
            self[user_id] -= 1
            if not self[user_id]:
                del self[user_id]
