"""What an operation kind is: one value that says everything the kernel needs to know about it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from sqlalchemy.orm import Session

from holdfast.operations.job_work import JobReport, JobWork
from holdfast.operations.models import Operation
from holdfast.operations.status import LockMode, Status
from holdfast.operations.step_rules import StepRules

if TYPE_CHECKING:
    from backup_jobs.host import Interrupted
    from holdfast.operations.context import Context


class Effect(StrEnum):
    """What a successful operation changed, for whoever listens."""

    ARCHIVES_CHANGED = "archives_changed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an operation ended. `record` runs in the transaction that ends it."""

    status: Status
    error_key: str | None = None
    error_message: str | None = None
    result: Mapping[str, Any] | None = None
    warnings: tuple[Mapping[str, Any], ...] = ()
    archive_name: str | None = None
    had_effects: bool = False
    """The kind's effects came about although it did not succeed: who listens must hear of it."""
    record: Callable[[Session], None] | None = None
    ended_at: datetime | None = None
    """When it ended, where the kind knows that better than the record of its last engine run."""
    skip_reason: str | None = None
    """Why there was nothing to do, where the status is skipped."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The attempt came to nothing through no fault of the request: queue it again, if attempts are left.

    `result` is what the attempt has done all the same; the next attempt finds it as the operation's result.
    """

    error_key: str
    error_message: str
    delay_seconds: float = 0.0
    result: Mapping[str, Any] | None = None
    had_effects: bool = False
    record: Callable[[Session], None] | None = None


def reported(report: JobReport, *, result: Mapping[str, Any] | None = None, **more: Any) -> Outcome:
    """The outcome that a report tells by itself."""
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
    told = report.details.get("error_params")
    return {"error_params": dict(told)} if isinstance(told, Mapping) else {}


Run = Callable[["Context"], "Outcome | TryAgain"]
OnInterrupted = Callable[["Context", "Interrupted"], "Outcome | TryAgain"]


def no_params() -> type[BaseModel]:
    return BaseModel


def again_when_interrupted(context: "Context", interrupted: "Interrupted") -> TryAgain:
    """For work that may simply be done again."""
    del context
    return TryAgain("operations.interrupted", interrupted.sentence())


def failed_when_interrupted(context: "Context", interrupted: "Interrupted") -> Outcome:
    """For work that must not be repeated without being asked."""
    del context
    return Outcome(Status.FAILED, "operations.interrupted", interrupted.sentence())


def nothing_more(operation: Operation) -> dict[str, Any]:
    del operation
    return {}


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    category: str
    run: Run
    params: type[BaseModel]
    on_interrupted: OnInterrupted
    lock: LockMode | None = LockMode.EXCLUSIVE
    only_adds: bool = False
    """It takes nothing away, so that it holds the lane with others where the repository's engine allows that."""
    beside_no_writer: bool = False
    """It reads the repository's files itself, so that it has the lane alone where writers may share it."""
    activity_word: str | None = None
    limit_group: str | None = None
    lock_key: str | None = None
    """A lane other than the repository's, such as the one of all package installs."""
    effects: frozenset[Effect] = frozenset()
    present: Callable[[Operation], dict[str, Any]] = nothing_more
    """The kind's own block in the detail of an operation."""
    agent: JobWork | None = None
    """How an agent executes it; None for a kind that only this service can execute."""
    step_rules: StepRules | None = None
    """What it says about itself as a step of a schedule."""

    @property
    def word(self) -> str:
        return self.activity_word or self.name


Listener = Callable[[Session, Operation], None]


@dataclass(frozen=True, slots=True)
class Registry:
    """All kinds of this installation, and who listens to their effects."""

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    listeners: Mapping[Effect, tuple[Listener, ...]] = field(default_factory=dict)

    @staticmethod
    def of(kinds: Iterable[Kind], listeners: Iterable[tuple[Effect, Listener]] = ()) -> "Registry":
        by_effect: dict[Effect, tuple[Listener, ...]] = {}
        for effect, listener in listeners:
            by_effect[effect] = (*by_effect.get(effect, ()), listener)
        by_name: dict[str, Kind] = {}
        for kind in kinds:
            if kind.name in by_name:
                raise ValueError(f"two kinds are called {kind.name}")
            by_name[kind.name] = kind
        return Registry(by_name, by_effect)

    def word_of(self, kind: str) -> str:
        known = self.kinds.get(kind)
        return known.word if known else kind
