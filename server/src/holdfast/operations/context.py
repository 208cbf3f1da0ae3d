"""What a running kind may ask of its surroundings."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from backup_engine.command import Command
from backup_engine.events import Event
from backup_engine.outcome import Accumulator
from backup_engine.outcome import Outcome as EngineOutcome
from backup_engine.process import ExitRecord
from holdfast.operations.models import Operation
from holdfast.storage.session import Database


class Interrupted(Exception):
    """An engine run of this operation ended and left no record of how."""

    def __init__(self, step: str, accumulator: Accumulator) -> None:
        super().__init__(step)
        self.step = step
        self.accumulator = accumulator
        """What the engine had said until then."""

    def sentence(self) -> str:
        return "The engine was killed or the machine went down before it could say how it ended."


class Cancelled(Exception):
    """The operation was asked to stop before its next step."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One engine run that has ended."""

    exit: ExitRecord
    outcome: EngineOutcome
    accumulator: Accumulator
    stdout: Path
    stderr: Path


@dataclass(frozen=True, slots=True)
class PlainResult:
    """One run of a program that is not an engine."""

    exit: ExitRecord
    was_cancelled: bool


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """One run of a program whose error stream somebody has listened to."""

    exit: ExitRecord
    was_cancelled: bool
    stdout: Path


Hear = Callable[[bytes], Sequence[str]]
"""Given a line of a program's error stream, return what of it goes to the log."""


class Context(ABC):
    """The surroundings of one attempt.

    A kind's `run` may be called again for the same attempt after a restart. Steps that have ended are then answered from
    their spool, a living one is followed on, and log lines already written are passed over; so everything between the
    steps must be fit to be done twice, and every log line must be a function of the steps.
    """

    operation: Operation
    params: BaseModel
    database: Database

    @abstractmethod
    def step(
        self,
        name: str,
        command: Command,
        *,
        on_event: Callable[[Event], None] | None = None,
        despite_cancel: bool = False,
        quiet: bool = False,
    ) -> StepResult:
        """Run an engine command under the shim, or find it again. Raise Interrupted if nobody knows how it ended.

        Raise Cancelled if the operation was cancelled before the step began, unless it is one that finds out the truth
        and must run `despite_cancel`. A `quiet` step leaves no lines in the log.
        """

    @abstractmethod
    def plain_step(self, name: str, command: Command) -> PlainResult:
        """Run any program under the shim, or find it again; both of its streams go to the log, each line marked.

        Its standard output follows as it comes, its standard error after it: the log must come out the same when it is
        written again. Raise Interrupted and Cancelled as `step` does.
        """

    @abstractmethod
    def program_step(self, name: str, command: Command, hear: Hear) -> ProgramResult:
        """Run any program under the shim, or find it again, and listen to its error stream line by line.

        `hear` keeps secrets out of what it returns. Raise Interrupted and Cancelled as `step` does.
        """

    @abstractmethod
    def pause(self, seconds: float) -> None:
        """Wait for something that is not of this operation. Raise Cancelled once somebody has asked for it to stop."""

    @abstractmethod
    def has_begun(self, name: str) -> bool:
        """True when a step of this name has been started in this attempt, perhaps by an earlier runner."""

    @abstractmethod
    def once(self, name: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """What `make` returns, made once in this attempt: after a restart it is what was made before it.

        For what must not be found out twice, because the kind's own work changes it. The value is kept as JSON.
        """

    @abstractmethod
    def kept(self, name: str) -> Mapping[str, Any] | None:
        """What `once` has kept under this name in this attempt; None when it was never made."""

    @abstractmethod
    def log(self, *lines: str) -> None:
        """Append to the operation's log."""

    @abstractmethod
    def report(self, **progress: Any) -> None:
        """Set progress values; they reach the store together, at most once a second."""

    @abstractmethod
    def is_cancelled(self) -> bool:
        """True once somebody has asked for the operation to stop."""
