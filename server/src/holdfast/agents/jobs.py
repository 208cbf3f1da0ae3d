"""The life of a job over the runtime routes. Every use case is one transaction that begins with the agent's own row."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from backup_protocol import FIRST_SEQUENCE, JobStatus
from holdfast.access import audit
from holdfast.agents import errors, job_logs, store
from holdfast.agents.credentials import KnownAgent
from holdfast.agents.fleet import Fleet, actor
from holdfast.agents.models import AgentJob, AgentJobPart, AgentMachine
from holdfast.agents.payload import Payloads
from holdfast.agents.reports import Body, cleaned_value, report_of
from holdfast.agents.schemas import Acknowledgement, Claimed, Job, LogEntryBody, LogsKept, PartBody
from holdfast.agents.words import job_status
from holdfast.errors import NotFound, Unprocessable
from holdfast.kit import clock
from holdfast.operations import store as operations
from holdfast.operations.agent_work import AgentReport
from holdfast.operations.kinds import Outcome, Registry, reported
from holdfast.operations.models import Operation
from holdfast.operations.status import TERMINAL, Status
from holdfast.runner.progress import ProgressBoard
from holdfast.storage.inserts import conflict_aware_insert
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.agents")

CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class Jobs:
    database: Database
    registry: Registry
    payloads: Payloads
    fleet: Fleet
    progress: ProgressBoard
    logs: Path

    # --- handing out -----------------------------------------------------------------------------------------------

    def poll(self, agent: KnownAgent, limit: int) -> list[Job]:
        """Jobs of this agent that may start now. Nothing is written unless there is one."""
        with self.database.reading() as session:
            if not startable(session, agent.id):
                return []
        with self.database.writing() as session:
            store.active(session, agent.id)
            found = [
                operation for operation in startable(session, agent.id) if self._can_be_prepared(session, operation)
            ]
            return [
                self._handed_out(session, operation, self._prepared(session, operation)) for operation in found[:limit]
            ]

    def claim(self, agent: KnownAgent, job_id: int) -> Claimed:
        """Make the job this agent's own. Claimed again, it gives the same answer."""
        with self.database.writing() as session:
            machine = store.active(session, agent.id)
            operation = own(session, agent, job_id)
            if operation.status == Status.PENDING:
                self._start(session, machine, operation)
            if Status(operation.status) in TERMINAL:
                raise errors.job_finished(job_id, job_status(operation, None))
            job = self._prepared(session, operation)
            return Claimed(job=self._handed_out(session, operation, job))

    def _start(self, session: Session, machine: AgentMachine, operation: Operation) -> None:
        job = self._prepared(session, operation)
        verdict = operations.claim_one(session, operation.id, machine.agent_id, None)
        session.refresh(operation)
        if operation.status == Status.PENDING:
            raise errors.not_yet(operation.id, verdict)
        if operation.status == Status.RUNNING:
            job.claimed_at = job.updated_at = clock.now()
            tell(session, machine.agent_id, operation, "job_claimed")

    def _prepared(self, session: Session, operation: Operation) -> AgentJob:
        """The job's row; made, with its payload, when the job is handed out for the first time."""
        job = session.get(AgentJob, operation.id)
        if job is not None:
            return job
        now = clock.now()
        values: dict[str, Any] = {
            "operation_id": operation.id,
            "agent_machine_id": operation.machine_id,
            "job_kind": operation.job_kind,
            "payload": self.payloads.build(session, operation),
            "log_ranges": [],
            "log_lines": 0,
            "created_at": now,
            "updated_at": now,
        }
        session.execute(conflict_aware_insert(session, AgentJob).values(values).on_conflict_do_nothing())
        return session.get_one(AgentJob, operation.id)

    def _can_be_prepared(self, session: Session, operation: Operation) -> bool:
        """False for a job that no payload can be made for. It ends: every poll would stumble over it otherwise."""
        try:
            with session.begin_nested():
                self._prepared(session, operation)
        except (NotFound, Unprocessable, ValueError, LookupError) as error:
            log.warning("a job cannot be handed out", operation_id=operation.id, kind=operation.kind, reason=str(error))
            sentence = "The stored parameters do not fit what the repository and this version of the service are."
            operations.fail_pending(session, operation.id, "operations.bad_parameters", sentence)
            return False
        return True

    def _handed_out(self, session: Session, operation: Operation, job: AgentJob) -> Job:
        return Job(
            id=operation.id,
            type=operation.kind,
            created_at=operation.created_at,
            payload=self.payloads.with_secrets(session, operation, job.payload),
            status=job_status(operation, job),
        )

    # --- while it runs ---------------------------------------------------------------------------------------------

    def status(self, agent: KnownAgent, job_id: int) -> Acknowledgement:
        with self.database.reading() as session:
            operation = own(session, agent, job_id)
            job = session.get(AgentJob, job_id)
            stored = job_logs.next_sequence(job.log_ranges if job else [], FIRST_SEQUENCE)
            return acknowledged(operation, job, next_sequence=stored)

    def start(self, agent: KnownAgent, job_id: int, started_at: datetime) -> Acknowledgement:
        with self.database.writing() as session:
            machine = store.active(session, agent.id)
            operation, job = self._claimed(session, agent, job_id)
            if operation.status == Status.RUNNING and job is not None and job.started_at is None:
                job.started_at = self._corrected(machine, started_at, job)
                job.updated_at = clock.now()
                operations.note(session, operation.id, operation.repository_id, Status.RUNNING, job_status="running")
                tell(session, agent.agent_id, operation, "job_started")
            return acknowledged(operation, job)

    def report_progress(self, agent: KnownAgent, job_id: int, values: dict[str, Any]) -> Acknowledgement:
        """For a job that memory does not know as running; what it says is kept if the store knows it."""
        with self.database.reading() as session:
            store.seen(session, agent.id)
            operation, job = self._claimed(session, agent, job_id)
            if operation.status == Status.RUNNING:
                redactor = self.payloads.redactor(session, operation)
                self.progress.put(job_id, operation.attempt, redacted(values, redactor))
            return acknowledged(operation, job)

    def keep_logs(self, agent: KnownAgent, job_id: int, entries: Sequence[LogEntryBody]) -> LogsKept:
        """Lines of a job that has ended are kept too: they tell how it ended."""
        with self.database.writing() as session:
            store.active(session, agent.id)
            operation, job = self._claimed(session, agent, job_id, locked=True)
            if job is None or operation.log_file is None:
                return LogsKept(accepted=0, duplicate=len(entries))
            redactor = self.payloads.redactor(session, operation)
            accepted, duplicate = job_logs.keep(job, self.logs / operation.log_file, entries, redactor)
        return LogsKept(accepted=accepted, duplicate=duplicate)

    def keep_part(self, agent: KnownAgent, job_id: int, body: PartBody) -> None:
        with self.database.writing() as session:
            store.active(session, agent.id)
            operation, job = self._claimed(session, agent, job_id)
            if operation.status == Status.RUNNING and job is not None:
                items = cleaned_value(body.items, self.payloads.redactor(session, operation))
                values = {"operation_id": job_id, "part": body.part, "items": items}
                session.execute(conflict_aware_insert(session, AgentJobPart).values(values).on_conflict_do_nothing())

    # --- the end ---------------------------------------------------------------------------------------------------

    def end(self, agent: KnownAgent, job_id: int, body: Body, *, must_be_asked_for: bool = False) -> Acknowledgement:
        """Record how a job ended. On one that has ended before, nothing changes and the answer says how it ended."""
        with self.database.writing() as session:
            machine = store.active(session, agent.id)
            operation, job = self._claimed(session, agent, job_id, locked=True)
            if operation.status == Status.RUNNING and job is not None:
                if must_be_asked_for and operation.cancel_requested_at is None:
                    raise errors.cancel_not_requested(job_id)
                self._finish(session, machine, operation, job, body)
                session.refresh(operation)
        if Status(operation.status) in TERMINAL:
            self.progress.forget(job_id)
        return acknowledged(operation, job)

    def _finish(self, session: Session, agent: AgentMachine, operation: Operation, job: AgentJob, body: Body) -> None:
        parts = body.result.parts if body.result else 0
        report = report_of(body, joined_parts(session, operation.id, parts), self.payloads.redactor(session, operation))
        finish(session, self.registry, operation, report, self._last_progress(operation, report))
        job.completed_at = self._corrected(agent, body.completed_at, job)
        job.started_at = job.started_at or job.claimed_at
        job.report = {
            "return_code": report.return_code,
            "error_key": report.error_key,
            "archive_name": report.archive_name,
            "stats": dict(report.stats),
        }
        job.updated_at = clock.now()
        for part in session.scalars(select(AgentJobPart).where(AgentJobPart.operation_id == operation.id)):
            session.delete(part)
        tell(session, agent.agent_id, operation, f"job_{_end_word(report)}", return_code=report.return_code)

    def _last_progress(self, operation: Operation, report: AgentReport) -> dict[str, Any]:
        """What was told on the way, and the sizes of the end: they are there the moment the status says so."""
        last = self.progress.latest(operation.id) or operation.progress or {}
        final = {name: value for name, value in report.stats.items() if value is not None}
        done = {"progress_percent": 100.0, "estimated_time_remaining": 0} if report.succeeded else {}
        return {**last, **final, **done}

    # --- parts -----------------------------------------------------------------------------------------------------

    def _claimed(
        self, session: Session, agent: KnownAgent, job_id: int, *, locked: bool = False
    ) -> tuple[Operation, AgentJob | None]:
        """The agent's own job, once it has been claimed. Raise NotFound or Conflict."""
        job = session.get(AgentJob, job_id, with_for_update=True) if locked else session.get(AgentJob, job_id)
        operation = own(session, agent, job_id)
        if operation.status == Status.PENDING:
            raise errors.not_claimed(job_id, JobStatus.QUEUED)
        return operation, job

    def _corrected(self, agent: AgentMachine, moment: datetime | None, job: AgentJob) -> datetime:
        """An agent's time by our clock, never before the claim and never after now."""
        now = clock.now()
        if moment is None:
            return now
        try:
            by_our_clock = moment - timedelta(seconds=self.fleet.skew(agent) or 0.0)
        except OverflowError:
            return now  # a clock at the end of the calendar
        return min(max(by_our_clock, job.claimed_at or by_our_clock), now)


