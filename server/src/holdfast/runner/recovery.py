"""Recovers operations that dead runners left running, and those whose thread here broke off."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from backup_engine.far.request import any_started_remotely
from backup_engine.process import SpoolState, remove_spools, spools_below
from holdfast.errors import Unavailable
from holdfast.kit.supervisor import Supervisor
from holdfast.operations import runners as operation_runners
from holdfast.operations import transitions
from holdfast.operations.kinds import Registry
from holdfast.operations.logs import LogWriter
from holdfast.operations.models import Operation
from holdfast.operations.models import Runner as RunnerRow
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import Status
from holdfast.runner.identity import Identity, is_provably_dead
from holdfast.settings import Settings
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.runner")


@dataclass(eq=False, slots=True)
class Recovery:
    """Finds and restarts abandoned work.

    `execute` starts an operation of this runner; `executing` returns the operations being executed, with their
    attempts.
    """

    settings: Settings
    database: Database
    registry: Registry
    identity: Identity
    supervisor: Supervisor
    does_execute: bool
    execute: Callable[[Operation], None]
    executing: Callable[[], frozenset[tuple[int, int]]]

    def recover(self) -> None:
        """Take over operations that dead runners on this machine left running; restart those that broke off here."""
        executing = self.executing()
        with self.database.reading() as session:
            left = operation_runners.running_in_processes(session)
            requests = operation_runners.waiting_requests(session)
            runners = operation_runners.known(session)
        dead = [row for row in runners if self._is_dead(row)]
        named = {str(operation.runner_id) for operation in (*left, *requests)}
        gone = {row.id for row in dead} | (named - {row.id for row in runners})
        for operation in left:
            if operation.runner_id in gone:
                self._take_over(operation)
            elif self._broke_off(operation) and (operation.id, operation.attempt) not in executing:
                log.warning("no thread executes it; started again", operation_id=operation.id, kind=operation.kind)
                self.execute(operation)
        self._forget_requests([request.id for request in requests if request.runner_id in gone])
        for row in dead:
            self._forget_runner(row)
        if dead and self.does_execute:
            self.sweep_spools()

    def _forget_requests(self, abandoned: list[int]) -> None:
        """Remove requests whose process died while they waited; otherwise they would keep their places indefinitely."""
        if abandoned:
            with self.database.writing() as session:
                for request in abandoned:
                    transitions.remove_finished_inline(session, request)

    def _is_dead(self, row: RunnerRow) -> bool:
        return row.host_id == self.identity.host_id and is_provably_dead(Path(row.lock_file))

    def _broke_off(self, operation: Operation) -> bool:
        """Whether the operation belongs to this runner and one of its threads should be executing it."""
        return self.does_execute and operation.executor == "runner" and operation.runner_id == self.identity.id

    def _forget_runner(self, row: RunnerRow) -> None:
        with self.database.writing() as session:
            if operation_runners.forget_idle_runner(session, row.id):
                Path(row.lock_file).unlink(missing_ok=True)

    def sweep_spools(self) -> None:
        """Remove spools of ended operations, left behind if the service was killed right after recording the end."""
        root = self.settings.spool_dir.absolute()
        folders = {int(entry.name): entry for entry in root.glob("[0-9]*") if entry.name.isdigit()}
        with self.database.reading() as session:
            active = operation_runners.active_among(session, folders)
        for number in folders.keys() - active:
            if not any(spool.settle() is SpoolState.ALIVE for spool in spools_below(folders[number])):
                remove_spools(folders[number])

    def _take_over(self, operation: Operation) -> None:
        if operation.executor == "runner" and not self.does_execute:
            return
        with self.database.writing() as session:
            if not operation_runners.take_over(session, operation, self.identity.id):
                return
        operation.runner_id = self.identity.id
        if operation.executor == "inline":
            self.supervisor.run_until_done(f"inline-{operation.id}", partial(self._await_inline, operation))
        elif _nothing_started(operation):
            log.info("never started, queued again", operation_id=operation.id, kind=operation.kind)
            self._forget_attempt(operation)
        else:
            log.info("found again", operation_id=operation.id, kind=operation.kind)
            self.execute(operation)

    def _forget_attempt(self, operation: Operation) -> None:
        if operation.log_file is not None:
            LogWriter(self.settings.logs_dir / operation.log_file, operation.log_base_line).cut()
        if operation.spool is not None:
            remove_spools(Path(operation.spool))
        with self.database.writing() as session:
            if not transitions.requeue_as_never_started(session, operation):
                transitions.finish(session, self.registry, operation, Outcome(Status.CANCELLED))

    def _await_inline(self, operation: Operation) -> None:
        """Hold the lane of an inline call whose process has died until its engine is gone."""
        folder = Path(operation.spool or "/nonexistent")
        while any(spool.settle() is SpoolState.ALIVE for spool in spools_below(folder)):
            if self.supervisor.stopping.wait(0.2):
                return
        remove_spools(folder)
        while not self.supervisor.stopping.is_set():
            try:
                with self.database.writing() as session:
                    transitions.remove_finished_inline(session, operation.id)
                return
            except Unavailable:
                self.supervisor.stopping.wait(1.0)


def _nothing_started(operation: Operation) -> bool:
    folder = Path(operation.spool or "/nonexistent") / str(operation.attempt)
    started_here = any(spool.settle() is not SpoolState.NEVER_STARTED for spool in spools_below(folder))
    return not started_here and not any_started_remotely(folder)
