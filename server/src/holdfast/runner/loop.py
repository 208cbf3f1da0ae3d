"""The runner: claims what may start, executes it, and brings everything that it finds running to its true end."""

import errno
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import structlog
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from backup_engine.process import SpoolState, remove_spools, spools_below
from holdfast.errors import HoldfastError, Unavailable
from holdfast.kit import clock
from holdfast.operations import store
from holdfast.operations.context import Cancelled, Interrupted
from holdfast.operations.kinds import Kind, Outcome, Registry, TryAgain
from holdfast.operations.logs import LogWriter
from holdfast.operations.models import Operation
from holdfast.operations.models import Runner as RunnerRow
from holdfast.operations.status import Status
from holdfast.runner.follow import Attempt, Stopping
from holdfast.runner.identity import Identity, is_provably_dead
from holdfast.runner.progress import ProgressBoard
from holdfast.settings import Settings
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.runner")

CLAIM_POLL_SECONDS = 2.0
TICK_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0
RECOVER_SECONDS = 5.0
CANCEL_POLL_SECONDS = 2.0
OBSTACLE_SECONDS = 2.0
OBSTACLES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EIO})
"""What a machine in trouble says. It passes; the operation and its engine are not to blame."""
STORE_UNAVAILABLE = "store.unavailable"
MAX_ATTEMPTS = 3
CAPACITY = 64


class NotOurs(Exception):
    """The operation is no longer this runner's to end; nothing of its end may be kept."""