def own(session: Session, agent: KnownAgent, job_id: int) -> Operation:
    """A job of this agent. Raise NotFound for any other: whether it exists is not this agent's to know."""
    operation = operations.get(session, job_id)
    if operation is None or operation.executor != "agent" or operation.machine_id != agent.id:
        raise errors.unknown_job(job_id)
    return operation


def startable(session: Session, agent_machine_id: int) -> list[Operation]:
    """Waiting operations of an agent that its lanes and its capabilities let start now, in queue order."""
    statement = (
        select(Operation)
        .where(
            Operation.status == Status.PENDING,
            Operation.executor == "agent",
            Operation.machine_id == agent_machine_id,
        )
        .order_by(Operation.queue_rank, Operation.id)
        .limit(CANDIDATES)
    )
    waiting = list(session.scalars(statement))
    lanes = {operation.lock_key for operation in waiting if operation.lock_key is not None}
    if not lanes:
        return []
    _, judged = operations.verdicts(session, clock.now(), only_lanes=sorted(lanes), everyone=True, agent_is_here=True)
    return [operation for operation in waiting if operation.id in judged and judged[operation.id].may_start]


def finish(
    session: Session,
    registry: Registry,
    operation: Operation,
    report: AgentReport,
    progress: dict[str, Any] | None = None,
) -> None:
    """End an operation as its kind concludes from the report. A report that cannot be stored still ends it."""
    kind = registry.kinds.get(operation.kind)
    outcome = reported(report)
    try:
        with session.begin_nested():
            if kind is not None and kind.agent is not None:
                outcome = kind.agent.conclude(session, operation, report)
            if outcome.record is not None:
                outcome.record(session)
            _end(session, registry, operation, outcome, progress)
    except (SQLAlchemyError, ValueError, TypeError, LookupError, ArithmeticError):
        log.exception("a report could not be used in full", operation_id=operation.id, kind=operation.kind)
        _end(session, registry, operation, reported(report), progress)


