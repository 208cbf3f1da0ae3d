"""Maintenance that an agent does on its machine."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_protocol import JobKind
from holdfast.kit import clock
from holdfast.maintenance import soft_delete
from holdfast.maintenance.retention import PruneParams, policy_values
from holdfast.maintenance.schemas import CheckBody, CompactBody, DeleteParams
from holdfast.operations.agent_work import AgentReport, AgentWork
from holdfast.operations.kinds import Outcome, reported
from holdfast.operations.models import Operation
from holdfast.repositories import archive_records, store
from holdfast.repositories.models import Repository

MOST_ARCHIVES = 100_000


def check_work() -> AgentWork:
    return AgentWork(JobKind.REPOSITORY_CHECK, _check_payload, _conclude_check)


def prune_work() -> AgentWork:
    return AgentWork(JobKind.REPOSITORY_PRUNE, _prune_payload, _conclude_prune)


def compact_work() -> AgentWork:
    return AgentWork(JobKind.REPOSITORY_COMPACT, _compact_payload, _conclude_compact)


def delete_work() -> AgentWork:
    return AgentWork(JobKind.ARCHIVE_DELETE, _delete_payload, _conclude_delete)


# --- check -----------------------------------------------------------------------------------------------------------


def _check_payload(session: Session, operation: Operation) -> Mapping[str, Any]:
    del session
    params = CheckBody.model_validate(operation.params)
    return {"max_duration": params.max_duration, "verify_data": params.verify_data, "repair": params.repair}


def _conclude_check(session: Session, operation: Operation, report: AgentReport) -> Outcome:
    del session
    params = CheckBody.model_validate(operation.params)
    problems = [str(problem) for problem in _listed(report.details.get("problems"))[:1000]]
    result = {
        "problems": problems,
        "problem_count": _number(report.details.get("problem_count"), len(problems)),
        "verdicts": [str(verdict) for verdict in _listed(report.details.get("verdicts"))[:100]],
        "complete": params.max_duration is None,
        "verify_data": params.verify_data,
        "repair": params.repair,
    }
    return reported(report, result=result, record=_noting(operation, report, "last_check"))


# --- prune -----------------------------------------------------------------------------------------------------------


def _prune_payload(session: Session, operation: Operation) -> Mapping[str, Any]:
    repository = session.get_one(Repository, operation.repository_id)
    policy = PruneParams.model_validate(operation.params).policy(repository.retention)
    return {"policy": policy_values(policy), "glob": None}


def _conclude_prune(session: Session, operation: Operation, report: AgentReport) -> Outcome:
    keep, pruned = _archives(report.details.get("keep")), _archives(report.details.get("prune"))
    result = {
        "keep": keep,
        "prune": pruned,
        "kept_count": len(keep),
        "pruned_count": len(pruned) if report.succeeded or "prune" in report.details else None,
        "policy": _prune_payload(session, operation)["policy"],
    }
    gone = tuple(archive["id"] for archive in pruned if archive["id"])
    if gone:
        result |= _soft(session, operation)
    return reported(
        report,
        result=result,
        had_effects=bool(gone),
        record=_noting(operation, report, "last_prune", gone=gone),
    )


# --- compact and delete ------------------------------------------------------------------------------------------------


def _compact_payload(session: Session, operation: Operation) -> Mapping[str, Any]:
    del session
    return {"threshold": CompactBody.model_validate(operation.params).threshold}


def _conclude_compact(session: Session, operation: Operation, report: AgentReport) -> Outcome:
    del session
    result = {
        "freed_bytes": _number(report.details.get("freed_bytes"), None),
        "threshold": CompactBody.model_validate(operation.params).threshold,
    }
    return reported(report, result=result, record=_noting(operation, report, "last_compact"))


def _delete_payload(session: Session, operation: Operation) -> Mapping[str, Any]:
    del session
    params = DeleteParams.model_validate(operation.params)
    return {"archive": params.archive, "archive_id": params.engine_id}


def _conclude_delete(session: Session, operation: Operation, report: AgentReport) -> Outcome:
    params = DeleteParams.model_validate(operation.params)
    gone = tuple(str(number) for number in _listed(report.details.get("deleted"))[:MOST_ARCHIVES])
    if report.succeeded and not gone and params.engine_id:
        gone = (params.engine_id,)
    archive = {"name": params.archive, "id": params.engine_id or (gone[0] if gone else None)}
    return reported(
        report,
        result={
            "archive": archive if report.succeeded or gone else None,
            **(_soft(session, operation) if gone else {}),
        },
        had_effects=bool(gone),
        record=_noting(operation, report, None, gone=gone),
    )


def _soft(session: Session, operation: Operation) -> dict[str, Any]:
    return soft_delete.told(session.get_one(Repository, operation.repository_id))


# --- parts -----------------------------------------------------------------------------------------------------------


def _noting(
    operation: Operation, report: AgentReport, evidence: str | None, *, gone: tuple[str, ...] = ()
) -> partial[None]:
    noted = evidence if report.succeeded else None
    return partial(_note, repository_id=operation.repository_id or 0, gone=gone, evidence=noted)


def _note(session: Session, *, repository_id: int, gone: tuple[str, ...], evidence: str | None) -> None:
    archive_records.forget(session, repository_id, gone)
    if evidence is not None:
        store.note_evidence(session, repository_id, **{evidence: clock.now()})


def _archives(value: Any) -> list[dict[str, Any]]:
    """Archives as a prune lists them, of what an agent sent: anything else in it is left out."""
    return [
        {
            "archive": str(item["archive"]),
            "id": str(item["id"])[:64] if item.get("id") else None,
            "time": str(item.get("time") or ""),
            **({"rule": str(item["rule"])} if item.get("rule") else {}),
        }
        for item in _listed(value)[:MOST_ARCHIVES]
        if isinstance(item, Mapping) and item.get("archive")
    ]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else []


def _number(value: Any, otherwise: int | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
