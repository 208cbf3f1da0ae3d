"""Inline calls: engine calls that a request waits for, in the repository's lane like operations but limited in time."""

import secrets
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from backup_engine.command import Command
from backup_engine.process import Adopted, Child, Spool, SpoolState, remove_spools, spools_below
from backup_engine.stream_reader import engine_outcome
from backup_jobs.host import Step
from holdfast.api.parts import Part
from holdfast.errors import Locked, Unavailable, service_stops
from holdfast.kit import clock
from holdfast.kit.schema import Schema
from holdfast.kit.supervisor import Supervisor
from holdfast.operations import queue, transitions, waiting_reasons
from holdfast.operations.kinds import Kind, retry_when_interrupted
from holdfast.operations.lanes import QueuedReason, Verdict
from holdfast.operations.locks import Access
from holdfast.operations.outcome import Outcome
from holdfast.operations.queue import Subject
from holdfast.operations.status import LockMode, Status
from holdfast.runner.engine_stream import EngineStream, messages_of
from holdfast.runner.engine_turns import in_turn
from holdfast.runner.lane_ticket import LOW_PRIORITY, TICKET, LaneNotFree, LaneTicket
from holdfast.settings import Settings
from holdfast.storage.session import Database

STEP_SECONDS = 600
GRACE_SECONDS = 30
LOOK_SECONDS = 0.2


class NoParams(Schema):
    pass


def _never_run(_context: object) -> Outcome:
    return Outcome(Status.FAILED, "operations.internal", "An inline call is never run by a runner.")


INLINE = Kind(
    name="inline",
    category="system",
    run=_never_run,
    params=NoParams,
    on_interrupted=retry_when_interrupted,
    access=Access.READ,
)


class InlineCalls:
    """Holds lanes for the process that answers requests."""

    def __init__(self, settings: Settings, database: Database, runner_id: str, supervisor: Supervisor) -> None:
        self._wait_seconds = settings.inline_wait_seconds
        self._database = database
        self._runner_id = runner_id
        self._spool_root = str(settings.spool_dir.absolute())
        self._supervisor = supervisor
        self._stopping = supervisor.stopping

    @property
    def stopping(self) -> threading.Event:
        """Set when the service stops."""
        return self._stopping

    @contextmanager
    def hold(
        self,
        lane: str,
        *,
        subject: Subject | None = None,
        access: Access = Access.READ,
        wait_seconds: float | None = None,
        ticket: LaneTicket | None = None,
    ) -> Iterator["Hold"]:
        """Hold a lane. Raise Locked, with the holder's id, if it does not become free in time.

        With a ticket, given or set for the request, raise LaneNotFree instead: the request then waits without this
        thread and is called again.
        """
        ticket = TICKET.get() if ticket is None and wait_seconds is None else ticket
        seen = self._database.work.number
        operation_id, verdict = self._in_queue(ticket, lane, subject, access)
        seconds = self._wait_seconds if wait_seconds is None else wait_seconds
        try:
            self._wait_for_lane(operation_id, seconds, ticket, verdict, seen)
            yield Hold(Path(self._spool_root) / str(operation_id), self._stopping)
        except LaneNotFree:
            raise  # the ticket keeps its place in the queue
        except BaseException:
            self._end(operation_id, ticket)
            raise
        else:
            self._end(operation_id, ticket)

    def _in_queue(
        self, ticket: LaneTicket | None, lane: str, subject: Subject | None, access: Access
    ) -> tuple[int, Verdict]:
        """Return the queued operation of this request, from its ticket or newly created, and its verdict.

        A free lane is taken in the same transaction that requests it, because each commit makes all others reload their
        state.
        """
        if ticket is not None and not ticket.is_used and ticket.operation_id is not None:
            if ticket.wanted == (lane, str(access)):
                return ticket.operation_id, self._claimed(ticket.operation_id)
            self._end(ticket.operation_id, ticket)  # the request has changed since its first call
        with self._database.writing() as session:
            kind = replace(INLINE, access=access)
            is_last = ticket is not None and ticket.is_last
            operation = queue.enqueue_inline(session, kind, self._runner_id, lane, subject, is_last=is_last)
            verdict = queue.claim_one(session, operation.id, self._runner_id, self._spool_root)
        if ticket is not None and not ticket.is_used:
            ticket.operation_id, ticket.wanted = operation.id, (lane, str(access))
            ticket.withdraw = partial(self._end, operation.id, ticket)
        return operation.id, verdict

    def _claimed(self, operation_id: int) -> Verdict:
        with self._database.writing() as session:
            return queue.claim_one(session, operation_id, self._runner_id, self._spool_root)

    def _end(self, operation_id: int, ticket: LaneTicket | None) -> None:
        if ticket is not None and ticket.operation_id == operation_id:
            ticket.operation_id = None
        if not self._let_go(operation_id) and not self._stopping.is_set():  # the next start releases it instead
            self._supervisor.run_until_done(f"inline-{operation_id}", partial(self._let_go_in_time, operation_id))

    @contextmanager
    def in_lane_of(self, operation_id: int) -> Iterator["Hold"]:
        """Yield a folder for engine runs of an operation that an agent executes; it holds the lane itself."""
        folder = Path(self._spool_root) / str(operation_id) / secrets.token_hex(8)
        try:
            yield Hold(folder, self._stopping)
        finally:
            if not any(spool.settle() is SpoolState.ALIVE for spool in spools_below(folder)):
                remove_spools(folder)
                with suppress(OSError):
                    folder.parent.rmdir()  # unless another stream of the job has begun

    def is_waited_for(self, lane: str) -> bool:
        """Whether an exclusive operation waits for the lane, and for nothing else."""
        with self._database.reading() as session:
            waiting, judged = waiting_reasons.verdicts(session, clock.now(), only_lanes=[lane], everyone=True)
        return any(
            waiter.lock_mode == LockMode.EXCLUSIVE and judged[waiter.id].behind_id is not None
            for waiter in waiting
            if judged[waiter.id].reason is QueuedReason.REPOSITORY_BUSY
        )

    def is_kept_from_readers(self, lane: str) -> bool:
        """Whether an exclusive operation holds the lane or is queued for it, perhaps for later."""
        with self._database.reading() as session:
            return waiting_reasons.is_kept_from_readers(session, lane)

    def _let_go(self, operation_id: int) -> bool:
        """Free the lane. Return False if it is still held: an engine in it lives, or the store is unreachable."""
        folder = Path(self._spool_root) / str(operation_id)
        if any(spool.settle() is SpoolState.ALIVE for spool in spools_below(folder)):
            return False
        try:
            with self._database.writing() as session:
                transitions.remove_finished_inline(session, operation_id)
        except Unavailable:
            return False
        remove_spools(folder)
        return True

    def _let_go_in_time(self, operation_id: int) -> None:
        """Free the lane as soon as possible. If this process dies first, a runner releases the operation instead."""
        while not self._let_go(operation_id):
            if self._stopping.wait(LOOK_SECONDS):
                return

    def _wait_for_lane(
        self, operation_id: int, seconds: float, ticket: LaneTicket | None, verdict: Verdict, seen: int
    ) -> None:
        """Wait until the lane is held. `seen` is the number of the last change included in the verdict."""
        may_come_again = ticket is not None and not ticket.is_used
        deadline = ticket.deadline if ticket is not None and may_come_again else time.monotonic() + seconds
        while True:
            if verdict.may_start:
                if ticket is not None:
                    ticket.is_used = True
                return
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise busy(verdict)
            if self._stopping.is_set():
                raise service_stops()
            if may_come_again:
                raise LaneNotFree(verdict)
            self._database.work.wait(seen, min(1.0, remaining))
            seen = self._database.work.number
            verdict = self._claimed(operation_id)