def _end(
    session: Session, registry: Registry, operation: Operation, outcome: Outcome, progress: dict[str, Any] | None
) -> None:
    operations.finish(
        session,
        registry,
        operation,
        outcome.status,
        error_key=outcome.error_key,
        error_message=outcome.error_message,
        result=dict(outcome.result) if outcome.result is not None else None,
        warnings=[dict(warning) for warning in outcome.warnings],
        archive_name=outcome.archive_name,
        progress=progress,
        had_effects=outcome.had_effects,
    )


def joined_parts(session: Session, job_id: int, parts: int) -> list[dict[str, Any]] | None:
    """The items of a result that came in parts, None if none did. Raise Conflict if one is missing."""
    if not parts:
        return None
    wanted = AgentJobPart.operation_id == job_id, AgentJobPart.part < parts
    if (session.scalar(select(func.count()).select_from(AgentJobPart).where(*wanted)) or 0) < parts:
        raise errors.parts_missing(job_id, parts)
    rows = session.scalars(select(AgentJobPart.items).where(*wanted).order_by(AgentJobPart.part))
    return [item for items in rows for item in items]


def redacted(values: dict[str, Any], redactor: Any) -> dict[str, Any]:
    return {name: redactor.redact(value) if isinstance(value, str) else value for name, value in values.items()}


