"""All statements of restores."""

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.operations.models import Operation
from holdfast.operations.status import SUCCEEDED, TERMINAL
from holdfast.repositories.archive_records import Archive

KIND = "restore"


def ended(session: Session, uuids: Iterable[str]) -> set[str]:
    """Those of the given operations that are restores which have ended."""
    statement = select(Operation.uuid).where(
        Operation.uuid.in_(list(uuids)), Operation.kind == KIND, Operation.status.in_(TERMINAL)
    )
    return set(session.scalars(statement))


def knows_archives(session: Session, repository_id: int) -> bool:
    """True when the store has a list of the repository's archives."""
    statement = select(Archive.id).where(Archive.repository_id == repository_id).limit(1)
    return session.scalar(statement) is not None


def was_made(session: Session, repository_id: int, archive: str) -> bool:
    """True when a backup of this service has made an archive of this name, even if it was not listed since."""
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
