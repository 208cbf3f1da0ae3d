"""The surroundings of a job, as its body sees them. The service's runner and the agent are two hosts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from backup_engine.command import Command
from backup_engine.events import Event
from backup_engine.frozen import frozen
from backup_engine.outcome import Accumulator, Outcome
from backup_engine.process import ExitRecord

SUCCEEDED = frozenset({"completed", "completed_with_warnings"})


class Interrupted(Exception):
    """An engine run ended and left no record of how."""

    def __init__(self, step: str, accumulator: Accumulator) -> None:
        super().__init__(step)
        self.step = step
        self.accumulator = accumulator
        """The engine's output up to then."""

    def sentence(self) -> str:
        return "The engine was killed, or the machine went down, before its result was recorded."


class Cancelled(Exception):
    """The job was cancelled before its next step."""


class Stopping(Exception):
    """The host stops; the engine continues under its shim and is found again at the next start."""


@frozen
class Step:
    """One engine run that has ended."""

    exit: ExitRecord
    outcome: Outcome
    accumulator: Accumulator
    stdout: Path
    stderr: Path

    @property
    def succeeded(self) -> bool:
        return self.outcome.status in SUCCEEDED

    @property
    def is_warned(self) -> bool:
        return self.outcome.status == "completed_with_warnings"


@frozen
class ScriptEnd:
    """One run of a script that has ended."""

    exit: ExitRecord
    was_cancelled: bool
    was_reached: bool = True
    """False: its machine did not answer, and nothing was started there."""


class Host(ABC):
    """The surroundings of one attempt at a job.

    A body may be called again for the same attempt after a restart. Steps that have ended are then answered from their
    spool, a living one is followed on, and log lines already written are skipped; so everything between the steps must
    be safe to do twice, and every log line must be a function of the steps.
    """

    @property
    @abstractmethod
    def attempt(self) -> int:
        """The number of this attempt; the first is 1."""

    @property
    @abstractmethod
    def earlier(self) -> Mapping[str, Any]:
        """The details of the previous attempt's `Again`; empty for the first attempt."""

    @property
    def ran_before(self) -> bool:
        """True when a host that has lost its memory of the job may have run it before."""
        return False

    @property
    def may_have_run(self) -> bool:
        """True when an earlier attempt may have done the work already."""
        return self.attempt > 1 or self.ran_before

    @abstractmethod
    def step(
        self,
        name: str,
        command: Command,
        *,
        on_event: Callable[[Event], None] | None = None,
        despite_cancel: bool = False,
        quiet: bool = False,
    ) -> Step:
        """Run an engine command under the shim, or find it again. Raise Interrupted if its end is unknown.

        Raise Cancelled if the job was cancelled before the step began, unless the step gathers evidence and must
        run `despite_cancel`. A `quiet` step leaves no lines in the log.
        """

    @abstractmethod
    def script_step(self, name: str, command: Command) -> ScriptEnd:
        """Run a user's script under the shim, or find it again; its output goes to the log.

        Raise Interrupted and Cancelled.
        """

    @abstractmethod
    def has_begun(self, name: str) -> bool:
        """True when a step of this name has been started in this attempt, perhaps before a restart of the host."""

    @abstractmethod
    def once(self, name: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """The result of `make`, called once in this attempt: after a restart it is the earlier result.

        For facts that must not be determined twice, because the job's own work changes them. The value is stored as
        JSON.
        """

    @abstractmethod
    def kept(self, name: str) -> Mapping[str, Any] | None:
        """The value that `once` has stored under this name in this attempt; None if it was never made."""

    @abstractmethod
    def pause(self, seconds: float) -> None:
        """Wait for something outside this job. Raise Cancelled or Stopping immediately."""

    @abstractmethod
    def log(self, *lines: str) -> None:
        """Append to the job's log."""

    @abstractmethod
    def report(self, **progress: Any) -> None:
        """Set progress values; they are passed on together, at most once a second."""

    @abstractmethod
    def is_cancelled(self) -> bool:
        """True once the job was cancelled."""

    @abstractmethod
    def is_stopping(self) -> bool:
        """True once the host should stop."""

    def require_going_on(self) -> None:
        """Raise Stopping or Cancelled if the work must end here."""
        if self.is_stopping():
            raise Stopping
        if self.is_cancelled():
            raise Cancelled
