"""Read archives into an index: by metadata chunks if the self-test has passed, otherwise by the engine's listing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from backup_engine import repository_guard
from backup_engine.causes import ARCHIVE_MISSING, DAMAGED, FAILED, REPLACED, SENTENCES
from backup_engine.command import CalledAgent, Command, Machine
from backup_engine.interface import Engine
from backup_engine.outcome import Outcome as EngineOutcome
from backup_engine.requests import ListArchivesRequest, ListFilesRequest, RepositoryLocation
from backup_jobs.host import SUCCEEDED, Cancelled
from holdfast.archives.agent_chunks import AgentChunks, ChunkCalls, self_test_on_agent
from holdfast.archives.repository_not_opened import RepositoryNotOpened
from holdfast.history.chunks.far import FarEngine
from holdfast.history.chunks.metadata_chunks import EngineChunks
from holdfast.history.chunks.route import Route, RouteChooser, major_of
from holdfast.history.errors import ArchiveGone, ChunkRouteFailed, ListingFailed, ProgramChanged
from holdfast.history.excludes import Excludes
from holdfast.history.json_listing import listing_of
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.work import RepositoryWork

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex
    from holdfast.history.ingest import IngestResult

C = TypeVar("C", bound=EngineChunks)


@dataclass(slots=True)
class Reader:
    """Reads the archives of a repository one after another. The helper of the chunk route is opened once for all of
    them.
    """

    work: RepositoryWork
    index: HistoryIndex
    excludes: Excludes
    chunks: EngineChunks | AgentChunks | None
    reason: str
    spent: list[Path] = field(default_factory=list)

    def read(self, archive: Archive, base: str | None) -> IngestResult:
        """Index one archive; it becomes visible only when it is complete.

        Raise ListingFailed if the archive cannot be read, ArchiveTooLarge, ArchiveGone, RepositoryNotOpened, Cancelled,
        or any exception of the index.
        """
        if self.chunks is not None:
            try:
                return self.index.ingest_chunks(
                    archive.engine_id,
                    self.chunks,
                    series=archive.series,
                    base=base,
                    excludes=self.excludes,
                    progress=self._stop_if_cancelled,
                )
            except ArchiveGone:
                raise
            except ChunkRouteFailed as failure:
                self.reason = f"the chunk route failed: {failure}"
                if not self.chunks.is_usable:
                    self.chunks = None
        return self._read_listing(archive, base)

    def _read_listing(self, archive: Archive, base: str | None) -> IngestResult:
        command = listing_command(self.work.engine, self.work.location, archive)
        step = self.work.context.step(f"list-{archive.id}", command, quiet=True)
        self.spent.append(step.stdout)
        _refuse(step.outcome)
        with step.stdout.open("rb") as output:
            return self.index.ingest_listing(
                archive.engine_id,
                listing_of(output),
                base=base,
                excludes=self.excludes,
                progress=self._stop_if_cancelled,
            )

    def free(self) -> None:
        """Remove listings whose archives are recorded as indexed; until then, a restart may need the listings again."""
        while self.spent:
            self.spent.pop().unlink(missing_ok=True)

    def _stop_if_cancelled(self, _records: int) -> None:
        if self.work.context.is_cancelled():
            raise Cancelled


OF_ONE_ARCHIVE = frozenset({FAILED, DAMAGED})
"""Failures that may concern one archive only."""


def _refuse(outcome: EngineOutcome) -> None:
    """Raise the exception that corresponds to an unsuccessful listing."""
    if outcome.status in SUCCEEDED:
        return
    if outcome.status == "cancelled":
        raise Cancelled
    if outcome.reason == ARCHIVE_MISSING:
        raise ArchiveGone(outcome.message or "the archive is gone")
    if outcome.error_key in OF_ONE_ARCHIVE:
        raise ListingFailed(outcome.message or "the engine failed")
    raise RepositoryNotOpened(outcome)


@contextlib.contextmanager
def reader(work: RepositoryWork, index: HistoryIndex, chooser: RouteChooser) -> Iterator[Reader]:
    """Open a repository to read its archives."""
    found = Reader(work, index, Excludes(work.repository.history_index_excludes), None, "")
    with contextlib.ExitStack() as stack:
        try:
            found.chunks, found.reason = _opened(work, chooser, stack, found.spent)
        except ChunkRouteFailed as failure:
            found.reason = f"the chunk route failed: {failure}"
        yield found


def _opened(
    work: RepositoryWork, chooser: RouteChooser, stack: contextlib.ExitStack, spent: list[Path]
) -> tuple[EngineChunks | AgentChunks | None, str]:
    """Return the reader of chunks and the reason for the choice; None if archives are read by the listing.

    Raise ChunkRouteFailed, RepositoryNotOpened.
    """
    program, path = work.engine.program, work.location.path
    major = major_of(program.version)
    if major != 1 and not path.startswith("/"):
        return None, "the repository is not on the engine's machine"
    if isinstance(work.location.machine, CalledAgent):
        return _called(work, work.location.machine, chooser, spent)
    return open_helper(work, chooser, stack, EngineChunks, make_sure=partial(_make_sure, work))


def open_helper(
    work: RepositoryWork,
    chooser: RouteChooser,
    stack: contextlib.ExitStack,
    helper: Callable[..., C],
    *,
    make_sure: Callable[[], object],
) -> tuple[C | None, str]:
    """Return a helper on the machine where the engine runs, and the reason for the choice; None if it may not be used.

    `make_sure` is called before a helper on this machine opens a repository. Raise ChunkRouteFailed,
    RepositoryNotOpened.
    """
    program, path = work.engine.program, work.location.path
    if isinstance(work.location.machine, Machine):
        return _opened_there(work, work.location.machine, chooser, stack, helper)
    decision = chooser.choose(Path(program.path), program.version)
    if decision.route is not Route.CHUNKS:
        return None, decision.reason
    make_sure()
    command = work.engine.list_archives(work.location, ListArchivesRequest())
    environment, descriptors = stack.enter_context(inherited_secrets(command))
    major = major_of(program.version)
    opened = helper(Path(program.path), path, environment=environment, pass_fds=descriptors, major=major)
    stack.enter_context(opened)
    return opened, decision.reason


def _called(
    work: RepositoryWork, agent: CalledAgent, chooser: RouteChooser, spent: list[Path]
) -> tuple[AgentChunks | None, str]:
    """Like `open_helper`, by calls of the agent that opens the repository."""
    if not getattr(work.engine, "reads_chunks", False):
        return None, "the agent is too old to read chunks"
    program, calls = work.engine.program, cast("ChunkCalls", work.engine)
    major = major_of(program.version)
    test = self_test_on_agent(work, calls, major, spent)
    decision = chooser.choose_called(f"{agent.agent_machine_id} {program.path}", program.version, test)
    if decision.route is not Route.CHUNKS:
        return None, decision.reason
    return AgentChunks(work, calls, major, spent), decision.reason


def _opened_there(
    work: RepositoryWork,
    machine: Machine,
    chooser: RouteChooser,
    stack: contextlib.ExitStack,
    helper: Callable[..., C],
) -> tuple[C | None, str]:
    """Like `open_helper`, on the ssh machine that runs the engine."""
    if machine.python is None:
        return None, "the engine's machine has no Python 3.9 or newer"
    program = work.engine.program
    far = FarEngine(machine.ssh, machine.python, program.path)
    command = work.engine.list_archives(work.location, ListArchivesRequest())
    for is_last in (False, True):
        decision = chooser.choose_there(far, program.version)
        if decision.route is not Route.CHUNKS:
            return None, decision.reason
        opened = helper(
            Path(program.path),
            work.location.path,
            environment=command.environment,
            secrets=command.secrets,
            major=major_of(program.version),
            far=replace(far, tested=decision.tested),
        )
        try:
            stack.enter_context(opened)
        except ProgramChanged:
            chooser.forget_there(far)
            if is_last:
                raise
            continue
        if work.location.engine_id not in (None, opened.repository_id):
            raise _replaced()
        return opened, decision.reason
    raise AssertionError


def _make_sure(work: RepositoryWork) -> None:
    """Compare the repository's id: no engine runs for the reader of chunks, so nothing else does.

    Raise RepositoryNotOpened.
    """
    guard = work.engine.list_archives(work.location, ListArchivesRequest(last=1)).guard
    if guard is None or guard.engine_id is None:
        return
    if guard.path is None:
        command = work.engine.list_archives(work.location, ListArchivesRequest(last=1))
        _refuse(work.context.step("identity", command, quiet=True).outcome)
    elif repository_guard.id_in_folder(guard.path) not in (None, guard.engine_id):
        raise _replaced()


def _replaced() -> RepositoryNotOpened:
    return RepositoryNotOpened(EngineOutcome("failed", REPLACED, SENTENCES[REPLACED], reason=REPLACED))


@contextlib.contextmanager
def inherited_secrets(command: Command) -> Iterator[tuple[dict[str, str], list[int]]]:
    """Yield the command's environment, with a pipe for each secret read from a descriptor, and the descriptors."""
    environment = dict(command.environment)
    descriptors: list[int] = []
    try:
        for name, secret in command.secrets.items():
            if secret.delivery == "environment":
                environment[name] = secret.value
                continue
            reading, writing = os.pipe()
            descriptors.append(reading)
            os.write(writing, secret.value.encode("utf-8", "surrogateescape"))
            os.close(writing)
            environment[name] = str(reading)
        yield environment, descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def listing_command(engine: Engine, location: RepositoryLocation, archive: Archive) -> Command:
    """Return the command that lists an archive in the format that `listing_of` reads."""
    wanted = ListFilesRequest(engine.address(archive.name, archive.engine_id), complete=True)
    return engine.list_files(location, wanted)
