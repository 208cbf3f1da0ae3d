"""The archives of a series, in order."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.repositories.archive_records import Archive


def of_series(session: Session, repository_id: int, series: str) -> list[Archive]:
    """Return all archives of a series, oldest first."""
    statement = (
        select(Archive)
        .where(Archive.repository_id == repository_id, Archive.series == series)
        .order_by(Archive.start, Archive.id)
    )
    return list(session.scalars(statement))


def neighbours(session: Session, archive: Archive) -> tuple[Archive | None, Archive | None]:
    """Return the archives before and after this one in its series."""
    mine = Archive.repository_id == archive.repository_id, Archive.series == archive.series
    place = (archive.start, archive.id)
    before = select(Archive).where(
        *mine, (Archive.start < place[0]) | ((Archive.start == place[0]) & (Archive.id < place[1]))
    )
    after = select(Archive).where(
        *mine, (Archive.start > place[0]) | ((Archive.start == place[0]) & (Archive.id > place[1]))
    )
    return (
        session.scalars(before.order_by(Archive.start.desc(), Archive.id.desc()).limit(1)).first(),
        session.scalars(after.order_by(Archive.start, Archive.id).limit(1)).first(),
    )


def is_before(one: Archive, other: Archive) -> bool:
    return (one.start, one.id) < (other.start, other.id)


def between(archives: Sequence[Archive], first: Archive, second: Archive) -> list[Archive]:
    """Return the archives of an ordered series that are strictly between two of its archives."""
    low, high = (first, second) if is_before(first, second) else (second, first)
    return [archive for archive in archives if is_before(low, archive) and is_before(archive, high)]
