"""The lifecycle of a job on the runtime routes. Use cases that write run in one transaction, which first locks the
agent's row.
"""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from backup_engine import bounded_json
from backup_engine.frozen import frozen
from backup_protocol import FIRST_SEQUENCE, JobStatus
from holdfast.access import audit
from holdfast.agents import errors, identity, job_logs, lost_jobs, store
from holdfast.agents.credentials import KnownAgent
from holdfast.agents.fleet import Fleet, actor
from holdfast.agents.job_ends import finish
from holdfast.agents.job_status import job_status
from holdfast.agents.models import AgentJob, AgentJobPart, AgentMachine
from holdfast.agents.payload import Payloads
from holdfast.agents.reports import Body, Items, cleaned_value, report_of
from holdfast.agents.schemas import Acknowledgement, Claimed, Job, LogEntryBody, LogsKept, PartBody, StatsBody
from holdfast.errors import Conflict, Forbidden, NotFound, TooLarge, Unprocessable
from holdfast.kit import clock
from holdfast.operations import pages, queue, transitions, waiting_reasons
from holdfast.operations.end_time import recording_end, within
from holdfast.operations.job_work import JobReport, NothingToDo
from holdfast.operations.kinds import Registry
from holdfast.operations.logs import tail_path
from holdfast.operations.models import Operation
from holdfast.operations.status import TERMINAL, Status
from holdfast.runner.progress import ProgressCache
from holdfast.storage.inserts import conflict_aware_insert
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.agents")

CANDIDATES = 200
COUNTS = frozenset(StatsBody.model_fields)


