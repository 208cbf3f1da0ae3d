"""Jobs that their agents have lost: detected by missing from heartbeats, ended by evidence from the repository.

An agent lists its jobs in `running_job_ids`. A job is lost if it has been missing from that list for longer than the
offline threshold, counted while the agent is online, and if no report about it has arrived either. An agent that is
silent has not lost any jobs.
"""

import json
import re
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_engine.results import ArchiveInfo, GarbledOutput, parse_archives
from backup_jobs.archive_keys import PREFIX, key_in
from backup_protocol import JobKind, ListBlock
from holdfast.agents import job_ends, store
from holdfast.agents.models import AgentJob
from holdfast.kit import clock
from holdfast.kit.schema import Schema
from holdfast.operations import queue, transitions
from holdfast.operations.context import Context
from holdfast.operations.end_time import recording_end
from holdfast.operations.job_work import JobReport, JobWork, reported
from holdfast.operations.kinds import Kind, Registry, failed_when_interrupted
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.queue import Origin
from holdfast.operations.status import SUCCEEDED, Status, Trigger
from holdfast.repositories import agent_target
from holdfast.repositories import store as repositories
from holdfast.repositories.archive_records import Archive
from holdfast.runner.recording import MAX_ATTEMPTS

log = structlog.get_logger("holdfast.agents")

EVIDENCE = "evidence"
MOST_QUESTIONS = 3
"""How often the repository is queried about one lost job before the agent counts as unable to answer."""
CLOCK_SLACK = timedelta(minutes=2)
LOST = "The agent reconnected without this job and sent no report for it."
UNCONFIRMED = (
    "The agent did not confirm that the engine has stopped; it may still run on its machine. If a result arrives "
    "later, it is added to the log."
)
CHECKPOINT = re.compile(r".*\.checkpoint(\.\d+)?")


# --- noticing --------------------------------------------------------------------------------------------------------


@frozen
class _Missing:
    since: float
    last: float
    """When a heartbeat last omitted the job."""


class MissingJobs:
    """Tracks which running jobs are missing from the heartbeats that this process receives, and since when."""

    def __init__(self, threshold_seconds: float) -> None:
        self._threshold = threshold_seconds
        self._guard = threading.Lock()
        self._missing: dict[int, _Missing] = {}
        self._reported: set[int] = set()

    def heartbeat(self, running: Collection[int], named: Collection[int]) -> None:
        """Process a heartbeat, given the agent's running jobs and the jobs that it lists."""
        if not running:
            return
        now = time.monotonic()
        with self._guard:
            for job in running:
                if job in named:
                    self._missing.pop(job, None)
                    continue
                known = self._missing.get(job)
                is_new = known is None or now - known.last > self._threshold  # the agent was offline in between
                self._missing[job] = _Missing(now if is_new or known is None else known.since, now)

    def report(self, job: int) -> None:
        """Note that the job is alive, because a report about it has arrived."""
        with self._guard:
            self._missing.pop(job, None)
            self._reported.add(job)

    def take_reported(self) -> list[int]:
        """Return the jobs with reports since the last call."""
        with self._guard:
            reported_jobs, self._reported = sorted(self._reported), set()
        return reported_jobs

    def lost(self) -> list[int]:
        """Jobs that have been missing for longer than the threshold, without a report to this process."""
        with self._guard:
            return sorted(job for job, seen in self._missing.items() if seen.last - seen.since >= self._threshold)

    def forget(self, job: int) -> None:
        """Restart the count for a job."""
        with self._guard:
            self._missing.pop(job, None)

    def keep_only(self, running: Collection[int]) -> None:
        with self._guard:
            for ended in [job for job in self._missing if job not in running]:
                del self._missing[ended]


def note_reports(session: Session, jobs: Sequence[int]) -> None:
    """Record in the store, for the other processes, that these jobs are alive."""
    if jobs:
        session.execute(update(AgentJob).where(AgentJob.operation_id.in_(jobs)).values(updated_at=clock.now()))


# --- ending ----------------------------------------------------------------------------------------------------------


