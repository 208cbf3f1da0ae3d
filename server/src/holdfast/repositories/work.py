"""What every kind of work on a repository shares: opening it, and reading the engine's end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backup_engine.command import Command
from backup_engine.far.request import has_begun_elsewhere, request_file
from backup_engine.interface import Engine
from backup_engine.outcome import SENTENCES, UNREACHABLE, Accumulator
from backup_engine.requests import RepositoryLocation
from holdfast.errors import NotFound, Unavailable
from holdfast.operations.context import Context, Interrupted, StepResult
from holdfast.operations.kinds import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories import store
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository

FINDING_OUT_TRIES = 5
LOCK_BACKOFF_SECONDS = 2.0
SUCCEEDED = ("completed", "completed_with_warnings")


class EvidenceUnknown(Unavailable):
    """The repository could not be asked. Where nobody minds, the operation is tried again."""

    @property
    def error_key(self) -> str:
        return self.key


@dataclass(frozen=True, slots=True)
class RepositoryWork:
    """The repository of an operation, opened for the engine."""

    context: Context
    repository: Repository
    engine: Engine
    location: RepositoryLocation

    @staticmethod
    def open(opener: Opener, context: Context) -> "RepositoryWork":
        """Raise NotFound if the repository is gone, Unprocessable if its engine is."""
        with context.database.reading() as session:
            repository = store.get(session, context.operation.repository_id or 0)
        if repository is None:
            raise NotFound("repository.not_found", "The repository is not registered any more.")
        return RepositoryWork(context, repository, opener.engine(repository), opener.location(repository))

    def find_out(self, name: str, command: Command) -> StepResult:
        """Run a reading step, despite a cancel, until one is not itself cut off. Raise EvidenceUnknown if it fails."""
        for number in range(1, FINDING_OUT_TRIES + 1):
            try:
                step = self.context.step(f"{name}-{number}", command, despite_cancel=True, quiet=True)
            except Interrupted:
                continue
            if step.outcome.status in SUCCEEDED:
                return step
            raise EvidenceUnknown(
                step.outcome.error_key or "engine.failed", step.outcome.message or SENTENCES["engine.failed"]
            )
        raise EvidenceUnknown("operations.interrupted", "The engine was killed each time it was asked.")

    def ended_without_success(self, step: StepResult) -> Outcome | TryAgain | None:
        """The ending of an engine run that was cancelled or failed; None when it succeeded."""
        outcome = step.outcome
        result = {"return_code": step.exit.code}
        if outcome.status == "cancelled":
            return Outcome(Status.CANCELLED, result=result)
        if outcome.error_key == "engine.locked":
            return self.locked(outcome.message)
        if outcome.error_key == UNREACHABLE and _never_reached(step):
            return self._try_again(UNREACHABLE, outcome.message)
        if outcome.status == "failed":
            return Outcome(
                Status.FAILED, outcome.error_key, outcome.message, result=result, warnings=warnings_of(step.accumulator)
            )
        return None

    def locked(self, message: str | None) -> TryAgain:
        """Another program holds the repository: give it a little time."""
        return self._try_again("engine.locked", message)

    def _try_again(self, key: str, message: str | None) -> TryAgain:
        delay = LOCK_BACKOFF_SECONDS * self.context.operation.attempt
        return TryAgain(key, message or SENTENCES[key], delay_seconds=delay)


def _never_reached(step: StepResult) -> bool:
    """True when the attempt's machine did not answer at all: nothing was begun there, so it can be tried again."""
    folder = step.stderr.parent
    return request_file(folder).exists() and not has_begun_elsewhere(folder.parent)


def success_status(step: StepResult) -> Status:
    warned = step.outcome.status == "completed_with_warnings"
    return Status.COMPLETED_WITH_WARNINGS if warned else Status.COMPLETED


def failed(key: str) -> Outcome:
    return Outcome(Status.FAILED, key, SENTENCES[key])


def readable(path: str) -> str:
    """Engine text as text that can be stored: undecodable bytes become replacement characters."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def warnings_of(accumulator: Accumulator) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"path": readable(warning.path) if warning.path else None, "message": readable(warning.message)}
        for warning in accumulator.warnings
    )


Working = Callable[[RepositoryWork], Outcome | TryAgain]


def on_repository(opener: Opener, work: Working) -> Callable[[Context], Outcome | TryAgain]:
    """A kind's `run` from a function of an opened repository."""
    return lambda context: work(RepositoryWork.open(opener, context))