@frozen
class Jobs:
    database: Database
    registry: Registry
    payloads: Payloads
    fleet: Fleet
    progress: ProgressCache
    logs: Path
    most_log_bytes: int
    most_parts: int
    most_part_bytes: int

    # --- handing out -----------------------------------------------------------------------------------------------

    def poll(self, agent: KnownAgent, limit: int) -> list[Job]:
        """Return this agent's jobs that can start now. Nothing is written if there are none."""
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
        """Assign the job to this agent. Repeated claims return the same answer."""
        with self.database.writing() as session:
            machine = store.active(session, agent.id)
            operation = own(session, agent, job_id)
            if operation.status == Status.PENDING:
                self._start(session, machine, operation)
            if Status(operation.status) in TERMINAL:
                raise Conflict(
                    "agents.job_finished",
                    "The job has ended and cannot be claimed.",
                    job_id=job_id,
                    status=job_status(operation, None),
                )
            job = self._prepared(session, operation)
            return Claimed(job=self._handed_out(session, operation, job))

    def _start(self, session: Session, machine: AgentMachine, operation: Operation) -> None:
        job = self._prepared(session, operation)
        verdict = queue.claim_one(session, operation.id, machine.agent_id, None)
        session.refresh(operation)
        if operation.status == Status.PENDING:
            raise Conflict(
                "agents.not_yet",
                "The job cannot start yet.",
                job_id=operation.id,
                reason=str(verdict.reason),
                behind_id=verdict.behind_id,
            )
        if operation.status == Status.RUNNING:
            job.claimed_at = job.updated_at = clock.now()
            record_event(session, machine.agent_id, operation, "job_claimed")

    def _prepared(self, session: Session, operation: Operation) -> AgentJob:
        """Return the job's row. It is created, with its payload, when the job is first handed out."""
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
        """Whether a payload can be built for the job. If not, the job is ended, or every poll would fail on it."""
        try:
            with session.begin_nested():
                self._prepared(session, operation)
        except NothingToDo as nothing:
            transitions.skip(session, operation.id, nothing.reason)
            return False
        except Forbidden as error:
            transitions.fail_pending(session, operation.id, error.key, error.message)
            return False
        except (NotFound, Unprocessable, ValueError, LookupError) as error:
            log.warning("a job cannot be handed out", operation_id=operation.id, kind=operation.kind, reason=str(error))
            sentence = "The stored parameters are not valid for the repository or this version of the service."
            transitions.fail_pending(session, operation.id, "operations.bad_parameters", sentence)
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

    def start(self, agent: KnownAgent, job_id: int, started_at: datetime | None) -> Acknowledgement:
        with self.database.writing() as session:
            machine = store.active(session, agent.id)
            operation, job = self._claimed(session, agent, job_id)
            if operation.status == Status.RUNNING and job is not None and job.started_at is None:
                job.started_at = self._corrected(machine, started_at, job)
                job.updated_at = clock.now()
                transitions.publish_status(
                    session, operation.id, operation.repository_id, Status.RUNNING, job_status="running"
                )
                record_event(session, agent.agent_id, operation, "job_started")
            return acknowledged(operation, job)

    def report_progress(self, agent: KnownAgent, job_id: int, values: dict[str, Any]) -> Acknowledgement:
        """Record progress of a job that is not cached as running, if the store confirms that it is the agent's."""
        with self.database.reading() as session:
            store.require_admitted(session, agent.id)
            operation, job = self._claimed(session, agent, job_id)
            if operation.status == Status.RUNNING:
                redactor = self.payloads.redactor(session, operation)
                self.progress.put(job_id, operation.attempt, redacted(values, redactor))
            return acknowledged(operation, job)

    def keep_logs(self, agent: KnownAgent, job_id: int, entries: Sequence[LogEntryBody]) -> LogsKept:
        """Store log lines, even for a job that has ended: they show how it ended."""
        with self.database.writing() as session:
            store.active(session, agent.id)
            operation, job = self._claimed(session, agent, job_id, locked=True)
            if job is None or operation.log_file is None:
                return LogsKept(accepted=0, duplicate=len(entries))
            redactor = self.payloads.redactor(session, operation)
            accepted, duplicate = job_logs.keep(
                job, self.logs / operation.log_file, entries, redactor, self.most_log_bytes
            )
        return LogsKept(accepted=accepted, duplicate=duplicate)

    def keep_part(self, agent: KnownAgent, job_id: int, body: PartBody) -> None:
        with self.database.writing() as session:
            store.active(session, agent.id)
            operation, job = self._claimed(session, agent, job_id, locked=True)
            if (
                operation.status == Status.RUNNING
                and job is not None
                and not store.has_part(session, job_id, body.part)
            ):
                items = cleaned_value(body.items, self.payloads.redactor(session, operation))
                job.part_bytes += bounded_json.weight(json.dumps(items).encode())
                if body.part >= self.most_parts:
                    raise TooLarge(
                        "agents.too_many_parts",
                        f"The result of a job may have at most {self.most_parts} parts.",
                        job_id=job_id,
                        maximum=self.most_parts,
                    )
                if job.part_bytes > self.most_part_bytes:
                    raise TooLarge(
                        "agents.parts_too_large",
                        f"The parts of a job's result may take at most {self.most_part_bytes} bytes of memory; the "
                        f"result is discarded.",
                        job_id=job_id,
                        maximum=self.most_part_bytes,
                    )
                session.add(AgentJobPart(operation_id=job_id, part=body.part, items=items))

    # --- the end ---------------------------------------------------------------------------------------------------

    def end(self, agent: KnownAgent, job_id: int, body: Body, *, must_be_asked_for: bool = False) -> Acknowledgement:
        """Record how a job ended. If it had already ended, nothing changes and its status is returned."""
        with self.database.writing() as session:
            machine = store.active(session, agent.id)
            self._take_back(session, machine, job_id)
            operation, job = self._claimed(session, agent, job_id, locked=True)
            if Status(operation.status) in TERMINAL and job is not None and job.claimed_at and job.report is None:
                self._keep_late(session, operation, job, body)
            if operation.status == Status.RUNNING and job is not None:
                if must_be_asked_for and operation.cancel_requested_at is None:
                    raise Conflict(
                        "agents.cancel_not_requested", "Cancellation of this job was not requested.", job_id=job_id
                    )
                self._finish(session, machine, operation, job, body)
                session.refresh(operation)
        if Status(operation.status) in TERMINAL:
            self.progress.forget(job_id)
        return acknowledged(operation, job)

    def _take_back(self, session: Session, machine: AgentMachine, job_id: int) -> None:
        """Restart a job that counted as lost and is queued for another attempt, because its agent has a result."""
        operation = pages.get(session, job_id)
        waits_again = operation is not None and operation.status == Status.PENDING and operation.attempt > 1
        if operation is not None and waits_again and operation.machine_id == machine.id:
            self._start(session, machine, operation)

    def _keep_late(self, session: Session, operation: Operation, job: AgentJob, body: Body) -> None:
        """Keep a late report of a job that was ended without its agent: its status stays, and the log mentions the
        report.

        If the job succeeded, the index is updated.
        """
        report = self._report(session, operation, body, None)
        job.report = {**_summary(report), "late": True}
        sentence = f"The agent reported later that the job {_end_word(report)}."
        if operation.log_file is not None:
            job.log_lines = job_logs.append(
                self.logs / operation.log_file, job.log_lines, [sentence], self.most_log_bytes, is_end=True
            )
        job.updated_at = clock.now()
        if report.succeeded:
            transitions.notify_listeners(session, self.registry, operation.id)

    def _finish(self, session: Session, agent: AgentMachine, operation: Operation, job: AgentJob, body: Body) -> None:
        parts = body.result.parts if body.result else 0
        report = self._report(session, operation, body, joined_parts(session, operation.id, parts))
        job.completed_at = self._corrected(agent, body.completed_at, job)
        with recording_end(session, job.completed_at):
            finish(session, self.registry, operation, report, self._last_progress(operation, report))
        job.started_at = job.started_at or job.claimed_at
        job.report = _summary(report)
        job.updated_at = clock.now()
        session.refresh(operation)
        if operation.kind == lost_jobs.EVIDENCE:
            lost_jobs.apply_evidence(session, self.registry, operation, report)
        else:
            lost_jobs.ask_for_name(session, self.registry, operation)
        self._finish_log(operation, job)
        store.forget_parts(session, job)
        record_event(session, agent.agent_id, operation, f"job_{_end_word(report)}", return_code=report.return_code)

    def _report(self, session: Session, operation: Operation, body: Body, items: Items) -> JobReport:
        report = report_of(body, items, self.payloads.redactor(session, operation))
        return identity.compared(session, operation, report)

    def _finish_log(self, operation: Operation, job: AgentJob) -> None:
        """Append the retained end of a log that was too large."""
        file = self.logs / operation.log_file if operation.log_file else None
        if file is not None and tail_path(file).exists():
            job.log_lines = job_logs.append(file, job.log_lines, [], self.most_log_bytes, is_end=True)

    def _last_progress(self, operation: Operation, report: JobReport) -> dict[str, Any]:
        """The final progress to keep.

        For a successful job, the counts come from its result; counts that it does not contain are dropped.
        """
        last = self.progress.latest(operation.id) or operation.progress or {}
        if not report.succeeded:
            return {**last, **report.stats}
        kept = {name: value for name, value in last.items() if name not in COUNTS}
        return {**kept, **report.stats, "progress_percent": 100.0, "estimated_time_remaining": 0}

    # --- parts -----------------------------------------------------------------------------------------------------

    def _claimed(
        self, session: Session, agent: KnownAgent, job_id: int, *, locked: bool = False
    ) -> tuple[Operation, AgentJob | None]:
        """Return the agent's own job if it has been claimed. Raise NotFound or Conflict."""
        job = session.get(AgentJob, job_id, with_for_update=True) if locked else session.get(AgentJob, job_id)
        operation = own(session, agent, job_id)
        if operation.status == Status.PENDING:
            raise Conflict(
                "agents.not_claimed", "The job has not been claimed.", job_id=job_id, status=JobStatus.QUEUED
            )
        return operation, job

    def _corrected(self, agent: AgentMachine, moment: datetime | None, job: AgentJob) -> datetime:
        """Convert a time reported by the agent to our clock, limited to between the claim and now."""
        try:
            by_our_clock = moment - timedelta(seconds=self.fleet.skew(agent) or 0.0) if moment is not None else None
        except OverflowError:
            by_our_clock = None  # the reported time is at the limit of the calendar
        return within(by_our_clock, job.claimed_at)


