"""What a kind says about being executed by an agent, and what an agent says at the end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Session

from holdfast.operations.models import Operation
from holdfast.operations.status import SUCCEEDED, Status

if TYPE_CHECKING:
    from holdfast.operations.kinds import Outcome


@dataclass(frozen=True, slots=True)
class AgentReport:
    """How a job ended on its machine, in the kernel's words. `items` are the joined parts of a long result; None without any."""

    status: Status
    return_code: int | None = None
    error_key: str | None = None
    error_message: str | None = None
    archive_name: str | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[Mapping[str, Any], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    items: tuple[Mapping[str, Any], ...] | None = None

    @property
    def succeeded(self) -> bool:
        return self.status in SUCCEEDED


@dataclass(frozen=True, slots=True)
class AgentWork:
    """`payload` is what the job needs beside its repository; `conclude` makes of a report what a local run would make.

    `conclude` runs in the transaction that ends the operation, and gets whatever the agent sent: it must not trust it.
    """

    job_kind: str
    payload: Callable[[Session, Operation], Mapping[str, Any]]
    conclude: Callable[[Session, Operation, AgentReport], "Outcome"]
