"""All statements of restores."""

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.operations.models import Operation
from holdfast.operations.status import SUCCEEDED, TERMINAL
from holdfast.repositories.archive_records import Archive

KIND = "restore"
LOOKED_AT = 10
LEAST_BYTES = 10_000_000
"""A smaller restore ends too soon to have a meaningful speed."""


def ended(session: Session, uuids: Iterable[str]) -> set[str]:
    """Return which of the given operations are restores that have ended."""
    statement = select(Operation.uuid).where(
        Operation.uuid.in_(list(uuids)), Operation.kind == KIND, Operation.status.in_(TERMINAL)
    )
    return set(session.scalars(statement))


def knows_archives(session: Session, repository_id: int) -> bool:
    """Whether the store has a list of the repository's archives."""
    statement = select(Archive.id).where(Archive.repository_id == repository_id).limit(1)
    return session.scalar(statement) is not None


def was_made(session: Session, repository_id: int, archive: str) -> bool:
    """Whether a backup by this service has made an archive with this name, even if it has not been listed since."""
    statement = (
        select(Operation.id)
        .where(
            Operation.repository_id == repository_id,
            Operation.kind == "backup",
            Operation.status.in_(SUCCEEDED),
            Operation.archive_name == archive,
        )
        .limit(1)
    )
    return session.scalar(statement) is not None


def usual_speed(session: Session, repository_id: int) -> float | None:
    """Return the bytes restored per second in the newest restores of a repository; None if there are too few."""
    statement = (
        select(Operation.result, Operation.started_at, Operation.completed_at)
        .where(Operation.repository_id == repository_id, Operation.kind == KIND, Operation.status.in_(SUCCEEDED))
        .order_by(Operation.id.desc())
        .limit(LOOKED_AT)
    )
    total, seconds = 0, 0.0
    for result, started, completed in session.execute(statement):
        size = (result or {}).get("bytes_restored")
        if isinstance(size, int) and started is not None and completed is not None:
            total += size
            seconds += (completed - started).total_seconds()
    return total / seconds if total >= LEAST_BYTES and seconds > 0 else None
