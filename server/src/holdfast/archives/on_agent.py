"""The list of archives as an agent reads it. File history of such a repository is not built: its mode says so."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.parse import ArchiveInfo, GarbledOutput, parse_archives, parse_info
from backup_protocol import JobKind
from holdfast.archives.bring_in_line import bring_in_line
from holdfast.kit import clock
from holdfast.operations.agent_work import AgentReport, AgentWork
from holdfast.operations.kinds import Outcome, reported
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories import store

CUT_SHORT = "The engine's list of archives was cut short or garbled; nothing was changed."


def work() -> AgentWork:
    return AgentWork(JobKind.ARCHIVES_LIST, _payload, _conclude)


def _payload(session: Session, operation: Operation) -> Mapping[str, Any]:
    del session, operation
    return {}


def _conclude(session: Session, operation: Operation, report: AgentReport) -> Outcome:
    """A list that is not whole changes nothing."""
    if not report.succeeded:
        return reported(report)
    listed = _listed(report)
    if listed is None:
        return Outcome(Status.FAILED, "engine.failed", CUT_SHORT, result={"return_code": report.return_code})
    repository_id = operation.repository_id or 0
    synced = bring_in_line(session, repository_id, listed, operation.started_at or clock.now())
    sizes = _sizes(report.details.get("info"))
    if sizes is not None:
        store.note_evidence(session, repository_id, last_stats=clock.now(), **sizes)
    return reported(report, result={**asdict(synced), **(sizes or {})})


def _listed(report: AgentReport) -> Sequence[ArchiveInfo] | None:
    if report.items is None:
        return None
    try:
        return parse_archives(json.dumps({"archives": list(report.items)}).encode())
    except GarbledOutput:
        return None


def _sizes(document: Any) -> dict[str, int] | None:
    if not isinstance(document, Mapping):
        return None
    try:
        totals = parse_info(json.dumps(document).encode()).repository_totals
    except GarbledOutput:
        return None
    return {"total_size": totals.total_size, "unique_size": totals.unique_size} if totals else None
