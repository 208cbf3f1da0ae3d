"""Concludes backups and records what a successful one has changed, wherever it was made."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.results import CreateResult, GarbledOutput, RepositoryTotals, parse_archives, parse_create_result
from backup_jobs.archive_keys import PREFIX
from backup_jobs.archives import described
from holdfast.operations.end_time import end_of_work
from holdfast.operations.event_schemas import RepositoryPart
from holdfast.operations.job_work import JobReport, reported
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.repositories import agent_target, archive_records, store
from holdfast.repositories.job_kinds import info_in, printed
from holdfast.repositories.models import Repository
from holdfast.repositories.series import series_of

STATS = ("original_size", "compressed_size", "deduplicated_size", "nfiles")


def key_of(operation: Operation) -> str:
    """The key in the archive's comment, by which an archive can always be matched to its operation."""
    return f"{PREFIX}{operation.uuid}"


def conclude(
    session: Session,
    operation: Operation,
    report: JobReport,
    *,
    counts: bool = True,
    more: Mapping[str, Any] | None = None,
) -> Outcome:
    """Conclude a backup, wherever it was made.

    With `counts` off, the archive is recorded, but not as a backup of the sources.
    """
    if not report.succeeded:
        return reported(report, record=partial(_note_storage, operation.repository_id, _storage(report)))
    repository = repository_of(session, operation)
    created = printed(report, "created", parse_create_result)
    archive = _archive_of(created) if created else _found(report)
    stats = {name: value for name, value in report.stats.items() if value is not None}
    stats = dict(report.stats) if stats else (asdict(created.stats) if created else {})
    name = archive["name"] if archive else report.archive_name
    template = name if name and "{" in name else None
    if template is not None:
        name = None  # the agent does not know which name the engine made from the template
    result = {
        "archive": archive or ({"name": name} if name else None),
        "stats": stats,
        "return_code": report.return_code,
        "warning_count": _count(report),
        **(more or {}),
        **({"archive_name_template": template} if template is not None else {}),
    }
    shown = created or info_in(report)
    record = partial(
        _record,
        operation=operation,
        repository_id=repository.id,
        archive={**archive, "stats": stats} if archive else None,
        engine_id=shown.repository_id if shown else None,
        values={**_evidence(stats if counts else {}, shown.repository_totals if shown else None), **_storage(report)},
        counts=counts,
    )
    return replace(reported(report, result=result, record=record), archive_name=name)


def repository_of(session: Session, operation: Operation) -> Repository:
    repository = store.get(session, operation.repository_id or 0)
    if repository is None:
        raise LookupError("the repository is no longer registered")
    return repository


def _count(report: JobReport) -> int:
    count = report.details.get("warning_count")
    return count if isinstance(count, int) and not isinstance(count, bool) else len(report.warnings)


def _found(report: JobReport) -> dict[str, Any] | None:
    """The archive that was found by its comment, for a backup whose end was not observed."""
    document = report.details.get("archive")
    if not isinstance(document, Mapping):
        return None
    try:
        found = parse_archives(json.dumps({"archives": [document]}).encode())[0]
    except (GarbledOutput, IndexError):
        return None
    return {**described(found), "duration": None}


def _archive_of(created: CreateResult) -> dict[str, Any]:
    return {
        "name": created.archive_name,
        "id": created.archive_id,
        "start": created.start.isoformat(),
        "end": created.end.isoformat(),
        "duration": created.duration,
    }


def _evidence(stats: dict[str, Any], totals: RepositoryTotals | None) -> dict[str, Any]:
    return {
        "typical_size": stats.get("original_size"),
        "total_size": totals.total_size if totals else None,
        "unique_size": totals.unique_size if totals else None,
    }


def _record(session: Session, *, repository_id: int, engine_id: str | None, **evidence: Any) -> None:
    """Record the evidence of a backup.

    The first backup also proves that the repository can be opened, if its agent could not check that earlier.
    """
    repository = session.get(Repository, repository_id)
    if repository is None:
        return
    store.learn_engine_id(session, repository.id, engine_id)
    if repository.setup_state == agent_target.UNVERIFIED:
        repository.setup_state = "ready"
        store.publish(session, repository.id, "changed")
    _note_evidence(session, repository=repository, **evidence)


def _note_evidence(
    session: Session,
    *,
    operation: Operation,
    repository: Repository,
    archive: dict[str, Any] | None,
    values: dict[str, Any],
    counts: bool,
) -> None:
    """Record the evidence, and the archive if its id is known, so that it is visible before the next listing."""
    if archive is not None:
        archive_records.add_made(
            session,
            repository.id,
            engine_id=archive["id"],
            name=archive["name"],
            series=series_of(archive["name"], operation.params.get("archive_name") or repository.archive_name_template),
            start=datetime.fromisoformat(archive["start"]),
            end=datetime.fromisoformat(archive["end"]) if archive["end"] else None,
            duration_seconds=archive["duration"],
            backup_operation_id=operation.id,
            **{name: archive["stats"].get(name) for name in STATS if name in archive["stats"]},
        )
    measured = {"storage_seen_at": end_of_work(session)} if "storage_free_bytes" in values else {}
    success = {"last_backup": end_of_work(session)} if counts else {}
    made: tuple[RepositoryPart, ...] = ("archives",) if archive is not None else ()
    store.note_evidence(session, repository.id, *made, **success, **values, **measured)


def _storage(report: JobReport) -> dict[str, int]:
    """The measured space of the repository's storage, if any. It is validated, because an agent may report anything."""
    storage = report.details.get("storage")
    sizes = [storage.get(name) for name in ("free_bytes", "total_bytes")] if isinstance(storage, Mapping) else []
    known = [size for size in sizes if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**63]
    return dict(zip(("storage_free_bytes", "storage_total_bytes"), known, strict=True)) if len(known) == 2 else {}


def _note_storage(repository_id: int | None, storage: dict[str, int], session: Session) -> None:
    if storage and repository_id is not None:
        store.note_evidence(session, repository_id, storage_seen_at=end_of_work(session), **storage)
