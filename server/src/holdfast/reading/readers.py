"""Warm readers, one for each repository that is being read.

For a repository on this machine, or on an ssh machine that runs its engine, the reader is a process on that machine
that returns chunks of files without a lock. For a repository on a server, it is a process on this machine that holds a
lock for some seconds (`LockedReader`).

The first read starts a reader. It ends when it has been idle for some minutes, when its repository or its ssh
connection is changed or forgotten, or when another repository needs its slot. The engine does what a reader cannot do.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.command import CalledAgent, Command, Machine
from backup_engine.detect import EngineProgram
from backup_engine.requests import ListArchivesRequest
from holdfast.api.parts import Part
from holdfast.archives.archive_reader import inherited_secrets
from holdfast.downloads.engine_output import ClientGone
from holdfast.errors import HoldfastError
from holdfast.history.chunks.far import FarEngine
from holdfast.history.chunks.file_chunks import FileChunks
from holdfast.history.chunks.file_chunks import Part as ChunkPart
from holdfast.history.chunks.route import Route, RouteChooser, RouteDecision
from holdfast.history.errors import ContentMoved, GaveWay, HistoryError, ProgramChanged
from holdfast.kit.supervisor import Supervisor
from holdfast.machines.models import SshConnection
from holdfast.operations.lanes import MAY_START, Verdict
from holdfast.operations.queue import lane_of
from holdfast.reading.locked_reader import LockedReader
from holdfast.reading.shared_turn import SharedTurn
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.runner.inline import InlineCalls, busy
from holdfast.runner.lane_ticket import TICKET, LaneNotFree, LaneTicket
from holdfast.storage.session import Database

AnyReader = FileChunks | LockedReader

log = structlog.get_logger("holdfast.reading")

MOST = 4
IDLE_SECONDS = 300.0
TIDY_SECONDS = 15.0
OPENING_SECONDS = 90.0
MOVED_SECONDS = 30.0
"""How long to look for a chunk that a compaction moves: until the engine has written its new index."""
LOOK_SECONDS = 0.1
LANE_SECONDS = 0.5
"""Pause between two attempts to get a lane that is taken: each attempt writes to the store."""
UNREACHED_SECONDS = 60.0
"""How long no reader is tried on a machine where the last one did not start; meanwhile requests go to its engine."""
RESUME_SECONDS = 60.0
"""How long a download that has begun waits for a repository on a server whose reader had to give way."""
ON_SERVER = "ssh://"

Place = tuple[object, ...]


class NotReadable(Exception):
    """The content cannot be read by chunks, or not at present; the engine has to read it."""


class ReadersBusy(NotReadable):
    """Requests for other repositories use all readers."""


class LaneTaken(NotReadable):
    """Other work holds the repository's lane, or waits for it."""

    def __init__(self, reason: str, verdict: Verdict = MAY_START) -> None:
        super().__init__(reason)
        self.verdict = verdict


@dataclass(slots=True, eq=False)
class _Slot:
    """The slot for one reader; the first user starts the reader."""

    place: Place
    config: Place
    link: Place = ()
    """The ssh connection as it was when the reader was started."""
    guard: threading.Lock = field(default_factory=threading.Lock)
    reader: AnyReader | None = None
    users: int = 0
    used_at: float = field(default_factory=time.monotonic)

    def end(self) -> None:
        reader = self.reader
        if reader is not None:
            reader.end()


