"""The stream to an agent, frame by frame: the survey of the archive, the engine's tar stream, and how the engine ended.

The operation, which the agent has claimed, holds the repository's lane itself, so the engine runs here need none.
"""

import json
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

from backup_engine import bounded_json
from backup_engine.chunks.commands import narrowed
from backup_engine.command import Command
from backup_engine.interface import Engine
from backup_engine.listing import ListedFile, read_listing
from backup_engine.outcome import Outcome
from backup_engine.requests import ExportTarRequest, InvalidRequest, ListFilesRequest, RepositoryLocation
from backup_engine.results import GarbledOutput
from backup_jobs import paths as job_paths
from backup_jobs.restore import endings
from backup_jobs.restore.existing_files import UnknownFiles
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.survey import Survey, Surveyor
from backup_protocol import JobKind, write
from backup_protocol.frames import (
    DATA,
    END,
    HERE,
    LARGEST_MESSAGE,
    MOST_MESSAGE_VALUES,
    SURVEY,
    ReceiveEnd,
    ReceiveSurvey,
    frame,
)
from holdfast.agents import errors as agent_errors
from holdfast.agents import store as agents
from holdfast.agents.credentials import KnownAgent
from holdfast.agents.jobs import own
from holdfast.api.parts import Part
from holdfast.downloads.engine_output import ClientGone, EngineOutput, IncompleteOutput
from holdfast.downloads.opening import Opened
from holdfast.errors import Conflict, HoldfastError, NotFound
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories import archived_paths
from holdfast.repositories import store as repositories
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.restore.schemas import RestoreParams
from holdfast.runner.inline import InlineCalls
from holdfast.storage.session import Database

MEDIA_TYPE = "application/octet-stream"
LOOK_SECONDS = 2.0
HERE_SECONDS = 10.0
MOST_WARNINGS = 1000
LISTED_CHARACTERS = 60
"""Estimated size of a listed item besides its path."""
MOST_LISTED_CHARACTERS = 1 << 20
LONGEST_WARNING = 2000


class RestoreStreams:
    """The open streams to agents, one per job: a repeated request replaces the earlier stream."""

    def __init__(self, database: Database, inline: InlineCalls, opener: Opener) -> None:
        self.database = database
        self.inline = inline
        self.opener = opener
        self._guard = threading.Lock()
        self._current: dict[int, threading.Event] = {}

    def open(self, agent: KnownAgent, job_id: int, gone: threading.Event) -> Opened:
        """Open the stream of a job. Raise NotFound if it is not for this agent, Conflict if it is not running."""
        operation, repository = self.job(agent, job_id)
        with self._guard:
            before = self._current.get(job_id)
            self._current[job_id] = gone
        if before is not None:
            before.set()
        frames = _RestoreStream(self, agent, operation, repository, gone).frames()

        def close() -> None:
            frames.close()
            with self._guard:
                if self._current.get(job_id) is gone:
                    del self._current[job_id]

        return Opened(f"restore-{job_id}", MEDIA_TYPE, None, frames, close)

    def job(self, agent: KnownAgent, job_id: int) -> tuple[Operation, Repository]:
        with self.database.reading() as session:
            agents.require_admitted(session, agent.id)
            operation = own(session, agent, job_id)
            repository = repositories.get(session, operation.repository_id or 0)
        if operation.job_kind != JobKind.RESTORE_RECEIVE:
            raise agent_errors.unknown_job(job_id)
        if operation.status != Status.RUNNING:
            raise Conflict(
                "agents.not_running", "The job is not running. Claim it first.", job_id=job_id, status=operation.status
            )
        if repository is None:
            raise NotFound("repository.not_found", "The repository is no longer registered.")
        return operation, repository


RESTORE_STREAMS = Part[RestoreStreams]("restore_streams")


