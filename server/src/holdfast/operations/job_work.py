"""What a kind says about its job, and what a host reports at the end of one: an agent, or the runner itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Session

from backup_protocol import Block
from holdfast.operations.models import Operation
from holdfast.operations.status import SUCCEEDED, Status

if TYPE_CHECKING:
    from holdfast.operations.kinds import Outcome


class NothingToDo(Exception):
    """The work is not wanted after all: the operation is skipped for this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class JobReport:
    """How a job ended, in the kernel's terms. `items` are the joined parts of a long result; None without any."""

    status: Status
    return_code: int | None = None
    error_key: str | None = None
    error_message: str | None = None
    archive_name: str | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[Mapping[str, Any], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    items: tuple[Mapping[str, Any], ...] | None = None
    ended_at: datetime | None = None
    """When the work ended, where the job knows that better than the record of its last engine run."""

    @property
    def succeeded(self) -> bool:
        return self.status in SUCCEEDED


@dataclass(frozen=True, slots=True)
class JobWork:
    """`block` is what the job needs beside its repository; `conclude` makes of a report how the operation ended.

    `conclude` may get whatever an agent sent: it must not trust it. It only reads; what it wants written goes into the
    outcome's `record`, which runs in the transaction that ends the operation.
    """

    job_kind: str
    block: Callable[[Session, Operation], Block]
    conclude: Callable[[Session, Operation, JobReport], "Outcome"]
    may_repeat: bool = False
    """An agent that has lost the job may simply do it again."""
    opens_repository: bool = True
    """It needs the repository's passphrase where there is one."""
    secrets: Callable[[Session, Operation], Mapping[str, str]] | None = None
    """Secrets of its own that are handed to the agent with the job, by the references in its block."""
    leaves_archive: bool = False
    """It makes an archive whose comment carries the operation's key: the repository knows what became of it."""
