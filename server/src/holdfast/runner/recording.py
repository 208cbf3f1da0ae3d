"""Records how an attempt ended, in one transaction, retried until the store accepts it."""

import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_engine.process import remove_spools
from backup_jobs.host import Stopping
from holdfast.errors import Unavailable
from holdfast.operations import transitions
from holdfast.operations.end_time import recording_end, within
from holdfast.operations.kinds import Registry
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.runner.attempt import Attempt
from holdfast.runner.progress import ProgressCache
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.runner")

MAX_ATTEMPTS = 3


class OperationLost(Exception):
    """The operation no longer belongs to this runner, so nothing about its end may be stored."""


@frozen
class Recorder:
    database: Database
    registry: Registry
    progress_cache: ProgressCache
    stopping: threading.Event

    def end(self, operation: Operation, attempt: Attempt | None, ending: Outcome | TryAgain) -> None:
        """Record how the operation ended, retrying until the store accepts it."""
        if isinstance(ending, TryAgain) and attempt is not None and attempt.is_cancelled():
            ending = given_up(ending, Status.CANCELLED)
        if isinstance(ending, TryAgain) and operation.attempt >= MAX_ATTEMPTS:
            ending = given_up(ending, Status.FAILED)
        if attempt is not None and ending_sentence(ending):
            attempt.log(ending_sentence(ending))
        lines = attempt.log_lines if attempt else operation.log_base_line
        ended_at = end_of(operation, attempt, ending)
        try:
            self._record_when_possible(operation, lines, ending, ended_at)
        except (SQLAlchemyError, ValueError):
            log.exception("the store refuses the details of an end", kind=operation.kind)
            self._record_when_possible(operation, lines, without_details(ending), ended_at)

    def _record_when_possible(
        self, operation: Operation, lines: int, ending: Outcome | TryAgain, ended_at: datetime
    ) -> None:
        while True:
            try:
                self._record(operation, lines, ending, ended_at)
                return
            except OperationLost:
                log.warning("another process has taken the operation over", kind=operation.kind)
                return
            except Unavailable:
                log.warning("the store does not accept the end of an operation yet", kind=operation.kind)
                if self.stopping.wait(1.0):
                    raise Stopping from None

    def _record(self, operation: Operation, lines: int, ending: Outcome | TryAgain, ended_at: datetime) -> None:
        """Record the end, then remove the spools: as long as they exist, everything can be determined again."""
        with self.database.writing() as session, recording_end(session, ended_at):
            if ending.record is not None:
                ending.record(session)
            if isinstance(ending, TryAgain):
                again = self._requeue(session, operation, lines, ending)
            else:
                again = False
                self._finish(session, operation, ending)
        if operation.spool is None:
            return
        # The next attempt may already have started, in a folder beside this one.
        remove_spools(Path(operation.spool) / str(operation.attempt) if again else Path(operation.spool))

    def _requeue(self, session: Session, operation: Operation, lines: int, ending: TryAgain) -> bool:
        """Queue the next attempt. Return False if the operation has just been cancelled and was therefore ended."""
        again = transitions.requeue_for_next_attempt(
            session, operation, log_lines=lines, delay_seconds=ending.delay_seconds, result=ending.result
        )
        if not again:
            self._finish(session, operation, given_up(ending, Status.CANCELLED))
        elif ending.had_effects:
            transitions.notify_listeners(session, self.registry, operation.id)
        return again

    def _finish(self, session: Session, operation: Operation, ending: Outcome) -> None:
        ended = transitions.finish(session, self.registry, operation, ending, self.progress_cache.latest(operation.id))
        if not ended:
            raise OperationLost


def end_of(operation: Operation, attempt: Attempt | None, ending: Outcome | TryAgain) -> datetime:
    """Return when the work ended, by the engine's own record if there is one."""
    reported = ending.ended_at if isinstance(ending, Outcome) else None
    return within(reported or (attempt.ended_at() if attempt else None), operation.started_at)


def given_up(ending: TryAgain, status: Status) -> Outcome:
    """Return the outcome of an attempt that is not followed by another one."""
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
    """Return the bare ending, for a store that refuses its details."""
    if isinstance(ending, TryAgain):
        return TryAgain(ending.error_key, ending.error_message, ending.delay_seconds)
    return replace(ending, result=None, warnings=(), record=None)


def ending_sentence(ending: Outcome | TryAgain) -> str:
    """Return the last line for an attempt's log; empty if the engine has already written one."""
    if isinstance(ending, TryAgain):
        return f"Will be retried: {ending.error_message}"
    if ending.status is Status.CANCELLED:
        return "Cancelled."
    return f"Failed: {ending.error_message}" if ending.error_message else ""