def own(session: Session, agent: KnownAgent, job_id: int) -> Operation:
    """Return one of this agent's jobs. Raise NotFound for others, so that an agent cannot learn whether they exist."""
    operation = pages.get(session, job_id)
    if operation is None or operation.executor != "agent" or operation.machine_id != agent.id:
        raise errors.unknown_job(job_id)
    return operation


def startable(session: Session, agent_machine_id: int) -> list[Operation]:
    """Return the agent's pending operations that its lanes and capabilities allow to start now, in queue order.

    A lane with many waiting operations does not hide operations that can start in another lane.
    """
    own = (
        Operation.status == Status.PENDING,
        Operation.executor == "agent",
        Operation.machine_id == agent_machine_id,
    )
    lanes = session.scalars(select(Operation.lock_key).where(*own, Operation.lock_key.is_not(None)).distinct())
    wanted = sorted(lane for lane in lanes if lane is not None)
    if not wanted:
        return []
    waiting, judged = waiting_reasons.verdicts(
        session, clock.now(), only_lanes=wanted, everyone=True, agent_is_here=True
    )
    ids = [waiter.id for waiter in waiting if waiter.executor == "agent" and judged[waiter.id].may_start]
    found = {
        operation.id: operation
        for operation in session.scalars(select(Operation).where(*own, Operation.id.in_(ids[:CANDIDATES])))
    }
    return [found[number] for number in ids if number in found]


