"""The possible endings of an attempt at a job."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from backup_engine.frozen import frozen

Warnings = tuple[Mapping[str, Any], ...]


@frozen
class Completed:
    """`return_code` is the engine's; None if it was not recorded and the repository served as evidence."""

    return_code: int | None = 0
    warned: bool = False
    archive_name: str | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    warnings: Warnings = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    items: tuple[Mapping[str, Any], ...] | None = None
    """The part of the result that is too large for one message, such as a list of archives; None if there is none."""
    ended_at: datetime | None = None
    """When the work ended, if the archive shows that more precisely than the record of the last engine run."""


@frozen
class Failed:
    error_key: str
    message: str
    return_code: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    warnings: Warnings = ()


@frozen
class Stopped:
    """The engine stopped because the job was cancelled. `message` states what remained unknown."""

    return_code: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    error_key: str | None = None
    message: str | None = None


@frozen
class TryAgain:
    """The attempt failed for external reasons. It is repeated if attempts are left.

    `details` describes what was achieved so far; the next attempt receives it as `Host.earlier`.
    """

    error_key: str
    message: str
    delay_seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)


Ended = Completed | Failed | Stopped | TryAgain
