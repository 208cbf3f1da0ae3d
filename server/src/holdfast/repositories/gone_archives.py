"""Archives that are gone: when each was made, when it disappeared, and how many bytes it had added."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, UniqueConstraint, delete, insert, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from holdfast.kit import clock
from holdfast.storage.base import NEVER_REUSED, NumberedRow
from holdfast.storage.types import Identifier

STATEMENT_VALUES = 500


class ArchiveFacts:
    """Facts recorded about every archive, including those that are gone."""

    repository_id: Mapped[int] = mapped_column(Identifier, ForeignKey("repositories.id", ondelete="CASCADE"))
    engine_id: Mapped[str] = mapped_column(String(64))
    name: Mapped[str]
    series: Mapped[str]
    start: Mapped[datetime]


class GoneArchive(ArchiveFacts, NumberedRow):
    __tablename__ = "gone_archives"

    gone_at: Mapped[datetime]
    """When the service noticed: at the end of its own operation, or in the listing that lacked the archive."""
    new_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """How many bytes it added when it was made; None if another program made it, or the engine did not report it."""

    __table_args__ = (
        UniqueConstraint("repository_id", "engine_id"),
        Index("ix_gone_archives_repository_gone_at", "repository_id", "gone_at", "id"),
        NEVER_REUSED,
    )


_KEPT = ("repository_id", "engine_id", "name", "series", "start")
COLUMNS = (*_KEPT, "backup_operation_id", "deduplicated_size")


def note(session: Session, archives: Sequence[Any]) -> None:
    """Record that archives of one repository, given as rows with `COLUMNS`, are gone. Earlier records are replaced."""
    now = clock.now()
    for first in range(0, len(archives), STATEMENT_VALUES):
        block = archives[first : first + STATEMENT_VALUES]
        again = GoneArchive.engine_id.in_([archive.engine_id for archive in block])
        session.execute(delete(GoneArchive).where(GoneArchive.repository_id == block[0].repository_id, again))
        session.execute(insert(GoneArchive), [_row(archive, now) for archive in block])


def _row(archive: Any, now: datetime) -> dict[str, Any]:
    kept = {name: getattr(archive, name) for name in _KEPT}
    return {**kept, "gone_at": now, "new_bytes": new_bytes_of(archive)}


def new_bytes_of(archive: Any) -> int | None:
    """Return how many bytes an archive added when it was made, or None.

    A size measured later would only count what no other archive shares, which is less.
    """
    size: int | None = archive.deduplicated_size
    return size if archive.backup_operation_id is not None else None


def since(session: Session, repository_id: int, first: datetime, most: int) -> list[GoneArchive]:
    """Return the archives that disappeared at or after a moment, the latest first."""
    wanted = GoneArchive.repository_id == repository_id, GoneArchive.gone_at >= first
    order = GoneArchive.gone_at.desc(), GoneArchive.id.desc()
    return list(session.scalars(select(GoneArchive).where(*wanted).order_by(*order).limit(most)))