def joined_parts(session: Session, job_id: int, parts: int) -> list[dict[str, Any]] | None:
    """Join the items of a result that came in parts; None if none did. Raise Conflict if a part is missing."""
    if not parts:
        return None
    wanted = AgentJobPart.operation_id == job_id, AgentJobPart.part < parts
    if (session.scalar(select(func.count()).select_from(AgentJobPart).where(*wanted)) or 0) < parts:
        raise Conflict("agents.parts_missing", "Parts of the result are missing.", job_id=job_id, parts=parts)
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


def record_event(session: Session, agent_id: str, operation: Operation, event: str, **details: Any) -> None:
    """Record an event in the service's log and the audit trail."""
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
    """Fail all pending and running jobs of an agent, in the transaction that shuts it out."""
    statement = select(Operation).where(
        Operation.executor == "agent",
        Operation.machine_id == agent_machine_id,
        Operation.status.in_((Status.PENDING, Status.RUNNING)),
    )
    queue.serialise_claims(session)
    unfinished = list(session.scalars(statement))
    for operation in unfinished:
        if operation.status == Status.RUNNING:
            finish(session, registry, operation, JobReport(Status.FAILED, None, error_key, sentence))
        else:
            transitions.fail_pending(session, operation.id, error_key, sentence)
    return len(unfinished)


def end_orphans(database: Database, registry: Registry) -> int:
    """Fail jobs of agents that no longer exist.

    Deleting an agent ends its jobs; this catches jobs that were queued at the same moment.
    """
    orphans = select(Operation.machine_id).where(
        Operation.executor == "agent",
        Operation.status.in_((Status.PENDING, Status.RUNNING)),
        ~exists().where(AgentMachine.id == Operation.machine_id),
    )
    with database.reading() as session:
        gone = {number for number in session.scalars(orphans.distinct()) if number is not None}
    if not gone:
        return 0
    sentence = "The job's agent was deleted before the job ended."
    with database.writing() as session:
        return sum(end_unfinished(session, registry, number, "agents.revoked", sentence) for number in sorted(gone))


def expire(database: Database, before: datetime) -> int:
    """Fail jobs that have been pending since before the given time."""
    statement = select(Operation.id).where(
        Operation.status == Status.PENDING, Operation.executor == "agent", Operation.created_at < before
    )
    with database.reading() as session:
        old = list(session.scalars(statement))
    sentence = "No agent took the job before it expired."
    expired = 0
    for operation_id in old:
        with database.writing() as session:
            expired += transitions.fail_pending(session, operation_id, "agents.expired", sentence)
    return expired


def _summary(report: JobReport) -> dict[str, Any]:
    return {
        "return_code": report.return_code,
        "error_key": report.error_key,
        "archive_name": report.archive_name,
        "stats": dict(report.stats),
    }


def _end_word(report: JobReport) -> str:
    if report.status is Status.CANCELLED:
        return "canceled"
    return "completed" if report.succeeded else "failed"
