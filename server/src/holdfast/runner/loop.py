"""The runner: claims what may start, executes it, and brings everything that it finds running to its true end."""

import os
import random
import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog
from pydantic import ValidationError

from backup_engine.process import Spool, SpoolState
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
from holdfast.runner.identity import Identity, host_id, is_provably_dead
from holdfast.runner.progress import ProgressBoard
from holdfast.settings import Settings
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.runner")

CLAIM_POLL_SECONDS = 2.0
TICK_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0
MAX_ATTEMPTS = 3
CAPACITY = 64


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
        self._attempts: dict[int, Attempt] = {}
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._spool_root = str(settings.spool_dir.absolute())

    # --- life ---------------------------------------------------------------------------------------------------

    def start(self, *, executes: bool) -> None:
        """Register and recover; then, if this process is one that executes, claim work."""
        self._register()
        if executes:
            self.recover()
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
                    host_id=host_id(),
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
        seen = -1
        while not self._stopping.is_set():
            number = self._database.wake.number
            if number == seen:
                self._database.wake.wait(number, CLAIM_POLL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
                number = self._database.wake.number
            seen = number
            self._unless_unavailable(self._claim_and_start)

    def _claim_and_start(self) -> None:
        capacity = CAPACITY - len(self._attempts)
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
        threading.Thread(target=self._execute, args=(operation,), name=f"operation-{operation.id}", daemon=True).start()

    # --- executing ----------------------------------------------------------------------------------------------

    def _execute(self, operation: Operation) -> None:
        structlog.contextvars.bind_contextvars(operation_id=operation.id)
        kind = self._registry.kinds.get(operation.kind)
        if kind is None:
            sentence = f"This version of the service does not know operations of the kind {operation.kind}."
            self._end(operation, None, Outcome(Status.FAILED, "operations.unknown_kind", sentence))
            return
        try:
            attempt = self._attempt_of(operation, kind)
        except ValidationError:
            sentence = "The stored parameters do not fit this version of the service."
            self._end(operation, None, Outcome(Status.FAILED, "operations.bad_parameters", sentence))
            return
        with self._guard:
            self._attempts[operation.id] = attempt
        try:
            ending = self._run(kind, attempt)
            self._end(operation, attempt, ending)
        except Stopping:
            log.info("left running under its shim", kind=operation.kind)
        finally:
            with self._guard:
                del self._attempts[operation.id]
            attempt.close()
            self.board.forget(operation.id)

    def _attempt_of(self, operation: Operation, kind: Kind) -> Attempt:
        return Attempt(
            operation=operation,
            params=kind.params.model_validate(operation.params),
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
            if isinstance(error, Unavailable):
                return TryAgain(error.key, error.message, delay_seconds=5)
            return Outcome(Status.FAILED, error.key, error.message)
        except Exception:
            log.exception("an operation failed in an unexpected way", kind=kind.name)
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
        while True:
            try:
                self._record(operation, attempt, ending)
                break
            except Unavailable:
                log.warning("the store does not take the end of an operation yet", kind=operation.kind)
                if self._stopping.wait(1.0):
                    raise Stopping from None
        if operation.spool:
            shutil.rmtree(operation.spool, ignore_errors=True)

    def _record(self, operation: Operation, attempt: Attempt | None, ending: Outcome | TryAgain) -> None:
        with self._database.writing() as session:
            if ending.record is not None:
                ending.record(session)
            if isinstance(ending, TryAgain):
                lines = attempt.log_lines if attempt else operation.log_base_line
                store.requeue_for_next_attempt(
                    session, operation, log_lines=lines, delay_seconds=ending.delay_seconds, result=ending.result
                )
                if ending.had_effects:
                    store.tell_listeners(session, self._registry, operation.id)
                return
            progress = self.board.latest(operation.id)
            store.finish(
                session,
                self._registry,
                operation,
                ending.status,
                error_key=ending.error_key,
                error_message=ending.error_message,
                result=dict(ending.result) if ending.result is not None else None,
                warnings=[dict(warning) for warning in ending.warnings],
                archive_name=ending.archive_name,
                progress=progress,
                had_effects=ending.had_effects,
            )

    # --- recovering ---------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Take over what dead runners of this machine left running."""
        with self._database.reading() as session:
            left = store.running_of_others(session, self.identity.id)
            runners = store.runners(session)
        dead = {row.id for row in runners if row.host_id == host_id() and is_provably_dead(Path(row.lock_file))}
        known = {row.id for row in runners}
        for operation in left:
            if operation.runner_id in dead or operation.runner_id not in known:
                self._take_over(operation)
        with self._database.writing() as session:
            for runner_id in dead:
                store.forget_idle_runner(session, runner_id)

    def _take_over(self, operation: Operation) -> None:
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
            shutil.rmtree(operation.spool, ignore_errors=True)
        with self._database.writing() as session:
            if operation.cancel_requested_at is not None:
                store.finish(session, self._registry, operation, Status.CANCELLED)
            else:
                store.requeue_as_never_started(session, operation)

    def _await_inline(self, operation: Operation) -> None:
        """A request's short engine call outlived its process: hold the lane until the engine is gone."""
        while not self._stopping.is_set():
            if not any(spool.settle() is SpoolState.ALIVE for spool in _spools(operation)):
                with self._database.writing() as session:
                    store.remove_finished_inline(session, operation.id)
                if operation.spool:
                    shutil.rmtree(operation.spool, ignore_errors=True)
                return
            self._stopping.wait(0.2)

    # --- ticking ------------------------------------------------------------------------------------------------

    def _tick_forever(self) -> None:
        last_heartbeat = time.monotonic()
        seen = -1
        while not self._stopping.is_set():
            number = self._database.wake.wait(seen, TICK_SECONDS) if seen >= 0 else 0
            if number != seen:
                self._unless_unavailable(self._pass_on_cancellations)
            seen = self._database.wake.number
            self._stopping.wait(0.05)
            self._unless_unavailable(lambda: self.board.flush(self._database))
            if time.monotonic() - last_heartbeat > HEARTBEAT_SECONDS:
                last_heartbeat = time.monotonic()
                self._unless_unavailable(self._heartbeat)

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
        self.recover()

    def _unless_unavailable(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Unavailable as error:
            log.warning("the store is unreachable", reason=str(error.__cause__))
            self._stopping.wait(1.0)


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


def ending_sentence(ending: Outcome | TryAgain) -> str:
    """The last line of an attempt's log, where the engine itself has not said it."""
    if isinstance(ending, TryAgain):
        return f"To be tried again: {ending.error_message}"
    if ending.status is Status.CANCELLED:
        return "Cancelled."
    return f"Failed: {ending.error_message}" if ending.error_message else ""


def _spools(operation: Operation) -> list[Spool]:
    folder = Path(operation.spool or "/nonexistent") / str(operation.attempt)
    return [Spool(step) for step in sorted(folder.iterdir())] if folder.is_dir() else []


def _nothing_started(operation: Operation) -> bool:
    return all(spool.settle() is SpoolState.NEVER_STARTED for spool in _spools(operation))