def end_lost(session: Session, registry: Registry, job_id: int, threshold_seconds: float) -> None:
    """End a lost job by evidence, or start gathering it. Does nothing if another process has recent news of the job."""
    job = session.get(AgentJob, job_id, with_for_update=True)
    operation = session.get(Operation, job_id, populate_existing=True)
    if job is None or operation is None or operation.status != Status.RUNNING or operation.cancel_requested_at:
        return
    if clock.seconds_between(job.updated_at, clock.now()) < threshold_seconds:
        return
    log.warning("an agent has lost a job", operation_id=operation.id, kind=operation.kind, agent=operation.machine_id)
    kind = registry.kinds.get(operation.kind)
    work = kind.agent if kind else None
    if work is not None and work.leaves_archive and _may_be_asked(session, operation):
        _ask(session, registry, operation, own_lane=True)
    else:
        _interrupt(session, registry, operation, job, work)


def end_unconfirmed(session: Session, registry: Registry, job_id: int) -> None:
    """End a job that should have stopped long ago without a confirmation from its agent."""
    operation = session.get(Operation, job_id, populate_existing=True)
    if operation is None or operation.status != Status.RUNNING or operation.cancel_requested_at is None:
        return
    log.warning("a cancel was never confirmed", operation_id=operation.id, agent=operation.machine_id)
    report = JobReport(Status.CANCELLED, None, "agents.cancel_unconfirmed", UNCONFIRMED)
    job_ends.finish(session, registry, operation, report, operation.progress)


def unconfirmed_since(session: Session, before: datetime) -> list[int]:
    """Running jobs whose cancellation was requested before this time."""
    return list(session.scalars(_UNCONFIRMED.where(Operation.cancel_requested_at < before)))


def _may_be_asked(session: Session, operation: Operation) -> bool:
    """Whether the repository can be queried: False if the agent cannot list archives or was asked often enough."""
    if not agent_target.can(session, operation.machine_id, JobKind.ARCHIVES_LIST):
        return False
    asked = select(func.count()).where(Operation.parent_id == operation.id, Operation.kind == EVIDENCE)
    return (session.scalar(asked) or 0) < MOST_QUESTIONS


def _interrupt(session: Session, registry: Registry, operation: Operation, job: AgentJob, work: JobWork | None) -> None:
    """Handle a job whose outcome is unknown: repeat it if that is harmless, otherwise mark it as failed."""
    may_repeat = work is not None and work.may_repeat and operation.attempt < MAX_ATTEMPTS
    if may_repeat and transitions.requeue_for_next_attempt(
        session, operation, log_lines=job.log_lines, delay_seconds=0.0
    ):
        job.claimed_at = job.started_at = None
        job.log_ranges = []
        store.forget_parts(session, job)
        job.updated_at = clock.now()
        return
    report = JobReport(Status.FAILED, None, "operations.interrupted", LOST)
    job_ends.finish(session, registry, operation, report, operation.progress)


# --- asking the repository -------------------------------------------------------------------------------------------


class EvidenceParams(Schema):
    operation_id: int


def evidence_kind() -> Kind:
    """The kind of operation that lists archives to find out how a backup ended."""
    return Kind(
        name=EVIDENCE,
        category="maintenance",
        access=Access.READ,
        params=EvidenceParams,
        run=_only_on_agents,
        on_interrupted=failed_when_interrupted,
        agent=JobWork(JobKind.ARCHIVES_LIST, _no_block, _conclude),
    )


def ask_for_name(session: Session, registry: Registry, operation: Operation) -> None:
    """After a backup whose agent did not report the archive's name, have the agent list the archives, if it can."""
    kind = registry.kinds.get(operation.kind)
    is_nameless = Status(operation.status) in SUCCEEDED and operation.archive_name is None
    if kind is None or kind.agent is None or not kind.agent.leaves_archive or not is_nameless:
        return
    if _may_be_asked(session, operation):
        _ask(session, registry, operation, own_lane=False)


def _ask(session: Session, registry: Registry, operation: Operation, *, own_lane: bool) -> None:
    waiting = select(Operation.id).where(
        Operation.parent_id == operation.id,
        Operation.kind == EVIDENCE,
        Operation.status.in_((Status.PENDING, Status.RUNNING)),
    )
    repository = repositories.get(session, operation.repository_id or 0)
    if repository is None or session.scalars(waiting.limit(1)).first() is not None:
        return
    # A lost job still holds the repository's lane, so this query uses its own lane.
    kind = registry.kinds[EVIDENCE]
    if own_lane:
        kind = replace(kind, access=Access.CHANGE, lock_key=f"evidence:{operation.id}")
    queue.enqueue(
        session,
        kind,
        {"operation_id": operation.id},
        Origin(Trigger.FOLLOWUP, run_id=operation.run_id, parent_id=operation.id),
        subject=repositories.subject(repository),
    )


