"""How a kind describes its job, and how a host (an agent or the runner) reports the job's end."""

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_protocol import Block
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import SUCCEEDED, Status


class NothingToDo(Exception):
    """The work is no longer wanted; the operation is skipped for this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@frozen
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
    """When the work ended, if the job knows this better than the record of its last engine run."""

    @property
    def succeeded(self) -> bool:
        return self.status in SUCCEEDED


@frozen
class JobWork:
    """How agents execute a kind. `block` is the job's input; `conclude` turns a report into the operation's outcome.

    The repository is not part of `block`. `conclude` may receive anything that an agent sent, and must not trust it. It
    only reads; its writes go into the outcome's `record`, which runs in the transaction that ends the operation.
    """

    job_kind: str
    block: Callable[[Session, Operation], Block]
    conclude: Callable[[Session, Operation, JobReport], Outcome]
    may_repeat: bool = False
    """Whether an agent that has lost the job may simply repeat it."""
    opens_repository: bool = True
    """Whether the job needs the repository's passphrase, if there is one."""
    secrets: Callable[[Session, Operation], Mapping[str, str]] | None = None
    """Secrets of the job's own, which the agent receives with the job under the references in its block."""
    leaves_archive: bool = False
    """Whether it makes an archive whose comment has the operation's key, as proof of how the operation ended."""


def reported(report: JobReport, *, result: Mapping[str, Any] | None = None, **more: Any) -> Outcome:
    """Return the outcome that follows from a report alone."""
    return Outcome(
        report.status,
        report.error_key,
        report.error_message,
        result={**(result or {}), **_error_params(report), "return_code": report.return_code},
        warnings=report.warnings,
        archive_name=report.archive_name,
        ended_at=report.ended_at,
        **more,
    )


def _error_params(report: JobReport) -> dict[str, Any]:
    params = report.details.get("error_params")
    return {"error_params": dict(params)} if isinstance(params, Mapping) else {}
