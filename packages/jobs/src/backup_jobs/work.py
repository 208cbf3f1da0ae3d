"""The input of every job, and the interpretation of an engine run's ending."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Generic, Protocol, TypeVar

from backup_engine.causes import SENTENCES, UNREACHABLE
from backup_engine.command import Command
from backup_engine.far.request import any_started_remotely, request_file
from backup_engine.frozen import frozen
from backup_engine.interface import Engine
from backup_engine.outcome import Accumulator
from backup_engine.requests import RepositoryLocation
from backup_jobs.endings import Failed, Stopped, TryAgain, Warnings
from backup_jobs.host import Host, Interrupted, Step
from backup_jobs.sources import Sources
from backup_jobs.stopped_services import ServicesToStop
from backup_protocol import Block

EVIDENCE_TRIES = 5
BACKOFF_SECONDS = 2.0
"""Multiplied by the number of the attempt, gives the pause before the next one."""
LOCKED = "engine.locked"
INTERRUPTED = "operations.interrupted"

JobBlock = TypeVar("JobBlock", bound=Block, covariant=True)


class EvidenceUnknown(Exception):
    """The repository could not be read. Unless this is handled, the job is tried again."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key
        self.message = message


class OpenedRepository(Protocol):
    """A repository that can be queried."""

    @property
    def engine(self) -> Engine: ...

    @property
    def location(self) -> RepositoryLocation: ...

    def evidence_step(self, name: str, command: Command) -> Step: ...


@frozen
class Work(Generic[JobBlock]):
    """A job with its opened repository. `block` is the request in the form that an agent receives."""

    host: Host
    known_engine: Engine | None
    """None for kinds that need no engine."""
    location: RepositoryLocation
    block: JobBlock
    known_sources: Sources | None = None
    services: ServicesToStop = field(default_factory=ServicesToStop)
    """The services that a backup stops while its engine runs."""

    @property
    def engine(self) -> Engine:
        assert self.known_engine is not None
        return self.known_engine

    @property
    def sources(self) -> Sources:
        assert self.known_sources is not None, "a backup knows its machine's sources"
        return self.known_sources

    def evidence_step(self, name: str, command: Command) -> Step:
        return evidence_step(self.host, name, command)


def evidence_step(host: Host, name: str, command: Command) -> Step:
    """Run a reading step despite a cancel, and repeat it if it is cut off. Raise EvidenceUnknown if it fails."""
    for number in range(1, EVIDENCE_TRIES + 1):
        try:
            step = host.step(f"{name}-{number}", command, despite_cancel=True, quiet=True)
        except Interrupted:
            continue
        if step.succeeded:
            return step
        outcome = step.outcome
        raise EvidenceUnknown(outcome.error_key or "engine.failed", outcome.message or SENTENCES["engine.failed"])
    raise EvidenceUnknown(INTERRUPTED, "The engine was killed at each attempt to read the repository.")


def ended_without_success(host: Host, step: Step) -> Failed | Stopped | TryAgain | None:
    """The ending of an engine run that was cancelled or failed; None if it succeeded."""
    outcome = step.outcome
    if outcome.status == "cancelled":
        return Stopped(step.exit.code)
    if outcome.error_key == LOCKED or (outcome.error_key == UNREACHABLE and _never_reached(step)):
        return try_again(host, outcome.error_key, outcome.message)
    if outcome.status == "failed":
        key = outcome.error_key or "engine.failed"
        message = outcome.message or SENTENCES["engine.failed"]
        return Failed(key, message, step.exit.code, warnings=warnings_of(step.accumulator))
    return None


def try_again(host: Host, key: str, message: str | None = None) -> TryAgain:
    """Retry after a pause: another program is using the repository, or it could not be read."""
    return TryAgain(key, message or SENTENCES[key], BACKOFF_SECONDS * host.attempt)


def retry_when_interrupted(interrupted: Interrupted) -> TryAgain:
    return TryAgain(INTERRUPTED, interrupted.sentence())


def _never_reached(step: Step) -> bool:
    """Whether the machine did not respond at all in this attempt: nothing was started there, so it is safe to retry."""
    folder = step.stderr.parent
    return request_file(folder).exists() and not any_started_remotely(folder.parent)


Bad = TypeVar("Bad", bound=Failed | Stopped | TryAgain)


def with_details(bad: Bad, details: Mapping[str, Any]) -> Bad:
    """Return the same ending with the job's own details."""
    return replace(bad, details=details)


def readable(text: str) -> str:
    """Make the engine's text storable: bytes that are not valid UTF-8 become replacement characters."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # a surrogate that does not stand for a byte
        return text.encode("utf-8", "replace").decode()


def warnings_of(accumulator: Accumulator) -> Warnings:
    return tuple(
        {"path": readable(warning.path) if warning.path else None, "message": readable(warning.message)}
        for warning in accumulator.warnings
    )