class Runner:
    """Executes operations in threads of its own; every thread is replaceable, the truth is in the store and the spools."""

    def __init__(self, settings: Settings, database: Database, registry: Registry, role: str = "runner") -> None:
        self.identity = Identity(settings.data_dir / "runners")
        self.board = ProgressBoard()
        self._settings = settings
        self._database = database
        self._registry = registry
        self._role = role
        self._stopping = threading.Event()
        self._executes = False
        self._attempts: dict[int, Attempt] = {}
        self._executing: set[tuple[int, int]] = set()
        """Operations and their attempts: the next attempt may start while the thread of the last one still ends."""
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._spool_root = str(settings.spool_dir.absolute())

    # --- life ---------------------------------------------------------------------------------------------------

    def start(self, *, executes: bool) -> None:
        """Register and recover; then, if this process is one that executes, claim work."""
        self._executes = executes
        self._register()
        if executes:
            self.recover()
            self._sweep_spools()
            self._spawn("runner-claims", self._claim_forever)
        self._spawn("runner-ticks", self._tick_forever)

    def stop(self, seconds: float = 8.0) -> None:
        """Stop taking work and let go of what runs: the engines go on under their shims."""
        self._stopping.set()
        self._database.wake.notify()
        deadline = time.monotonic() + seconds
        for thread in [*self._threads, *self._executing_threads()]:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._unregister()
        self.identity.release()

    def _executing_threads(self) -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith("operation-")]

    def _spawn(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _register(self) -> None:
        now = clock.now()
        with self._database.writing() as session:
            session.add(
                RunnerRow(
                    id=self.identity.id,
                    host=socket.gethostname(),
                    host_id=self.identity.host_id,
                    pid=os.getpid(),
                    role=self._role,
                    lock_file=str(self.identity.lock_file.absolute()),
                    started_at=now,
                    heartbeat_at=now,
                )
            )

    def _unregister(self) -> None:
        """Remove this runner's row, unless operations still name it: their finder needs to know where it ran."""
        try:
            with self._database.writing() as session:
                store.forget_idle_runner(session, self.identity.id)
        except Unavailable:
            log.warning("store unreachable while stopping")

    # --- claiming -----------------------------------------------------------------------------------------------

    def _claim_forever(self) -> None:
        """Claim, and look after what dead runners left: both in this thread, so that nothing is started twice."""
        seen = -1
        looked_at = time.monotonic()
        while not self._stopping.is_set():
            number = self._database.wake.number
            if number == seen:
                self._database.wake.wait(number, CLAIM_POLL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
                number = self._database.wake.number
            seen = number
            self._despite_trouble(self._claim_and_start)
            if time.monotonic() - looked_at > RECOVER_SECONDS:
                looked_at = time.monotonic()
                self._despite_trouble(self.recover)

    def _claim_and_start(self) -> None:
        capacity = CAPACITY - len(self._executing)
        if capacity <= 0 or self._stopping.is_set():
            return
        with self._database.reading() as session:
            if not store.anything_waiting(session):
                return
        with self._database.writing() as session:
            claimed = store.claim(session, self.identity.id, self._spool_root, capacity=capacity)
        for operation_id in claimed:
            with self._database.reading() as session:
                operation = store.get(session, operation_id)
            if operation is not None:
                self._execute_in_thread(operation)

    def _execute_in_thread(self, operation: Operation) -> None:
        with self._guard:
            self._executing.add((operation.id, operation.attempt))
        thread = threading.Thread(
            target=self._execute, args=(operation,), name=f"operation-{operation.id}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            self._no_longer_executing(operation)
            raise

    def _no_longer_executing(self, operation: Operation) -> None:
        with self._guard:
            self._executing.discard((operation.id, operation.attempt))

    # --- executing ----------------------------------------------------------------------------------------------

    def _execute(self, operation: Operation) -> None:
        structlog.contextvars.bind_contextvars(operation_id=operation.id)
        try:
            self._execute_to_its_end(operation)
        except Stopping:
            log.info("left running under its shim", kind=operation.kind)
        except Exception:
            # It stays `running` in this runner's name; `recover` finds that nobody executes it and starts it again.
            log.exception("the execution of an operation broke off", kind=operation.kind)
        finally:
            self._no_longer_executing(operation)

    def _execute_to_its_end(self, operation: Operation) -> None:
        kind = self._registry.kinds.get(operation.kind)
        if kind is None:
            sentence = f"This version of the service does not know operations of the kind {operation.kind}."
            self._end(operation, None, Outcome(Status.FAILED, "operations.unknown_kind", sentence))
            return
        try:
            params = kind.params.model_validate(operation.params)
        except ValidationError:
            sentence = "The stored parameters do not fit this version of the service."
            self._end(operation, None, Outcome(Status.FAILED, "operations.bad_parameters", sentence))
            return
        while not self._execute_once(operation, kind, params):
            if self._stopping.wait(OBSTACLE_SECONDS):
                raise Stopping

    def _execute_once(self, operation: Operation, kind: Kind, params: BaseModel) -> bool:
        """Execute, or find again what was executed, and record the end. False when the machine was in the way."""
        try:
            attempt = self._attempt_of(operation, params)
            self._execute_attempt(operation, kind, attempt)
        except (OSError, Unavailable) as error:
            if not is_obstacle(error):
                raise
            log.warning("an obstacle; to be tried again", kind=operation.kind, reason=str(error))
            return False
        return True

    def _execute_attempt(self, operation: Operation, kind: Kind, attempt: Attempt) -> None:
        with self._guard:
            self._attempts[operation.id] = attempt
        try:
            self._end(operation, attempt, self._run(kind, attempt))
        finally:
            with self._guard:
                if self._attempts[operation.id] is attempt:
                    del self._attempts[operation.id]
                    self.board.forget(operation.id)
            attempt.close()

    def _attempt_of(self, operation: Operation, params: BaseModel) -> Attempt:
        return Attempt(
            operation=operation,
            params=params,
            database=self._database,
            logs=self._settings.logs_dir,
            board=self.board,
            stopping=self._stopping,
            grace_seconds=self._settings.cancel_grace_seconds,
        )

    def _run(self, kind: Kind, attempt: Attempt) -> Outcome | TryAgain:
        try:
            try:
                return kind.run(attempt)
            except Interrupted as interrupted:
                return kind.on_interrupted(attempt, interrupted)
        except Interrupted as interrupted:
            return TryAgain("operations.interrupted", interrupted.sentence())
        except Cancelled:
            return Outcome(Status.CANCELLED)
        except Stopping:
            raise
        except HoldfastError as error:
            if is_obstacle(error):
                raise
            attempt.wait_until_nothing_lives()
            if isinstance(error, Unavailable):
                return TryAgain(error.key, error.message, delay_seconds=5)
            return Outcome(Status.FAILED, error.key, error.message)
        except Exception as error:
            if is_obstacle(error):
                raise
            log.exception("an operation failed in an unexpected way", kind=kind.name)
            attempt.wait_until_nothing_lives()
            sentence = "Something failed inside the service; its log has the details."
            return Outcome(Status.FAILED, "operations.internal", sentence)

    def _end(self, operation: Operation, attempt: Attempt | None, ending: Outcome | TryAgain) -> None:
        """Record how it ended, for as long as it takes the store to accept it."""
        if isinstance(ending, TryAgain) and attempt is not None and attempt.is_cancelled():
            ending = given_up(ending, Status.CANCELLED)
        if isinstance(ending, TryAgain) and operation.attempt >= MAX_ATTEMPTS:
            ending = given_up(ending, Status.FAILED)
        if attempt is not None and ending_sentence(ending):
            attempt.log(ending_sentence(ending))
        lines = attempt.log_lines if attempt else operation.log_base_line
        try:
            self._record_when_possible(operation, lines, ending)
        except (SQLAlchemyError, ValueError):
            log.exception("the store refuses the details of an end", kind=operation.kind)
            self._record_when_possible(operation, lines, without_details(ending))

    def _record_when_possible(self, operation: Operation, lines: int, ending: Outcome | TryAgain) -> None:
        while True:
            try:
                self._record(operation, lines, ending)
                return
            except NotOurs:
                log.warning("somebody else has taken the operation over", kind=operation.kind)
                return
            except Unavailable:
                log.warning("the store does not take the end of an operation yet", kind=operation.kind)
                if self._stopping.wait(1.0):
                    raise Stopping from None

    def _record(self, operation: Operation, lines: int, ending: Outcome | TryAgain) -> None:
        """Write the end down, and then remove the spools: while they are there, all of it can be found out again."""
        with self._database.writing() as session:
            if ending.record is not None:
                ending.record(session)
            if isinstance(ending, TryAgain):
                again = self._requeue(session, operation, lines, ending)
            else:
                again = False
                self._finish(session, operation, ending)
        if operation.spool is None:
            return
        # The next attempt may have started already, beside the folder of this one.
        remove_spools(Path(operation.spool) / str(operation.attempt) if again else Path(operation.spool))

    def _requeue(self, session: Session, operation: Operation, lines: int, ending: TryAgain) -> bool:
        """Queue the next attempt. False when the operation was cancelled a moment ago, and therefore ended."""
        again = store.requeue_for_next_attempt(
            session, operation, log_lines=lines, delay_seconds=ending.delay_seconds, result=ending.result
        )
        if not again:
            self._finish(session, operation, given_up(ending, Status.CANCELLED))
        elif ending.had_effects:
            store.tell_listeners(session, self._registry, operation.id)
        return again

    def _finish(self, session: Session, operation: Operation, ending: Outcome) -> None:
        ended = store.finish(
            session,
            self._registry,
            operation,
            ending.status,
            error_key=ending.error_key,
            error_message=ending.error_message,
            result=dict(ending.result) if ending.result is not None else None,
            warnings=[dict(warning) for warning in ending.warnings],
            archive_name=ending.archive_name,
            progress=self.board.latest(operation.id),
            had_effects=ending.had_effects,
        )
        if not ended:
            raise NotOurs

    # --- recovering ---------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Take over what dead runners of this machine left running, and start again what broke off here."""
        with self._guard:
            executing = frozenset(self._executing)
        with self._database.reading() as session:
            left = store.running_in_processes(session)
            requests = store.waiting_requests(session)
            runners = store.runners(session)
        dead = [row for row in runners if self._is_dead(row)]
        named = {str(operation.runner_id) for operation in (*left, *requests)}
        gone = {row.id for row in dead} | (named - {row.id for row in runners})
        for operation in left:
            if operation.runner_id in gone:
                self._take_over(operation)
            elif self._broke_off(operation) and (operation.id, operation.attempt) not in executing:
                log.warning("nobody executes it; started again", operation_id=operation.id, kind=operation.kind)
                self._execute_in_thread(operation)
        self._forget_requests([request.id for request in requests if request.runner_id in gone])
        for row in dead:
            self._forget_runner(row)
        if dead and self._executes:
            self._sweep_spools()

    def _forget_requests(self, abandoned: list[int]) -> None:
        """A request whose process died while it waited would keep its place in the queue for ever."""
        if abandoned:
            with self._database.writing() as session:
                for request in abandoned:
                    store.remove_finished_inline(session, request)

    def _is_dead(self, row: RunnerRow) -> bool:
        return row.host_id == self.identity.host_id and is_provably_dead(Path(row.lock_file))

    def _broke_off(self, operation: Operation) -> bool:
        """True for an operation in this runner's name that a thread of it should be executing."""
        return self._executes and operation.executor == "runner" and operation.runner_id == self.identity.id

    def _forget_runner(self, row: RunnerRow) -> None:
        with self._database.writing() as session:
            if store.forget_idle_runner(session, row.id):
                Path(row.lock_file).unlink(missing_ok=True)

    def _sweep_spools(self) -> None:
        """Remove the spools of operations that have ended: a kill may have come between their record and this."""
        root = Path(self._spool_root)
        folders = {int(entry.name): entry for entry in root.glob("[0-9]*") if entry.name.isdigit()}
        with self._database.reading() as session:
            active = store.active_among(session, folders)
        for number in folders.keys() - active:
            if not any(spool.is_alive() for spool in spools_below(folders[number])):
                remove_spools(folders[number])

    def _take_over(self, operation: Operation) -> None:
        if operation.executor == "runner" and not self._executes:
            return
        with self._database.writing() as session:
            if not store.take_over(session, operation, self.identity.id):
                return
        operation.runner_id = self.identity.id
        if operation.executor == "inline":
            self._spawn(f"inline-{operation.id}", lambda: self._await_inline(operation))
        elif _nothing_started(operation):
            log.info("never started, queued again", operation_id=operation.id, kind=operation.kind)
            self._forget_attempt(operation)
        else:
            log.info("found again", operation_id=operation.id, kind=operation.kind)
            self._execute_in_thread(operation)

    def _forget_attempt(self, operation: Operation) -> None:
        if operation.log_file is not None:
            LogWriter(self._settings.logs_dir / operation.log_file, operation.log_base_line).cut()
        if operation.spool is not None:
            remove_spools(Path(operation.spool))
        with self._database.writing() as session:
            if not store.requeue_as_never_started(session, operation):
                store.finish(session, self._registry, operation, Status.CANCELLED)

    def _await_inline(self, operation: Operation) -> None:
        """A request's short engine call outlived its process: hold the lane until the engine is gone."""
        folder = Path(operation.spool or "/nonexistent")
        while any(spool.settle() is SpoolState.ALIVE for spool in spools_below(folder)):
            if self._stopping.wait(0.2):
                return
        remove_spools(folder)
        while not self._stopping.is_set():
            try:
                with self._database.writing() as session:
                    store.remove_finished_inline(session, operation.id)
                return
            except Unavailable:
                self._stopping.wait(1.0)

    # --- ticking ------------------------------------------------------------------------------------------------

    def _tick_forever(self) -> None:
        last_heartbeat = last_look = time.monotonic()
        seen = -1
        while not self._stopping.is_set():
            number = self._database.wake.wait(seen, TICK_SECONDS) if seen >= 0 else 0
            if number != seen or time.monotonic() - last_look > CANCEL_POLL_SECONDS:
                last_look = time.monotonic()
                self._despite_trouble(self._pass_on_cancellations)
            seen = number
            self._stopping.wait(0.05)
            self._despite_trouble(lambda: self.board.flush(self._database))
            if time.monotonic() - last_heartbeat > HEARTBEAT_SECONDS:
                last_heartbeat = time.monotonic()
                self._despite_trouble(self._heartbeat)

    def _pass_on_cancellations(self) -> None:
        if not self._attempts:
            return
        with self._database.reading() as session:
            wanted = store.cancel_requested_of(session, self.identity.id)
        with self._guard:
            for operation_id in wanted:
                if attempt := self._attempts.get(operation_id):
                    attempt.cancel()

    def _heartbeat(self) -> None:
        with self._database.writing() as session:
            store.heartbeat(session, self.identity.id, clock.now())
        if not self._executes:
            self.recover()  # a process that executes looks more often, where it claims

    def _despite_trouble(self, action: Callable[[], None]) -> None:
        """Do something that will be done again soon: a failure must not end the thread."""
        try:
            action()
        except Unavailable as error:
            log.warning("the store is unreachable", reason=str(error.__cause__))
            self._stopping.wait(1.0)
        except Exception:
            log.exception("a step of the runner failed; it goes on")
            self._stopping.wait(1.0)


def is_obstacle(error: Exception) -> bool:
    """True for trouble of the machine or the store that says nothing about the operation."""
    if isinstance(error, OSError):
        return error.errno in OBSTACLES
    return isinstance(error, Unavailable) and error.key == STORE_UNAVAILABLE


def given_up(ending: TryAgain, status: Status) -> Outcome:
    """What becomes of an attempt that is not followed by another one."""
    failed = status is Status.FAILED
    return Outcome(
        status,
        ending.error_key if failed else None,
        ending.error_message if failed else None,
        result=ending.result,
        had_effects=ending.had_effects,
        record=ending.record,
    )


def without_details(ending: Outcome | TryAgain) -> Outcome | TryAgain:
    """The bare end, for a store that refuses the rest of it."""
    if isinstance(ending, TryAgain):
        return TryAgain(ending.error_key, ending.error_message, ending.delay_seconds)
    return replace(ending, result=None, warnings=(), record=None)


def ending_sentence(ending: Outcome | TryAgain) -> str:
    """The last line of an attempt's log, where the engine itself has not said it."""
    if isinstance(ending, TryAgain):
        return f"To be tried again: {ending.error_message}"
    if ending.status is Status.CANCELLED:
        return "Cancelled."
    return f"Failed: {ending.error_message}" if ending.error_message else ""


def _nothing_started(operation: Operation) -> bool:
    folder = Path(operation.spool or "/nonexistent") / str(operation.attempt)
    return all(spool.settle() is SpoolState.NEVER_STARTED for spool in spools_below(folder))
