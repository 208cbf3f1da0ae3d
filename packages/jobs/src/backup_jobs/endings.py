"""How an attempt at a job can end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Warnings = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Completed:
    """`return_code` is the engine's own; None when it left none and the repository showed the end."""

    return_code: int | None = 0
    warned: bool = False
    archive_name: str | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    warnings: Warnings = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    items: tuple[Mapping[str, Any], ...] | None = None
    """What is too much for one message, such as a list of archives; None where there is no such thing."""
    ended_at: datetime | None = None
    """When the work ended, where the archive shows that better than the record of the last engine run."""


@dataclass(frozen=True, slots=True)
class Failed:
    error_key: str
    message: str
    return_code: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    warnings: Warnings = ()


@dataclass(frozen=True, slots=True)
class Stopped:
    """The engine is gone because somebody asked for it. `message`: what could not be found out about it."""

    return_code: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    error_key: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The attempt came to nothing through no fault of the job: do it again, if attempts are left.

    `details` is what it has done all the same; the next attempt finds it as `Host.earlier`.
    """

    error_key: str
    message: str
    delay_seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)


Ended = Completed | Failed | Stopped | TryAgain