class Readers:
    """Safe for use from many threads."""

    def __init__(
        self,
        opener: Opener,
        chooser: RouteChooser,
        database: Database,
        supervisor: Supervisor,
        inline: InlineCalls,
    ) -> None:
        self._opener, self._chooser, self._inline = opener, chooser, inline
        self._database, self._supervisor = database, supervisor
        self._guard = threading.Lock()
        self._slots: dict[str, _Slot] = {}
        self._turns: weakref.WeakValueDictionary[str, SharedTurn] = weakref.WeakValueDictionary()
        self._being_tested: set[tuple[str, str]] = set()
        self._unreached: dict[str, float] = {}

    @staticmethod
    def can_serve(repository: Repository) -> bool:
        """Return whether readers can be used for the repository, judging by its record."""
        is_reached = repository.execution_target in ("local", "ssh") and repository.path.startswith("/")
        has_reader = is_reached or is_on_server(repository)
        return has_reader and repository.rclone_remote_id is None and repository.engine_version in (1, 2)

    def read(
        self, repository: Repository, parts: Sequence[ChunkPart], gone: threading.Event, *, has_begun: bool = False
    ) -> bytes:
        """Return the bytes of these parts. Raise NotReadable or ClientGone.

        `has_begun`: earlier parts were already sent, so nothing else can take over, and this thread waits for the
        repository. Otherwise a request with a ticket waits without a thread: raise LaneNotFree, or Locked when its time
        is up.
        """
        ticket = TICKET.get()
        if has_begun or ticket is None or ticket.is_used:
            own = LaneTicket(RESUME_SECONDS if has_begun else 0.0)
            try:
                return self._read(repository, parts, gone, own, has_begun=has_begun)
            finally:
                if own.leave is not None:
                    own.leave()
        try:
            return self._read(repository, parts, gone, ticket, has_begun=False)
        except LaneTaken as taken:
            if ticket.operation_id is not None:
                ticket.withdraw()  # the place is the engine's: others would queue behind it, and nobody would use it
            if ticket.seconds_left <= 0:
                raise busy(taken.verdict) from taken
            raise LaneNotFree(taken.verdict) from taken

    def _read(
        self,
        repository: Repository,
        parts: Sequence[ChunkPart],
        gone: threading.Event,
        ticket: LaneTicket,
        *,
        has_begun: bool,
    ) -> bytes:
        started = time.monotonic()
        deadline = started + MOVED_SECONDS
        has_failed = False
        while True:
            try:
                with self._lent(repository, ticket) as reader:
                    return reader.read(parts)
            except LaneTaken:
                if not has_begun or ticket.seconds_left <= 0:
                    raise
                if gone.wait(LANE_SECONDS) or self._supervisor.stopping.is_set():
                    raise ClientGone from None
            except ReadersBusy:
                if not has_begun or ticket.seconds_left <= 0:
                    raise
                if gone.wait(LOOK_SECONDS) or self._supervisor.stopping.is_set():
                    raise ClientGone from None
            except GaveWay as gave_way:
                if time.monotonic() > started + RESUME_SECONDS:
                    raise NotReadable(str(gave_way)) from gave_way
            except ContentMoved as moved:
                if time.monotonic() > deadline:
                    raise NotReadable(str(moved)) from moved
                if gone.wait(LOOK_SECONDS) or self._supervisor.stopping.is_set():
                    raise ClientGone from moved
            except HistoryError as error:
                # A reader that has ended is started again. A fault in a chunk would only recur.
                if has_failed or reader.is_usable:
                    raise NotReadable(str(error)) from error
                has_failed = True

    def tidy(self) -> None:
        """End readers that have been idle for a while, or whose repository has changed since they were started."""
        with self._guard:
            known = {uuid: (slot.place, slot.link) for uuid, slot in self._slots.items()}
        if not known:
            return
        with self._database.reading() as session:
            rows = session.scalars(select(Repository).where(Repository.uuid.in_(known))).all()
            places = {row.uuid: (_place(row), _link(session, row)) for row in rows}
        for uuid, place in known.items():
            if places.get(uuid) != place:
                self.end(uuid)
        with self._guard:
            late = time.monotonic() - IDLE_SECONDS
            self._unreached = {uuid: until for uuid, until in self._unreached.items() if until > time.monotonic()}
            idle = [uuid for uuid, slot in self._slots.items() if not slot.users and slot.used_at < late]
            ended = [self._slots.pop(uuid) for uuid in idle]
        for slot in ended:
            slot.end()

    def end(self, repository_uuid: str) -> None:
        with self._guard:
            slot = self._slots.pop(repository_uuid, None)
        if slot is not None:
            slot.end()

    def end_those_of(self, connection_id: int) -> None:
        """End the readers that use an ssh connection, because it has changed."""
        with self._guard:
            found = [uuid for uuid, slot in self._slots.items() if slot.link[:1] == (connection_id,)]
            ended = [self._slots.pop(uuid) for uuid in found]
        for slot in ended:
            slot.end()

    def close(self) -> None:
        with self._guard:
            slots, self._slots = list(self._slots.values()), {}
        for slot in slots:
            slot.end()
        for slot in slots:
            if isinstance(slot.reader, LockedReader):
                slot.reader.wait_until_left()

    # --- lending ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _lent(self, repository: Repository, ticket: LaneTicket) -> Iterator[AnyReader]:
        slot = self._slot(repository)
        try:
            yield self._reader(slot, repository, ticket)
        finally:
            with self._guard:
                slot.users -= 1
                slot.used_at = time.monotonic()
                # A slot without a reader is kept for those who wait for their turn to start one.
                is_lost = not slot.users if slot.reader is None else not slot.reader.is_usable
                if self._slots.get(repository.uuid) is not slot:  # ended by another thread, maybe before it was opened
                    is_lost = True
                elif is_lost:
                    del self._slots[repository.uuid]
            if is_lost:
                slot.end()

    def _slot(self, repository: Repository) -> _Slot:
        """Return the slot for the repository as it is now, counted as in use. Raise NotReadable if no slot is free."""
        place, config = _place(repository), _config(repository)
        ended: list[_Slot] = []
        try:
            with self._guard:
                slot = self._slots.get(repository.uuid)
                if slot is not None and (slot.place, slot.config) != (place, config):
                    ended.append(self._slots.pop(repository.uuid))
                    slot = None
                if slot is None:
                    if len(self._slots) >= MOST:
                        ended.append(self._slots.pop(self._longest_idle()))
                    slot = self._slots[repository.uuid] = _Slot(place, config, (repository.ssh_connection_id,))
                slot.users += 1
                return slot
        finally:
            for one in ended:
                one.end()

    def _longest_idle(self) -> str:
        idle = [(slot.used_at, uuid) for uuid, slot in self._slots.items() if not slot.users]
        if not idle:
            raise ReadersBusy("all readers are busy")
        return min(idle)[1]

    def _reader(self, slot: _Slot, repository: Repository, ticket: LaneTicket) -> AnyReader:
        if not slot.guard.acquire(timeout=OPENING_SECONDS):
            raise NotReadable("the reader does not come up")
        try:
            if slot.reader is None:
                try:
                    if repository.ssh_connection_id is not None:
                        with self._database.reading() as session:
                            slot.link = _link(session, repository)
                    slot.reader = self._opened(repository, ticket)
                except (GaveWay, LaneTaken):
                    raise
                except (HoldfastError, HistoryError) as error:
                    log.info("a repository cannot be read by chunks", repository=repository.id, reason=str(error))
                    raise NotReadable(str(error)) from error
            return slot.reader
        finally:
            slot.guard.release()

    def _opened(self, repository: Repository, ticket: LaneTicket) -> AnyReader:
        if self._unreached.get(repository.uuid, 0.0) > time.monotonic():
            raise NotReadable("the machine's reader did not come up a moment ago")
        engine, location = self._opener.engine(repository), self._opener.location(repository)
        if isinstance(location.machine, CalledAgent) or location.rclone is not None:
            raise NotReadable("the repository is elsewhere")
        command = engine.list_archives(location, ListArchivesRequest(last=1))
        reader: AnyReader
        try:
            if location.machine is not None:
                reader = self._opened_there(engine.program, location.path, command, location.machine)
            elif is_on_server(repository):
                reader = self._held(repository, engine.program, location.path, command, ticket)
            else:
                reader = self._opened_here(engine.program, location.path, command)
        except GaveWay:
            raise
        except HistoryError:
            if repository.ssh_connection_id is not None:
                self._unreached[repository.uuid] = time.monotonic() + UNREACHED_SECONDS
            raise
        if repository.engine_id not in (None, reader.repository_id):
            reader.end()
            raise NotReadable("another repository is in its place")
        return reader

    def _opened_here(self, program: EngineProgram, path: str, command: Command) -> FileChunks:
        place = self._tested_here(program)
        with inherited_secrets(command) as (environment, descriptors):
            opening = FileChunks(place, path, environment=environment, pass_fds=descriptors, major=program.major)
            return opening.__enter__()

    def _held(
        self, repository: Repository, program: EngineProgram, path: str, command: Command, ticket: LaneTicket
    ) -> LockedReader:
        place, turn = self._tested_here(program), self._turn(repository)
        with inherited_secrets(command) as (environment, descriptors):
            files = FileChunks(place, path, environment=environment, pass_fds=descriptors, major=program.major)
            try:
                return LockedReader(files, turn, self._database.work, self._supervisor).open(ticket)
            except LaneNotFree as taken:
                raise LaneTaken(str(taken), taken.verdict) from taken

    def _turn(self, repository: Repository) -> SharedTurn:
        with self._guard:
            turn = self._turns.get(repository.uuid)
            if turn is None:
                turn = self._turns[repository.uuid] = SharedTurn(self._inline, lane_of(repository.id))
            return turn

    def _tested_here(self, program: EngineProgram) -> Path:
        """Return the path of the engine's program on this machine. Raise NotReadable unless it has passed the
        self-test.
        """
        place = Path(program.path)
        decision = self._chooser.known(place, program.version)
        self._require_tested(program, decision, partial(self._chooser.choose, place, program.version), "")
        return place

    def _opened_there(self, program: EngineProgram, path: str, command: Command, machine: Machine) -> FileChunks:
        if machine.python is None:
            raise NotReadable("the engine's machine has no Python 3.9 or newer")
        far = FarEngine(machine.ssh, machine.python, program.path)
        decision = self._chooser.known_there(far, program.version)
        test = partial(self._chooser.choose_there, far, program.version)
        tested = self._require_tested(program, decision, test, far.key).tested
        opening = FileChunks(
            Path(program.path),
            path,
            environment=command.environment,
            secrets=command.secrets,
            major=program.major,
            far=replace(far, tested=tested),
        )
        try:
            return opening.__enter__()
        except ProgramChanged as changed:
            self._chooser.forget_there(far)
            raise NotReadable(str(changed)) from changed

    def _require_tested(
        self, program: EngineProgram, decision: RouteDecision | None, test: Callable[[], object], where: str
    ) -> RouteDecision:
        """Return the decision if the program has passed the self-test; else raise NotReadable.

        A program that was never tested is tested in the background.
        """
        if decision is not None and decision.route is Route.CHUNKS:
            return decision
        key = where or program.path, program.version
        with self._guard:
            is_new = decision is None and key not in self._being_tested
            if is_new:
                self._being_tested.add(key)
        if is_new:
            self._supervisor.run_until_done("self-test", partial(self._test, key, test))
        raise NotReadable(decision.reason if decision is not None else f"engine {program.version} is being tested")

    def _test(self, key: tuple[str, str], test: Callable[[], object]) -> None:
        try:
            test()
        finally:
            with self._guard:
                self._being_tested.discard(key)


