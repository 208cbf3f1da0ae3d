"""How large a repository was on each day: one row per day, with its last measurement."""

from datetime import UTC, date, datetime

from sqlalchemy import BigInteger, Date, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from holdfast.repositories import archive_records
from holdfast.storage.base import Base
from holdfast.storage.inserts import insert_or_replace
from holdfast.storage.types import RepositoryKey


class RepositorySize(Base):
    __tablename__ = "repository_sizes"

    repository_id: Mapped[RepositoryKey]
    day: Mapped[date] = mapped_column(Date, primary_key=True)
    """In UTC."""
    measured_at: Mapped[datetime]
    total_size: Mapped[int] = mapped_column(BigInteger)
    unique_size: Mapped[int] = mapped_column(BigInteger)
    archive_count: Mapped[int]


def note(session: Session, repository_id: int, measured_at: datetime, total_size: int, unique_size: int) -> None:
    insert_or_replace(
        session,
        RepositorySize,
        {"repository_id": repository_id, "day": measured_at.astimezone(UTC).date()},
        {
            "measured_at": measured_at,
            "total_size": total_size,
            "unique_size": unique_size,
            "archive_count": archive_records.count(session, repository_id),
        },
    )


def between(session: Session, repository_id: int, first: date, last: date) -> list[RepositorySize]:
    """Return the records of a range of days, oldest first."""
    wanted = RepositorySize.repository_id == repository_id, RepositorySize.day.between(first, last)
    return list(session.scalars(select(RepositorySize).where(*wanted).order_by(RepositorySize.day)))
