"""The runner: claims operations that may start, executes them, and brings all running ones to their true end."""

import errno
import os
import random
import socket
import threading
import time
from functools import partial

import structlog
from pydantic import BaseModel, ValidationError

from backup_jobs.engine_host import FollowAgain
from backup_jobs.host import Cancelled, Interrupted, Stopping
from backup_jobs.work import EvidenceUnknown
from holdfast.api.parts import Part
from holdfast.errors import HoldfastError, Unavailable
from holdfast.kit import clock
from holdfast.kit.supervisor import Supervisor
from holdfast.operations import pages, queue, runners, waiting_reasons
from holdfast.operations.kinds import Kind, Registry
from holdfast.operations.models import Operation
from holdfast.operations.models import Runner as RunnerRow
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.runner.attempt import Attempt
from holdfast.runner.identity import Identity
from holdfast.runner.progress import ProgressCache
from holdfast.runner.recording import Recorder
from holdfast.runner.recovery import Recovery
from holdfast.settings import Settings
from holdfast.storage.read_cache import Version
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.runner")

CLAIM_POLL_SECONDS = 2.0
TICK_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0
RECOVER_SECONDS = 5.0
CANCEL_POLL_SECONDS = 2.0
RETRY_SECONDS = 2.0
TEMPORARY_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EIO}
)
"""Errors of a machine in trouble. They are temporary, and not caused by the operation or its engine."""
STORE_UNAVAILABLE = "store.unavailable"
CAPACITY = 64