INLINE_CALLS = Part[InlineCalls]("inline_calls")


def busy(verdict: Verdict) -> Locked:
    return Locked(
        "repository.busy",
        "The repository is in use by another operation; try again once it has finished.",
        retry_after=10,
        operation_id=verdict.behind_id,
    )


def _interrupted() -> Unavailable:
    return Unavailable("engine.interrupted", "The engine call was interrupted; try again.", retry_after=5)


def _giving_way(command: Command) -> Command:
    return replace(command, gives_way=True) if LOW_PRIORITY.get() else command


class Hold:
    """A held lane, in which engine commands may run."""

    def __init__(self, folder: Path, stopping: threading.Event) -> None:
        self.folder = folder
        self._stopping = stopping
        self._calls = 0

    def run(self, command: Command) -> Step:
        """Run one engine command to its end."""
        spool = self._next_spool()
        with in_turn(command, self._stopping):
            self._wait(spool, spool.launch(_giving_way(command)))
        exit_record = spool.exit_record()
        if exit_record is None:
            raise _interrupted()
        accumulator = messages_of(spool, command)
        outcome = engine_outcome(exit_record, accumulator, cancel_requested=False)
        if outcome.status == "interrupted":
            raise _interrupted()
        return Step(exit_record, outcome, accumulator, spool.out, spool.err)

    @contextmanager
    def stream(self, command: Command) -> Iterator[EngineStream]:
        """Run one engine command and read its output as it arrives. The engine is stopped when the reader leaves."""
        stream = EngineStream(self._next_spool(), _giving_way(command))
        try:
            yield stream
        finally:
            stream.close()

    def _next_spool(self) -> Spool:
        self._calls += 1
        return Spool(self.folder / "1" / f"call-{self._calls}")

    def _wait(self, spool: Spool, child: Child) -> None:
        """Wait until nothing of the call is alive (an engine may outlive its shim). Stop one that takes too long."""
        deadline = time.monotonic() + STEP_SECONDS
        while not (child.wait(LOOK_SECONDS) and Adopted(spool).wait(LOOK_SECONDS)):
            if self._stopping.is_set():
                raise Unavailable("api.stopping", "The engine call was left unfinished; try again.", retry_after=5)
            if time.monotonic() > deadline:
                late = time.monotonic() > deadline + GRACE_SECONDS
                spool.signal_engine(signal.SIGKILL if late else signal.SIGTERM)
