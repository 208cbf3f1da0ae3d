"""The archives of a repository, as recorded in the store.

A row is removed only when a complete listing lacks its archive, or an operation of the service has removed the archive.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    Boolean,
    Float,
    Index,
    Integer,
    Row,
    String,
    UniqueConstraint,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.errors import Conflict, NotFound
from holdfast.kit import clock
from holdfast.kit.clock import with_offset
from holdfast.operations import outbox
from holdfast.repositories import gone_archives
from holdfast.repositories.gone_archives import ArchiveFacts
from holdfast.repositories.models import Repository
from holdfast.storage.base import NEVER_REUSED, NumberedRow
from holdfast.storage.rows import find_row
from holdfast.storage.types import Identifier

STATEMENT_VALUES = 500
MOST_NAMED = 100
"""Maximum number of archives that one event names."""


class Archive(ArchiveFacts, NumberedRow):
    """One archive, identified by the engine's id; a renamed or recreated archive is a different one."""

    __tablename__ = "archives"

    end: Mapped[datetime | None]
    duration_seconds: Mapped[float | None] = mapped_column(Float)
    nfiles: Mapped[int | None] = mapped_column(BigInteger)
    original_size: Mapped[int | None] = mapped_column(BigInteger)
    compressed_size: Mapped[int | None] = mapped_column(BigInteger)
    deduplicated_size: Mapped[int | None] = mapped_column(BigInteger)
    hostname: Mapped[str | None]
    username: Mapped[str | None]
    comment: Mapped[str | None]
    backup_operation_id: Mapped[int | None] = mapped_column(Identifier)
    history_state: Mapped[str] = mapped_column(String(10), default="pending")
    history_indexed_at: Mapped[datetime | None]
    history_rows: Mapped[int | None] = mapped_column(BigInteger)
    history_truncated: Mapped[bool] = mapped_column(Boolean, default=False)
    history_error: Mapped[str | None]
    history_error_key: Mapped[str | None] = mapped_column(String(64))
    history_attempts: Mapped[int] = mapped_column(Integer, default=0)
    first_seen_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]
    lost_at: Mapped[datetime | None]
    """When it was found to be lost, because an older copy replaced the repository. It cannot be restored."""
    protected_at: Mapped[datetime | None]
    """When it was protected against removal by prunes, deletions and wipes; None: it is not. See `protection`."""

    __table_args__ = (
        UniqueConstraint("repository_id", "engine_id"),
        Index("ix_archives_repository_start", "repository_id", "start", "id"),
        Index("ix_archives_repository_series", "repository_id", "series", "start"),
        Index("ix_archives_repository_name", "repository_id", "name"),
        Index("ix_archives_repository_state", "repository_id", "history_state", "lost_at", "id"),
        NEVER_REUSED,
    )


def unknown(archive: Any) -> NotFound:
    return NotFound("archives.not_found", "Archive not found.", archive=archive)


def get(session: Session, archive_id: int) -> Archive | None:
    return find_row(session, Archive, archive_id)


def of_repository(session: Session, repository_id: int, archive_id: int) -> Archive:
    """Return the archive if it belongs to this repository. Raise NotFound."""
    archive = get(session, archive_id)
    if archive is None or archive.repository_id != repository_id:
        raise unknown(archive_id)
    return archive


def require(session: Session, caller: Caller, archive_id: int, role: Role) -> tuple[Archive, Repository]:
    """Return the archive and its repository if the caller may see them with this role. Raise NotFound or Forbidden."""
    archive = get(session, archive_id)
    repository = session.get(Repository, archive.repository_id) if archive else None
    if archive is None or repository is None:
        raise unknown(archive_id)
    if rights.repository_role(session, caller, repository.id) is None:
        raise unknown(archive_id)
    rights.require_repository(session, caller, repository.id, role)
    return archive, repository


def by_name(session: Session, repository_id: int, name: str) -> Archive | None:
    """Return the newest archive with this name."""
    statement = (
        select(Archive)
        .where(Archive.repository_id == repository_id, Archive.name == name)
        .order_by(Archive.lost_at.is_not(None), Archive.start.desc(), Archive.id.desc())
        .limit(1)
    )
    return session.scalars(statement).first()


def count_named(session: Session, repository_id: int, name: str) -> int:
    """Return how many archives have this name; with engine 2, all archives of a series do."""
    named = Archive.repository_id == repository_id, Archive.name == name, Archive.lost_at.is_(None)
    return session.scalar(select(func.count()).where(*named)) or 0


