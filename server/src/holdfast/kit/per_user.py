"""Count something per user, such as requests in progress."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class PerUserCount(Counter[int]):
    """A count for each user who has any."""

    @contextmanager
    def one(self, user_id: int) -> Iterator[None]:
        """Count one more for this user inside the block."""
        self[user_id] += 1
        try:
            yield
        finally:
            self[user_id] -= 1
            if not self[user_id]:
                del self[user_id]
