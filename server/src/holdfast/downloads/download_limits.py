"""Limits concurrent downloads, because each runs an engine and holds its repository."""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import HoldfastError, TooManyRequests, Unavailable
from holdfast.kit.per_user import PerUserCount
from holdfast.settings import Settings

RETRY_SECONDS = 30


class DownloadLimits:
    """Counts running downloads. For use on the service's event loop only."""

    def __init__(self, settings: Settings) -> None:
        self.most = settings.downloads
        self.most_per_user = settings.downloads_per_user
        self._running = PerUserCount()

    @contextmanager
    def turn(self, user_id: int) -> Iterator[None]:
        """Count a download while it runs. Raise TooManyRequests or Unavailable above the limit."""
        self.require_one(user_id)
        with self._running.one(user_id):
            yield

    def require_one(self, user_id: int) -> None:
        """Raise TooManyRequests or Unavailable if one more download would exceed the limit now."""
        if (refusal := self._refusal(user_id)) is not None:
            raise refusal

    def _refusal(self, user_id: int) -> HoldfastError | None:
        if self._running[user_id] >= self.most_per_user:
            message = f"You have {self.most_per_user} downloads running; wait for one to finish."
            return TooManyRequests("restore.too_many_downloads", message, retry_after=RETRY_SECONDS)
        if self._running.total() >= self.most:
            message = "Too many downloads are running; try again later."
            return Unavailable("restore.too_many_downloads", message, retry_after=RETRY_SECONDS)
        return None
