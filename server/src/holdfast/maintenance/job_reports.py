"""Shared by reports of maintenance: defensive reading of their values, and the writes that record them."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from holdfast.operations.end_time import end_of_work
from holdfast.operations.job_work import JobReport
from holdfast.operations.models import Operation
from holdfast.repositories import archive_records, store

MOST_ARCHIVES = 100_000


def evidence_record(
    operation: Operation, report: JobReport, evidence: str | None, *, gone: tuple[str, ...] = ()
) -> partial[None]:
    """The writes at the end of the operation: archives that are gone and, after a success, this evidence's date."""
    noted = evidence if report.succeeded else None
    return partial(_note, repository_id=operation.repository_id or 0, gone=gone, evidence=noted)


def _note(session: Session, *, repository_id: int, gone: tuple[str, ...], evidence: str | None) -> None:
    archive_records.forget(session, repository_id, gone)
    proven = {evidence: end_of_work(session)} if evidence is not None else {}
    store.note_evidence(session, repository_id, *(("archives",) if gone else ()), **proven)


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else []


def number(value: Any, otherwise: int | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
