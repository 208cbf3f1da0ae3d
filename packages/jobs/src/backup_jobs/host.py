"""The environment of a job as seen by its body. The service's runner and the agent are the two hosts."""

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
    """An engine run ended without a record of how."""

    def __init__(self, step: str, accumulator: Accumulator) -> None:
        super().__init__(step)
        self.step = step
        self.accumulator = accumulator
        """The engine's output so far."""

    def sentence(self) -> str:
        return "The engine was killed, or the machine went down, before its result was recorded."


class Cancelled(Exception):
    """The job was cancelled before its next step."""


class Stopping(Exception):
    """The host is stopping; the engine continues under its shim and is found again at the next start."""


@frozen
class Step:
    """A finished engine run."""

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
    """A finished run of a script."""

    exit: ExitRecord
    was_cancelled: bool
    was_reached: bool = True
    """False if its machine did not respond, so that nothing was started there."""


class Host(ABC):
    """The environment of one attempt at a job.

    After a restart, a body may be called again for the same attempt. Finished steps then return their results from the
    spool, a running one is followed further, and log lines already written are skipped. So everything between the steps
    must be safe to repeat, and every log line must be a function of the steps.
    """

    @property
    @abstractmethod
    def attempt(self) -> int:
        """Number of this attempt, starting at 1."""

    @property
    @abstractmethod
    def earlier(self) -> Mapping[str, Any]:
        """The details of the previous attempt's `TryAgain`; empty for the first attempt."""

    @property
    def ran_before(self) -> bool:
        """Whether the job may have run before on a host that has since lost its record of it."""
        return False

    @property
    def may_have_run(self) -> bool:
        """Whether an earlier attempt may already have done the work."""
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
        """Run an engine command under the shim, or find it again. Raise Interrupted if its ending is unknown.

        Raise Cancelled if the job was cancelled before the step began, unless the step gathers evidence and must run
        `despite_cancel`. A `quiet` step writes nothing to the log.
        """

    @abstractmethod
    def script_step(self, name: str, command: Command) -> ScriptEnd:
        """Run a user's script under the shim, or find it again. Its output goes to the log.

        Raise Interrupted or Cancelled.
        """

    @abstractmethod
    def has_begun(self, name: str) -> bool:
        """Whether a step of this name was started in this attempt, perhaps before a restart of the host."""

    @abstractmethod
    def once(self, name: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Call `make` once per attempt and return its result; after a restart, return the stored result.

        For facts that must not be determined twice because the job's own work changes them. The value is stored as
        JSON.
        """

    @abstractmethod
    def kept(self, name: str) -> Mapping[str, Any] | None:
        """The value stored by `once` under this name in this attempt; None if there is none."""

    @abstractmethod
    def pause(self, seconds: float) -> None:
        """Wait for something outside this job. Raise Cancelled or Stopping as soon as either applies."""

    @abstractmethod
    def log(self, *lines: str) -> None:
        """Append lines to the job's log."""

    @abstractmethod
    def report(self, **progress: Any) -> None:
        """Set progress values. They are published together, at most once a second."""

    @abstractmethod
    def is_cancelled(self) -> bool:
        """Whether the job was cancelled."""

    @abstractmethod
    def is_stopping(self) -> bool:
        """Whether the host should stop."""

    def require_going_on(self) -> None:
        """Raise Stopping or Cancelled if the work must end here."""
        if self.is_stopping():
            raise Stopping
        if self.is_cancelled():
            raise Cancelled
