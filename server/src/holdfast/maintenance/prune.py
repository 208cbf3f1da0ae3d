"""The operation kind `prune`: remove the archives that a retention policy does not keep."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from backup_protocol import Capability, JobKind, PruneBlock
from holdfast.maintenance import soft_delete
from holdfast.maintenance.job_reports import MOST_ARCHIVES, evidence_record, listed, number
from holdfast.maintenance.kinds import maintenance_job
from holdfast.maintenance.retention import PruneParams, policy_values
from holdfast.operations.job_work import JobReport, JobWork, NothingToDo, reported
from holdfast.operations.kinds import CHANGES_ARCHIVES, Kind
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.repositories import agent_target, protection
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository


def kind(opener: Opener) -> Kind:
    job = JobWork(JobKind.REPOSITORY_PRUNE, block, conclude, may_repeat=True)
    shown = ("keep", "prune", "kept_count", "pruned_count")
    return maintenance_job(opener, job, "prune", PruneParams, *shown, effects=CHANGES_ARCHIVES)


def block(session: Session, operation: Operation) -> PruneBlock:
    """Raise NothingToDo if the agent cannot spare protected archives."""
    repository = session.get_one(Repository, operation.repository_id)
    protected = protection.engine_ids(session, repository.id)
    agent = operation.machine_id if operation.executor == "agent" else None
    if protected and not agent_target.can(session, agent, Capability.ARCHIVES_PROTECTED):
        raise NothingToDo("agent_unsupported")
    series = PruneParams.model_validate(operation.params).series_in(repository)
    return PruneBlock(
        policy=_policy(repository, operation),
        glob=series.glob if series else None,
        names=series.pattern if series else None,
        protected=protected,
    )


def _policy(repository: Repository, operation: Operation) -> dict[str, Any]:
    return policy_values(PruneParams.model_validate(operation.params).policy(repository.retention))


def conclude(session: Session, operation: Operation, report: JobReport) -> Outcome:
    """Record the result. Archives may be gone even if the job failed: it has checked which are."""
    repository = session.get_one(Repository, operation.repository_id)
    keep, pruned = _archives(report.details.get("keep")), _archives(report.details.get("prune"))
    result = {
        "keep": keep,
        "prune": pruned,
        "kept_count": number(report.details.get("kept_count"), len(keep)),
        "pruned_count": _pruned_count(report, len(pruned)),
        "policy": _policy(repository, operation),
        **(soft_delete.note_for(repository) if pruned else {}),
    }
    gone = tuple(archive["id"] for archive in pruned if archive["id"])
    record = evidence_record(operation, report, "last_prune", gone=gone)
    return reported(report, result=result, had_effects=bool(gone), record=record)


def _pruned_count(report: JobReport, named: int) -> int | None:
    """The number of removed archives; None if that could not be checked."""
    if "pruned_count" in report.details:
        return number(report.details["pruned_count"], None)
    return named if report.succeeded or "prune" in report.details else None


def _archives(value: Any) -> list[dict[str, Any]]:
    """The listed archives of a prune; anything else in an agent's report is left out."""
    return [
        {
            "archive": str(item["archive"]),
            "id": str(item["id"])[:64] if item.get("id") else None,
            "time": str(item.get("time") or ""),
            **({"rule": str(item["rule"])} if item.get("rule") else {}),
        }
        for item in listed(value)[:MOST_ARCHIVES]
        if isinstance(item, Mapping) and item.get("archive")
    ]
