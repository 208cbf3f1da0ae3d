"""What a backup that has succeeded leaves in the record, wherever it was made."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.parse import ArchiveInfo, CreateResult, RepositoryTotals
from holdfast.kit import clock
from holdfast.operations.models import Operation
from holdfast.repositories import archive_records, store
from holdfast.repositories.models import Repository
from holdfast.repositories.series import series_of

STATS = ("original_size", "compressed_size", "deduplicated_size", "nfiles")


def key_of(operation: Operation) -> str:
    """What the archive's comment carries, so that an archive can always be matched with its operation."""
    return f"holdfast:{operation.uuid}"


def archive_of(created: CreateResult) -> dict[str, Any]:
    return {
        "name": created.archive_name,
        "id": created.archive_id,
        "start": created.start.isoformat(),
        "end": created.end.isoformat(),
        "duration": created.duration,
    }


def described(archive: ArchiveInfo) -> dict[str, Any]:
    """An archive that was found by its comment."""
    return {
        "name": archive.name,
        "id": archive.id,
        "start": archive.start.isoformat(),
        "end": archive.end.isoformat() if archive.end else None,
        "duration": None,
    }


def evidence(stats: dict[str, Any], totals: RepositoryTotals | None) -> dict[str, Any]:
    return {
        "last_backup": clock.now(),
        "typical_size": stats.get("original_size"),
        "total_size": totals.total_size if totals else None,
        "unique_size": totals.unique_size if totals else None,
    }


def note_evidence(
    session: Session,
    *,
    operation: Operation,
    repository: Repository,
    archive: dict[str, Any] | None,
    values: dict[str, Any],
) -> None:
    """Record the archive at once, where its id is known: nobody has to wait for the next listing to see it."""
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
    store.note_evidence(session, repository.id, **values)
