"""Shared by all work on repositories: opening one, and expressing the end of an engine run in the kernel's terms."""

from collections.abc import Callable
from typing import Any

from backup_engine.causes import SENTENCES
from backup_engine.command import Command
from backup_engine.frozen import frozen
from backup_engine.interface import Engine
from backup_engine.requests import RepositoryLocation
from backup_jobs import work as jobs
from backup_jobs.endings import Failed, Stopped
from backup_jobs.endings import TryAgain as JobTryAgain
from backup_jobs.host import Step
from holdfast.errors import NotFound
from holdfast.operations.context import Context
from holdfast.operations.kinds import Kind, retry_when_interrupted
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories import store
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository


@frozen
class RepositoryWork:
    """The repository of an operation, opened for the engine."""

    context: Context
    repository: Repository
    engine: Engine
    location: RepositoryLocation

    @staticmethod
    def open(opener: Opener, context: Context) -> "RepositoryWork":
        """Open the operation's repository. Raise NotFound if it is gone, Unprocessable if its engine is."""
        with context.database.reading() as session:
            repository = store.get(session, context.operation.repository_id or 0)
        if repository is None:
            raise NotFound("repository.not_found", "The repository is no longer registered.")
        return RepositoryWork(context, repository, opener.engine(repository), opener.location(repository))

    def evidence_step(self, name: str, command: Command) -> Step:
        return jobs.evidence_step(self.context, name, command)

    def ended_without_success(self, step: Step) -> Outcome | TryAgain | None:
        """Return the ending of an engine run that was cancelled or failed; None if it succeeded."""
        bad = jobs.ended_without_success(self.context, step)
        result = {"return_code": step.exit.code}
        match bad:
            case Stopped():
                return Outcome(Status.CANCELLED, result=result)
            case JobTryAgain():
                return TryAgain(bad.error_key, bad.message, bad.delay_seconds)
            case Failed():
                return Outcome(Status.FAILED, bad.error_key, bad.message, result=result, warnings=bad.warnings)
        return None

    def try_again(self, key: str, message: str | None) -> TryAgain:
        again = jobs.try_again(self.context, key, message)
        return TryAgain(again.error_key, again.message, again.delay_seconds)


def success_status(step: Step) -> Status:
    return Status.COMPLETED_WITH_WARNINGS if step.is_warned else Status.COMPLETED


def failed(key: str) -> Outcome:
    return Outcome(Status.FAILED, key, SENTENCES[key])


Working = Callable[[RepositoryWork], Outcome | TryAgain]


def repository_kind(opener: Opener, work: Working, *, category: str, **values: Any) -> Kind:
    """Return a kind whose work is a function of an opened repository and can simply be repeated."""
    return Kind(
        category=category,
        limit_group=category,
        run=lambda context: work(RepositoryWork.open(opener, context)),
        on_interrupted=retry_when_interrupted,
        **values,
    )
