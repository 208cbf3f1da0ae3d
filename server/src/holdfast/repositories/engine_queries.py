"""The one way to query an engine about a repository within a request."""

from collections.abc import Callable
from typing import TypeVar

from backup_engine.causes import ARCHIVE_MISSING
from backup_engine.command import Command
from backup_engine.detect import EngineUnsupported
from backup_engine.interface import Engine
from backup_engine.requests import RepositoryLocation
from backup_engine.results import ArchiveInfo, GarbledOutput, parse_archives
from backup_jobs.host import SUCCEEDED, Step
from holdfast.errors import HoldfastError, Unprocessable
from holdfast.operations.locks import Access
from holdfast.operations.queue import lane_of
from holdfast.repositories import errors, store
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.runner.inline import InlineCalls

Answer = TypeVar("Answer")


def query_engine(
    inline: InlineCalls,
    opener: Opener,
    repository: Repository,
    request: Callable[[Engine, RepositoryLocation], Command],
    read: Callable[[Step], Answer],
    *,
    location: RepositoryLocation | None = None,
    access: Access = Access.READ,
    wait_seconds: float | None = None,
    missing: HoldfastError | None = None,
) -> Answer:
    """Run one engine command in the repository's lane, and return the result of `read` on its output.

    Raise Locked while other work holds the repository (busy), Unavailable if the machine that opens it does not answer
    (offline), `missing` if the requested archive is gone, and if the engine fails, Unprocessable, Conflict or Locked as
    `refused_by_engine` decides (failed).
    """
    engine, place = opener.engine(repository), location or opener.location(repository)
    try:
        command = request(engine, place)
    except EngineUnsupported as error:
        raise Unprocessable(error.key, str(error)) from error
    lane, subject = lane_of(repository.id), store.subject(repository)
    with inline.hold(lane, subject=subject, access=access, wait_seconds=wait_seconds) as hold:
        step = hold.run(command)
        if missing is not None and step.outcome.reason == ARCHIVE_MISSING:
            raise missing
        if step.outcome.status not in SUCCEEDED:
            raise errors.refused_by_engine(step.outcome)
        try:
            return read(step)
        except (GarbledOutput, OSError) as error:
            raise Unprocessable("engine.failed", "The engine's answer was cut short.") from error


def archives_of(step: Step) -> list[ArchiveInfo]:
    """Return the engine's list of archives."""
    try:
        return parse_archives(step.stdout.read_bytes())
    except (GarbledOutput, OSError) as error:
        raise Unprocessable("engine.failed", "The engine's list of archives was cut short.") from error


def nothing_of(step: Step) -> None:
    """Discard the output of a command whose success is the answer."""
    del step
