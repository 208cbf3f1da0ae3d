"""Reading archives into an index: by metadata chunks where that is proven, else by the engine's listing."""

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
from holdfast.archives.called_chunks import CalledChunks, ChunkCalls, tried
from holdfast.archives.engine_refused import EngineRefused
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
    """Reads one archive after the other of one repository; the helper of the chunk route is opened once for all."""

    work: RepositoryWork
    index: HistoryIndex
    excludes: Excludes
    chunks: EngineChunks | CalledChunks | None
    reason: str
    spent: list[Path] = field(default_factory=list)

    def read(self, archive: Archive, base: str | None) -> IngestResult:
        """Index one archive; nothing of it is visible unless all of it is.

        Raise ListingFailed if the archive cannot be read, ArchiveTooLarge, ArchiveGone, EngineRefused, Cancelled, or
        what the index raises.
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
        """Remove listings whose archives are indexed, and are known to be: until then a restart may want them again."""
        while self.spent:
            self.spent.pop().unlink(missing_ok=True)

    def _stop_if_cancelled(self, _records: int) -> None:
        if self.work.context.is_cancelled():
            raise Cancelled


OF_ONE_ARCHIVE = frozenset({FAILED, DAMAGED})
"""Failures that may be those of one archive alone."""


def _refuse(outcome: EngineOutcome) -> None:
    """Raise what an engine's listing that did not succeed stands for."""
    if outcome.status in SUCCEEDED:
        return
    if outcome.status == "cancelled":
        raise Cancelled
    if outcome.reason == ARCHIVE_MISSING:
        raise ArchiveGone(outcome.message or "the archive is gone")
    if outcome.error_key in OF_ONE_ARCHIVE:
        raise ListingFailed(outcome.message or "the engine failed")
    raise EngineRefused(outcome)


@contextlib.contextmanager
def reader(work: RepositoryWork, index: HistoryIndex, chooser: RouteChooser) -> Iterator[Reader]:
    """Open a repository for reading its archives."""
    found = Reader(work, index, Excludes(work.repository.history_index_excludes), None, "")
    with contextlib.ExitStack() as stack:
        try:
            found.chunks, found.reason = _opened(work, chooser, stack, found.spent)
        except ChunkRouteFailed as failure:
            found.reason = f"the chunk route failed: {failure}"
        yield found


def _opened(
    work: RepositoryWork, chooser: RouteChooser, stack: contextlib.ExitStack, spent: list[Path]
) -> tuple[EngineChunks | CalledChunks | None, str]:
    """The reader of chunks, None where archives are read by the listing; and why.

    Raise ChunkRouteFailed, EngineRefused.
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
    """A helper on the machine where the engine runs, None where it may not be used; and why. `make_sure` is called
    before it opens a repository from here. Raise ChunkRouteFailed, EngineRefused.
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
) -> tuple[CalledChunks | None, str]:
    """The same by calls of the agent that opens the repository."""
    if not getattr(work.engine, "reads_chunks", False):
        return None, "the agent is too old to read chunks"
    program, calls = work.engine.program, cast("ChunkCalls", work.engine)
    major = major_of(program.version)
    test = tried(work, calls, major, spent)
    decision = chooser.choose_called(f"{agent.agent_machine_id} {program.path}", program.version, test)
    if decision.route is not Route.CHUNKS:
        return None, decision.reason
    return CalledChunks(work, calls, major, spent), decision.reason


def _opened_there(
    work: RepositoryWork,
    machine: Machine,
    chooser: RouteChooser,
    stack: contextlib.ExitStack,
    helper: Callable[..., C],
) -> tuple[C | None, str]:
    """The same on the ssh machine that runs the engine."""
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
    """The reader of chunks is no run of the engine, so nothing else compares the repository's id.

    Raise EngineRefused.
    """
    guard = work.engine.list_archives(work.location, ListArchivesRequest(last=1)).guard
    if guard is None or guard.engine_id is None:
        return
    if guard.path is None:
        command = work.engine.list_archives(work.location, ListArchivesRequest(last=1))
        _refuse(work.context.step("identity", command, quiet=True).outcome)
    elif repository_guard.id_in_folder(guard.path) not in (None, guard.engine_id):
        raise _replaced()


def _replaced() -> EngineRefused:
    return EngineRefused(EngineOutcome("failed", REPLACED, SENTENCES[REPLACED], reason=REPLACED))


@contextlib.contextmanager
def inherited_secrets(command: Command) -> Iterator[tuple[dict[str, str], list[int]]]:
    """The command's environment, with a pipe for each secret that is read from a descriptor."""
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
    """The engine's listing of an archive, in a form that `listing_of` reads."""
    wanted = ListFilesRequest(engine.address(archive.name, archive.engine_id), complete=True)
    return engine.list_files(location, wanted)