FILE_READERS = Part[Readers]("file_readers")


def _place(repository: Repository) -> Place:
    """Return what a reader was started with: if any of it changes, another reader is needed."""
    return (
        repository.path,
        repository.engine_id,
        repository.passphrase,
        repository.keyfile,
        repository.execution_target,
        repository.engine_version,
        repository.rclone_remote_id,
        repository.ssh_connection_id,
    )


def _link(session: Session, repository: Repository) -> Place:
    """Return what an ssh link was made with: if any of it changes, another reader is needed."""
    number = repository.ssh_connection_id
    found = session.get(SshConnection, number) if number is not None else None
    if found is None:
        return (number,)
    return number, found.username, found.host, found.port, found.key_id, found.host_key, found.engine_path


def is_on_server(repository: Repository) -> bool:
    """Return whether the engine on this machine reads a repository through a server's `borg serve` (engine 1 only)."""
    is_here = repository.execution_target == "local" and repository.engine_version == 1
    return is_here and repository.path.startswith(ON_SERVER)


def _config(repository: Repository) -> Place:
    """Return the identity of the repository at its path, without reading it; on another machine, the reader checks
    that.

    Raise NotReadable if there is nothing at the path.
    """
    if repository.execution_target != "local" or is_on_server(repository):
        return ()
    try:
        name = "config" if repository.engine_version == 1 else "config/id"
        status = os.stat(f"{repository.path}/{name}")  # noqa: PTH116 - for each chunk that is read
    except OSError as error:
        raise NotReadable(str(error)) from error
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