def acknowledged(operation: Operation, job: AgentJob | None, **more: Any) -> Acknowledgement:
    return Acknowledgement(
        id=operation.id,
        status=job_status(operation, job),
        cancel_requested=operation.cancel_requested_at is not None,
        **more,
    )


def tell(session: Session, agent_id: str, operation: Operation, event: str, **details: Any) -> None:
    """Into the service's log and the audit trail."""
    log.info("a job of an agent", event_name=event, agent_id=agent_id, operation_id=operation.id, kind=operation.kind)
    audit.add(
        session,
        audit.entry(
            actor_user_id=None,
            actor=actor(agent_id),
            action=f"agent.{event}",
            object_type="operation",
            object_id=operation.id,
            details={"kind": operation.kind, **details},
        ),
    )


def end_unfinished(session: Session, registry: Registry, agent_machine_id: int, error_key: str, sentence: str) -> int:
    """End all that waits for or runs on an agent, as failed, in the transaction that shuts it out."""
    statement = select(Operation).where(
        Operation.executor == "agent",
        Operation.machine_id == agent_machine_id,
        Operation.status.in_((Status.PENDING, Status.RUNNING)),
    )
    operations.serialise_claims(session)
    unfinished = list(session.scalars(statement))
    for operation in unfinished:
        if operation.status == Status.RUNNING:
            finish(session, registry, operation, AgentReport(Status.FAILED, None, error_key, sentence))
        else:
            operations.fail_pending(session, operation.id, error_key, sentence)
    return len(unfinished)


def expire(database: Database, before: datetime) -> int:
    """End jobs that have waited for longer than the policy allows."""
    statement = select(Operation.id).where(
        Operation.status == Status.PENDING, Operation.executor == "agent", Operation.created_at < before
    )
    with database.reading() as session:
        old = list(session.scalars(statement))
    sentence = "No agent took the job before it expired."
    expired = 0
    for operation_id in old:
        with database.writing() as session:
            expired += operations.fail_pending(session, operation_id, "agents.expired", sentence)
    return expired


def _end_word(report: AgentReport) -> str:
    if report.status is Status.CANCELLED:
        return "canceled"
    return "completed" if report.succeeded else "failed"