class _RestoreStream:
    def __init__(
        self,
        all_of: RestoreStreams,
        agent: KnownAgent,
        operation: Operation,
        repository: Repository,
        gone: threading.Event,
    ) -> None:
        self._all_of = all_of
        self._agent = agent
        self._operation = operation
        self._repository = repository
        self._gone = gone
        self._params = RestoreParams.model_validate(operation.params)
        roots = archived_paths.outermost(archived_paths.inside_archive(self._params.paths))
        self._placement = Placement(tuple(roots), self._params.restore_layout == "contents_only")
        self._looked = self._last_sign = time.monotonic()

    def frames(self) -> Generator[bytes]:
        """Yield all frames. Raise ClientGone once the agent is gone, or the job no longer belongs to it."""
        try:
            yield from self._frames()
        except (HoldfastError, InvalidRequest, GarbledOutput) as error:
            message = error.message if isinstance(error, HoldfastError) else str(error)
            yield _end(ReceiveEnd("failed", error.key, message))

    def _frames(self) -> Iterator[bytes]:
        surveyor, listed = Surveyor(self._placement, UnknownFiles()), _Listed()
        with closing(self._source(self._list_command())) as source:
            try:
                for item in read_listing(source.blocks()):
                    surveyor.add(item)
                    listed.add(item)
                    yield from self._still_here()
            except IncompleteOutput:
                yield _end(_end_message(source.outcome()))
                return
        surveyed = surveyor.finished()
        if fault := endings.fault(surveyed):
            yield _end(ReceiveEnd("failed", *fault))
            return
        yield frame(SURVEY, _survey(surveyed, listed.items))
        if self._params.dry_run:
            yield _end(ReceiveEnd("completed"))
            return
        with closing(self._source(self._export_command(surveyed))) as source:
            while block := source.read():
                self._require_running()
                yield frame(DATA, block)
            yield _end(_end_message(source.outcome()))

    def _source(self, command: Command) -> EngineOutput:
        return EngineOutput(self._all_of.inline, self._repository, command, self._gone, job_id=self._operation.id)

    def _still_here(self) -> Iterator[bytes]:
        self._require_running()
        if time.monotonic() - self._last_sign > HERE_SECONDS:
            self._last_sign = time.monotonic()
            yield frame(HERE, b"")

    def _require_running(self) -> None:
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        try:
            self._all_of.job(self._agent, self._operation.id)
        except HoldfastError as error:
            raise ClientGone from error

    def _list_command(self) -> Command:
        engine, location = self._opened()
        request = ListFilesRequest(
            self._address(engine),
            paths=self._wanted(),
            exact=True,
            excluded_trees=self._params.excluded_trees,
        )
        return narrowed(engine.list_files(location, request), request.paths)

    def _export_command(self, surveyed: Survey) -> Command:
        engine, location = self._opened()
        excluded = tuple(job_paths.for_engine(path) for path in surveyed.links_in_the_way)
        request = ExportTarRequest(
            self._address(engine),
            self._wanted(),
            excluded_paths=excluded,
            excluded_trees=self._params.excluded_trees,
        )
        return narrowed(engine.export_tar(location, request), request.paths)

    def _opened(self) -> tuple[Engine, RepositoryLocation]:
        opener = self._all_of.opener
        return opener.engine(self._repository), opener.location(self._repository)

    def _address(self, engine: Engine) -> str:
        return engine.address(self._params.archive, self._params.engine_id)

    def _wanted(self) -> tuple[str, ...]:
        return tuple(job_paths.for_engine(path) for path in self._placement.roots)


class _Listed:
    """All items of the listing, or none if there are too many for one message."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._characters = 0

    def add(self, item: ListedFile) -> None:
        if self._characters > MOST_LISTED_CHARACTERS:
            return
        shown = job_paths.shown(item.path)
        self._characters += sum(map(len, shown.values())) + LISTED_CHARACTERS
        hard_link = {"hard_link": True} if item.is_hard_link else {}
        self.items.append({**shown, "type": item.type, "size": item.size, **hard_link})
        if self._characters > MOST_LISTED_CHARACTERS:
            self.items.clear()


def _survey_message(surveyed: Survey, listed: list[dict[str, Any]]) -> ReceiveSurvey:
    links = tuple(job_paths.shown(path) for path in surveyed.links_in_the_way)
    return ReceiveSurvey(surveyed.files, surveyed.size, surveyed.special, links, tuple(listed))


def _survey(surveyed: Survey, listed: list[dict[str, Any]]) -> bytes:
    """Return the survey for the agent, without the items if the message would be larger than the agent reads."""
    whole = _json(_survey_message(surveyed, listed))
    fits = len(whole) <= LARGEST_MESSAGE and bounded_json.fits(whole, MOST_MESSAGE_VALUES)
    return whole if fits else _json(_survey_message(surveyed, []))


def _end_message(outcome: Outcome) -> ReceiveEnd:
    warnings = tuple(
        {"path": warning.path, "message": warning.message[:LONGEST_WARNING]}
        for warning in outcome.warnings[:MOST_WARNINGS]
    )
    return ReceiveEnd(outcome.status, outcome.error_key, outcome.message, warnings)


def _end(end: ReceiveEnd) -> bytes:
    return frame(END, _json(end))


def _json(message: ReceiveSurvey | ReceiveEnd) -> bytes:
    return json.dumps(write(message)).encode()
