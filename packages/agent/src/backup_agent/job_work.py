"""What every kind of job works with: its payload, the opened repository, the engine's runs."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from backup_agent.client import OpenStream
from backup_agent.steps import Interrupted, Step, Steps
from backup_engine.command import Command
from backup_engine.interface import Engine
from backup_engine.outcome import SENTENCES, Accumulator
from backup_engine.requests import RepositoryLocation
from backup_protocol import Block, Payload, Result, is_warning

FINDING_OUT_TRIES = 5
LONGEST_WARNING = 2000
MOST_CHARACTERS = 100_000
"""Far below the largest message, even if each character takes several bytes of it."""


class EvidenceUnknown(Exception):
    """The repository could not be asked."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class TryAgain(Exception):
    """The attempt came to nothing through no fault of the job: do it again, if attempts are left."""

    def __init__(self, key: str, message: str, delay_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.key = key
        self.message = message
        self.delay_seconds = delay_seconds


@dataclass(frozen=True, slots=True)
class Completed:
    """`return_code` is the engine's own; None when it left none and the repository told the end."""

    return_code: int | None = 0
    warned: bool = False
    archive_name: str | None = None
    stats: Any = None
    warnings: tuple[dict[str, Any], ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    items: tuple[dict[str, Any], ...] | None = None
    """What is too much for one message, such as a list of archives; None where there is no such thing."""

    def result(self) -> Result:
        code = self.return_code or 0
        if self.warned != is_warning(code):
            code = 1 if self.warned else 0  # the word of the contract for "with warnings" is the code
        return Result(code, self.archive_name, self.stats, self.warnings, self.details or None)


@dataclass(frozen=True, slots=True)
class Failed:
    error_key: str
    message: str
    return_code: int | None = None
    details: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Stopped:
    """The engine is gone because somebody asked for it."""

    return_code: int | None = None
    details: dict[str, Any] = field(default_factory=dict)


Ended = Completed | Failed | Stopped


@dataclass(frozen=True, slots=True)
class Work:
    payload: Payload
    known_engine: Engine | None
    """None for a kind that needs none."""
    location: RepositoryLocation
    steps: Steps
    ran_before: bool = False
    """The job may have run on an agent that has lost its memory of it."""
    expected_size: int | None = None
    """The size of the last complete backup of this repository from here."""
    note_size: Callable[[int], None] | None = None
    open_stream: Callable[[], AbstractContextManager[OpenStream]] | None = None

    @property
    def engine(self) -> Engine:
        assert self.known_engine is not None
        return self.known_engine

    def receive(self) -> AbstractContextManager[OpenStream]:
        """What the service sends for this job. Raise NoAnswer or Refusal."""
        assert self.open_stream is not None
        return self.open_stream()

    @property
    def block(self) -> Block:
        return self.payload.block

    def find_out(self, name: str, command: Command) -> Step:
        """Run a reading step, despite a cancel, until one is not itself cut off. Raise EvidenceUnknown if it fails."""
        for number in range(1, FINDING_OUT_TRIES + 1):
            try:
                step = self.steps.run(f"{name}-{number}", command, despite_cancel=True, quiet=True)
            except Interrupted:
                continue
            if step.succeeded:
                return step
            outcome = step.outcome
            raise EvidenceUnknown(outcome.error_key or "engine.failed", outcome.message or SENTENCES["engine.failed"])
        raise EvidenceUnknown("operations.interrupted", "The engine was killed each time it was asked.")


def ended_without_success(step: Step, details: dict[str, Any] | None = None) -> Failed | Stopped | None:
    """The ending of a run that was cancelled or failed; None when it succeeded. Raise TryAgain if it was locked out."""
    outcome = step.outcome
    if outcome.status == "cancelled":
        return Stopped(step.exit.code, details or {})
    if outcome.error_key == "engine.locked":
        raise TryAgain("engine.locked", outcome.message or SENTENCES["engine.locked"], 2.0)
    if outcome.status == "failed":
        key = outcome.error_key or "engine.failed"
        sentence = outcome.message or SENTENCES["engine.failed"]
        return Failed(key, sentence, step.exit.code, details or {}, warnings_of(step.accumulator))
    return None


def is_warned(step: Step) -> bool:
    return step.outcome.status == "completed_with_warnings"


def within_message(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first of the items, as many as a message can carry beside all else."""
    kept: list[dict[str, Any]] = []
    size = 0
    for item in items:
        size += sum(len(str(value)) for value in item.values()) + 50
        if size > MOST_CHARACTERS:
            break
        kept.append(item)
    return kept


def readable(text: str) -> str:
    """Engine text as text that can be stored: undecodable bytes become replacement characters."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode("utf-8", "replace").decode()


def warnings_of(accumulator: Accumulator) -> tuple[dict[str, Any], ...]:
    """The first warnings, as many as a message can carry."""
    return tuple(
        within_message(
            {
                "path": readable(warning.path) if warning.path else None,
                "message": readable(warning.message)[:LONGEST_WARNING],
            }
            for warning in accumulator.warnings
        )
    )
