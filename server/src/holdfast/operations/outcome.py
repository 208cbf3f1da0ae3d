"""How an attempt at an operation ended."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.operations.status import Status


@frozen
class Outcome:
    """How an operation ended. `record` runs in the transaction that ends it."""

    status: Status
    error_key: str | None = None
    error_message: str | None = None
    result: Mapping[str, Any] | None = None
    warnings: tuple[Mapping[str, Any], ...] = ()
    archive_name: str | None = None
    had_effects: bool = False
    """The kind's effects happened although the operation did not succeed: listeners must be notified."""
    record: Callable[[Session], None] | None = None
    ended_at: datetime | None = None
    """When it ended, if the kind knows this better than the record of its last engine run."""
    skip_reason: str | None = None
    """Why there was nothing to do, if the status is skipped."""


@frozen
class TryAgain:
    """The attempt failed for reasons other than the request itself: queue it again if attempts are left.

    `result` is what the attempt has achieved; the next attempt finds it as the operation's result.
    """

    error_key: str
    error_message: str
    delay_seconds: float = 0.0
    result: Mapping[str, Any] | None = None
    had_effects: bool = False
    record: Callable[[Session], None] | None = None