class Runner:
    """Executes operations, each in its own thread. Threads are replaceable: state is in the store and the spools."""

    def __init__(
        self, settings: Settings, database: Database, registry: Registry, supervisor: Supervisor, role: str
    ) -> None:
        self.identity = Identity(settings.data_dir / "runners")
        self.progress_cache = ProgressCache()
        self._settings = settings
        self._database = database
        self._registry = registry
        self._role = role
        self._supervisor = supervisor
        self._stopping = threading.Event()
        self._executes = False
        self._attempts: dict[int, Attempt] = {}
        self._nothing_waits_at: Version | None = None
        """The commit at which no operation was waiting."""
        self._executing: set[tuple[int, int]] = set()
        """Operations with their attempts: the next attempt may start while the previous thread is still ending."""
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._spool_root = str(settings.spool_dir.absolute())
        self._recorder = Recorder(database, registry, self.progress_cache, self._stopping)
        self._recovery: Recovery | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    def start(self, *, executes: bool) -> None:
        """Register and recover; then, if this process executes operations, claim work."""
        self._executes = executes
        self._register()
        self._recovery = Recovery(
            self._settings,
            self._database,
            self._registry,
            self.identity,
            self._supervisor,
            does_execute=executes,
            execute=self._execute_in_thread,
            executing=self._executing_now,
        )
        if executes:
            self._recovery.recover()
            self._recovery.sweep_spools()
            self._threads.append(self._supervisor.keep_running("runner-claims", self._claim_forever))
        self._threads.append(self._supervisor.keep_running("runner-ticks", self._tick_forever))

    def stop(self, seconds: float = 8.0) -> None:
        """Stop taking work and release running operations: their engines continue under their shims."""
        self._stopping.set()
        self._database.notify()
        deadline = time.monotonic() + seconds
        for thread in [*self._threads, *self._executing_threads()]:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._unregister()
        self.identity.release()

    def _executing_threads(self) -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith("operation-")]

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
        """Remove this runner's row, unless operations still refer to it: recovery needs to know where they ran."""
        try:
            with self._database.writing() as session:
                runners.forget_idle_runner(session, self.identity.id)
        except Unavailable:
            log.warning("store unreachable while stopping")

    # --- claiming -----------------------------------------------------------------------------------------------

    def _claim_forever(self) -> None:
        """Claim, and recover the operations of dead runners, both in this thread so that nothing is started twice."""
        seen = -1
        looked_at = time.monotonic()
        while not self._stopping.is_set():
            number = self._database.work.number
            if number == seen:
                self._database.work.wait(number, CLAIM_POLL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
                number = self._database.work.number
            seen = number
            self._supervisor.attempt("runner-claims", self._claim_and_start)
            if time.monotonic() - looked_at > RECOVER_SECONDS:
                looked_at = time.monotonic()
                self._supervisor.attempt("runner-recovery", self._recover)

    def _claim_and_start(self) -> None:
        capacity = CAPACITY - len(self._executing)
        if capacity <= 0 or self._stopping.is_set():
            return
        commits = self._database.commits()
        if commits and commits == self._nothing_waits_at:
            return
        with self._database.reading() as session:
            if not waiting_reasons.anything_waiting(session):
                self._nothing_waits_at = commits
                return
        with self._database.writing() as session:
            claimed = queue.claim(session, self.identity.id, self._spool_root, capacity=capacity)
        for operation_id in claimed:
            with self._database.reading() as session:
                operation = pages.get(session, operation_id)
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

    def _recover(self) -> None:
        assert self._recovery is not None, "only a runner that was started ticks"
        self._recovery.recover()

    def _executing_now(self) -> frozenset[tuple[int, int]]:
        with self._guard:
            return frozenset(self._executing)

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
            # It stays `running` under this runner; `recover` notices that no thread executes it and starts it again.
            log.exception("the execution of an operation broke off", kind=operation.kind)
        finally:
            self._no_longer_executing(operation)

    def _execute_to_its_end(self, operation: Operation) -> None:
        kind = self._registry.kinds.get(operation.kind)
        if kind is None:
            sentence = f"This version of the service does not support operations of kind {operation.kind}."
            self._recorder.end(operation, None, Outcome(Status.FAILED, "operations.unknown_kind", sentence))
            return
        try:
            params = kind.params.model_validate(operation.params)
        except ValidationError:
            sentence = "The stored parameters are not valid for this version of the service."
            self._recorder.end(operation, None, Outcome(Status.FAILED, "operations.bad_parameters", sentence))
            return
        while not self._execute_once(operation, kind, params):
            if self._stopping.wait(RETRY_SECONDS):
                raise Stopping

    def _execute_once(self, operation: Operation, kind: Kind, params: BaseModel) -> bool:
        """Execute the operation or resume its execution, and record the end. Return False on trouble of the machine."""
        try:
            attempt = self._attempt_of(operation, params)
            self._execute_attempt(operation, kind, attempt)
        except FollowAgain:
            log.info("followed again on its machine", kind=operation.kind)
            return False
        except (OSError, Unavailable) as error:
            if not is_temporary(error):
                raise
            log.warning("temporary system error; retrying", kind=operation.kind, reason=str(error))
            return False
        return True

    def _execute_attempt(self, operation: Operation, kind: Kind, attempt: Attempt) -> None:
        with self._guard:
            self._attempts[operation.id] = attempt
        try:
            self._recorder.end(operation, attempt, self._run(kind, attempt))
        finally:
            with self._guard:
                if self._attempts[operation.id] is attempt:
                    del self._attempts[operation.id]
                    self.progress_cache.forget(operation.id)
            attempt.close()

    def _attempt_of(self, operation: Operation, params: BaseModel) -> Attempt:
        return Attempt(
            operation=operation,
            params=params,
            database=self._database,
            logs=self._settings.logs_dir,
            most_log_bytes=self._settings.operation_log_mib * 1024 * 1024,
            progress_cache=self.progress_cache,
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
        except (Stopping, FollowAgain):
            raise
        except EvidenceUnknown as unknown:
            attempt.wait_for_engines()
            return TryAgain(unknown.key, unknown.message, delay_seconds=5)
        except HoldfastError as error:
            if is_temporary(error):
                raise
            attempt.wait_for_engines()
            if isinstance(error, Unavailable):
                return TryAgain(error.key, error.message, delay_seconds=5)
            return Outcome(Status.FAILED, error.key, error.message)
        except Exception as error:
            if is_temporary(error):
                raise
            log.exception("an operation failed unexpectedly", kind=kind.name)
            attempt.wait_for_engines()
            sentence = "An internal error occurred; see the service's log for details."
            return Outcome(Status.FAILED, "operations.internal", sentence)

    # --- ticking ------------------------------------------------------------------------------------------------

    def _tick_forever(self) -> None:
        last_heartbeat = last_look = time.monotonic()
        seen = -1
        while not self._stopping.is_set():
            number = self._database.work.wait(seen, TICK_SECONDS) if seen >= 0 else 0
            if number != seen or time.monotonic() - last_look > CANCEL_POLL_SECONDS:
                last_look = time.monotonic()
                self._supervisor.attempt("runner-cancellations", self._forward_cancellations)
            seen = number
            self._stopping.wait(0.05)
            self._supervisor.attempt("runner-progress", partial(self.progress_cache.flush, self._database))
            if time.monotonic() - last_heartbeat > HEARTBEAT_SECONDS:
                last_heartbeat = time.monotonic()
                self._supervisor.attempt("runner-heartbeat", self._heartbeat)

    def _forward_cancellations(self) -> None:
        if not self._attempts:
            return
        with self._database.reading() as session:
            wanted = runners.cancel_requested_of(session, self.identity.id)
        with self._guard:
            for operation_id in wanted:
                if attempt := self._attempts.get(operation_id):
                    attempt.cancel()

    def _heartbeat(self) -> None:
        with self._database.writing() as session:
            runners.heartbeat(session, self.identity.id, clock.now())
        if not self._executes:
            self._recover()  # an executing process recovers more often, where it claims


RUNNER = Part[Runner]("runner")


def is_temporary(error: Exception) -> bool:
    """Whether an error is trouble of the machine or the store, unrelated to the operation."""
    if isinstance(error, OSError):
        return error.errno in TEMPORARY_ERRORS
    return isinstance(error, Unavailable) and error.key == STORE_UNAVAILABLE