def apply_evidence(session: Session, registry: Registry, asked: Operation, report: JobReport) -> None:
    """Record what the agent's answer to a query proves."""
    operation = session.get(Operation, int(asked.params.get("operation_id") or 0), populate_existing=True)
    job = session.get(AgentJob, operation.id, with_for_update=True) if operation else None
    kind = registry.kinds.get(operation.kind) if operation else None
    if operation is None or job is None or kind is None or kind.agent is None or not report.succeeded:
        return
    found = _made_by(session, operation, job, report.items or ())
    if operation.status == Status.RUNNING and operation.cancel_requested_at is None:
        if found is None:
            _interrupt(session, registry, operation, job, kind.agent)
        else:
            _complete(session, registry, operation, found)
    elif Status(operation.status) in SUCCEEDED and operation.archive_name is None and found is not None:
        _name(session, kind.agent, operation, found)


@frozen
class _Found:
    archive: ArchiveInfo
    document: Mapping[str, Any]

    def report(self, status: Status, **more: Any) -> JobReport:
        details = {"archive": dict(self.document), "by_evidence": True}
        return JobReport(status, archive_name=self.archive.name, details=details, **more)


def _complete(session: Session, registry: Registry, operation: Operation, found: _Found) -> None:
    ended_at = found.archive.end or found.archive.start
    began = operation.started_at or ended_at
    with recording_end(session, min(max(ended_at, began), clock.now())):
        job_ends.finish(session, registry, operation, found.report(Status.COMPLETED), operation.progress)


def _name(session: Session, work: JobWork, operation: Operation, found: _Found) -> None:
    """Complete the record of a backup whose archive name was unknown."""
    known = operation.result or {}
    report = found.report(Status(operation.status), stats=known.get("stats") or {})
    outcome = work.conclude(session, operation, replace(report, return_code=known.get("return_code")))
    with recording_end(session, operation.completed_at or clock.now()):
        if outcome.record is not None:
            outcome.record(session)
    result = {**known, "archive": (outcome.result or {}).get("archive")}
    result.pop("archive_name_template", None)
    transitions.name_archive(session, operation, found.archive.name, result)


def _made_by(
    session: Session, operation: Operation, job: AgentJob, items: Sequence[Mapping[str, Any]]
) -> _Found | None:
    """Find the archive of a backup: the one with its key, or the only new one whose name matches the template."""
    found = _read(items)
    key = f"{PREFIX}{operation.uuid}"
    by_key = next((each for each in found if key_in(each.archive.comment) == key), None)
    if by_key is not None or job.claimed_at is None:
        return by_key
    template = str((job.payload.get("backup") or {}).get("archive_name") or "")
    earliest = job.claimed_at - CLOCK_SLACK
    named = [
        each
        for each in found
        if each.archive.start >= earliest
        and _fits(template, each.archive.name)
        and key_in(each.archive.comment) is None
    ]
    taken = select(Archive.engine_id).where(
        Archive.repository_id == operation.repository_id,
        Archive.backup_operation_id.is_not(None),
        Archive.backup_operation_id != operation.id,
    )
    others = set(session.scalars(taken))
    own = [each for each in named if each.archive.id not in others]
    return own[0] if len(own) == 1 else None


def _read(items: Sequence[Mapping[str, Any]]) -> list[_Found]:
    found = []
    for item in items:
        try:
            found += [_Found(archive, item) for archive in parse_archives(_listing(item))]
        except GarbledOutput:
            continue
    return found


def _listing(item: Mapping[str, Any]) -> bytes:
    return json.dumps({"archives": [item]}).encode()


def _fits(template: str, name: str) -> bool:
    """Whether the engine could have created this name from the template. Checkpoints do not count as archives."""
    pattern = "".join(".+" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{[^}]*\})", template))
    return bool(template) and re.fullmatch(pattern, name) is not None and CHECKPOINT.fullmatch(name) is None


def _only_on_agents(context: Context) -> Outcome:
    del context
    return Outcome(Status.FAILED, "operations.internal", "Operations of the kind evidence are executed by agents.")


def _no_block(session: Session, operation: Operation) -> ListBlock:
    del session, operation
    return ListBlock()


def _conclude(session: Session, operation: Operation, report: JobReport) -> Outcome:
    del session, operation
    return reported(report)


_UNCONFIRMED = select(Operation.id).where(
    Operation.status == Status.RUNNING, Operation.executor == "agent", Operation.cancel_requested_at.is_not(None)
)