def all_of(session: Session, repository_id: int) -> list[Archive]:
    statement = select(Archive).where(Archive.repository_id == repository_id).order_by(Archive.start, Archive.id)
    return list(session.scalars(statement))


def ids_by_engine_id(session: Session, repository_id: int) -> dict[str, int]:
    statement = select(Archive.engine_id, Archive.id).where(Archive.repository_id == repository_id)
    return {row.engine_id: row.id for row in session.connection().execute(statement)}


def count(session: Session, repository_id: int) -> int:
    """Return the number of archives in the repository, without lost ones."""
    present = Archive.repository_id == repository_id, Archive.lost_at.is_(None)
    return session.scalar(select(func.count()).where(*present)) or 0


def mark_lost(session: Session, repository_id: int, archive_ids: Iterable[int]) -> None:
    """Keep the rows of archives missing from an older copy of the repository, but no longer count them."""
    now = clock.now()
    for archive_id in archive_ids:
        statement = update(Archive).where(Archive.id == archive_id, Archive.lost_at.is_(None))
        session.execute(statement.values(lost_at=now))
    counted = update(Repository).where(Repository.id == repository_id, Repository.archive_count.is_not(None))
    session.execute(counted.values(archive_count=count(session, repository_id)))


def require_present(archive: Archive) -> Archive:
    """Return the archive. Raise Conflict if it was lost."""
    if archive.lost_at is not None:
        raise Conflict(
            "archives.lost",
            "The archive was lost when an older copy of the repository was restored; only its record remains.",
            archive=archive.name,
            lost_at=archive.lost_at.isoformat(),
        )
    return archive


def add_made(session: Session, repository_id: int, *, engine_id: str, **values: Any) -> None:
    """Record an archive that an operation has just made. If a listing has already recorded it, add its sizes."""
    now = clock.now()
    statement = select(Archive).where(Archive.repository_id == repository_id, Archive.engine_id == engine_id)
    archive = session.scalars(statement).first()
    if archive is None:
        made = Archive(repository_id=repository_id, engine_id=engine_id, first_seen_at=now, last_seen_at=now, **values)
        session.add(made)
        session.flush()
        publish(session, "archive.added", repository_id, [made])
    else:
        for name, value in values.items():
            setattr(archive, name, value)
    session.flush()
    known = session.get(Repository, repository_id)
    if known is not None and known.archive_count is not None:
        known.archive_count = count(session, repository_id)


def remove(session: Session, archives: Sequence[Archive]) -> None:
    """Remove rows of one repository; a record of the archives is kept."""
    gone_archives.note(session, archives)
    for archive in archives:
        session.delete(archive)
    if archives:
        publish(session, "archive.removed", archives[0].repository_id, archives)


def forget(session: Session, repository_id: int, engine_ids: Iterable[str]) -> None:
    """Remove the rows of archives that the engine has removed, and update the stored count, if any."""
    removed = sorted(set(engine_ids))
    if not removed:
        return
    gone: list[Row[Any]] = []
    columns = [Archive.id, *(getattr(Archive, name) for name in gone_archives.COLUMNS)]
    for block in batched(removed, STATEMENT_VALUES):
        of_block = Archive.repository_id == repository_id, Archive.engine_id.in_(block)
        gone += session.execute(select(*columns).where(*of_block))
        session.execute(delete(Archive).where(*of_block))
    gone_archives.note(session, gone)
    publish(session, "archive.removed", repository_id, gone)
    counted = update(Repository).where(Repository.id == repository_id, Repository.archive_count.is_not(None))
    session.execute(counted.values(archive_count=count(session, repository_id)))


def publish(
    session: Session,
    topic: Literal["archive.added", "archive.removed"],
    repository_id: int,
    archives: Sequence[Archive | Row[Any]],
) -> None:
    """Report archives added to or removed from the list, all in one event: an import may find thousands."""
    if not archives:
        return
    newest = sorted(archives, key=lambda archive: (archive.start, archive.id), reverse=True)[:MOST_NAMED]
    named = [
        {"id": one.id, "engine_id": one.engine_id, "name": one.name, "start": with_offset(one.start)} for one in newest
    ]
    payload = {"repository_id": repository_id, "count": len(archives), "archives": named}
    outbox.publish(session, topic, payload, repository_id=repository_id)


def batched(values: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
