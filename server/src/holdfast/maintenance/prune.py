"""The operation kind `prune`: remove the archives that a retention policy does not keep."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from backup_protocol import JobKind, PruneBlock
from holdfast.maintenance import soft_delete
from holdfast.maintenance.reported import MOST_ARCHIVES, listed, noting, number
from holdfast.maintenance.retention import PruneParams, policy_values
from holdfast.operations.job_work import JobReport, JobWork, reported
from holdfast.operations.kinds import Effect, Kind
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.repositories.job_kinds import job_kind
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository


def kind(opener: Opener) -> Kind:
    return job_kind(
        opener,
        JobWork(JobKind.REPOSITORY_PRUNE, block, conclude, may_repeat=True),
        name="prune",
        category="maintenance",
        access=Access.CHANGE,
        params=PruneParams,
        effects=frozenset({Effect.ARCHIVES_CHANGED}),
        present=present,
    )


def present(operation: Operation) -> dict[str, Any]:
    result = operation.result or {}
    return {name: result.get(name) for name in ("keep", "prune", "kept_count", "pruned_count")}


def block(session: Session, operation: Operation) -> PruneBlock:
    repository = session.get_one(Repository, operation.repository_id)
    params = PruneParams.model_validate(operation.params)
    policy, series = params.policy(repository.retention), params.series_in(repository)
    if series is None:
        return PruneBlock(policy=policy_values(policy))
    return PruneBlock(policy=policy_values(policy), glob=series.glob, names=series.pattern)


def conclude(session: Session, operation: Operation, report: JobReport) -> Outcome:
    """Archives count as removed also where the job did not succeed: it has checked which are gone."""
    keep, pruned = _archives(report.details.get("keep")), _archives(report.details.get("prune"))
    result = {
        "keep": keep,
        "prune": pruned,
        "kept_count": number(report.details.get("kept_count"), len(keep)),
        "pruned_count": _pruned_count(report, len(pruned)),
        "policy": block(session, operation).policy,
        **(soft_delete.note_for(session.get_one(Repository, operation.repository_id)) if pruned else {}),
    }
    gone = tuple(archive["id"] for archive in pruned if archive["id"])
    record = noting(operation, report, "last_prune", gone=gone)
    return reported(report, result=result, had_effects=bool(gone), record=record)


def _pruned_count(report: JobReport, named: int) -> int | None:
    """None where that could not be checked."""
    if "pruned_count" in report.details:
        return number(report.details["pruned_count"], None)
    return named if report.succeeded or "prune" in report.details else None


def _archives(value: Any) -> list[dict[str, Any]]:
    """Archives as a prune lists them; anything else that an agent sent is left out."""
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
