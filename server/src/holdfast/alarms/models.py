"""Tables for alarms."""

from datetime import date, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Date, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import NEVER_REUSED, Base, NumberedRow, partial_index
from holdfast.storage.types import Identifier, RepositoryKey

NOT_CLEARED = text("state <> 'cleared'")


class State(StrEnum):
    WATCHED = "watched"
    """The evidence is bad, but has not been for long enough to raise an alarm."""
    OPEN = "open"
    CLEARED = "cleared"


class Severity(StrEnum):
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


def _words(column: str, words: type[StrEnum]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(str(word)) for word in words)})", name=column)


class Alarm(NumberedRow):
    """One problem of one subject, from the first evidence of it until the evidence shows that it is over."""

    __tablename__ = "alarms"

    kind: Mapped[str] = mapped_column(String(40))
    subject: Mapped[str] = mapped_column(String(60))
    """The subject of the alarm, such as `repository:12`, `agent:3` or `service:0`."""
    repository_id: Mapped[int | None] = mapped_column(Identifier)
    """Users who may see this repository may see the alarm. Without a repository, only administrators may."""
    severity: Mapped[str] = mapped_column(String(10))
    state: Mapped[str] = mapped_column(String(10))
    since: Mapped[datetime]
    seen_at: Mapped[datetime]
    """When the evidence last confirmed the alarm."""
    known: Mapped[bool] = mapped_column(Boolean, default=True)
    """False while evidence is missing: whether the alarm still applies is then unknown."""
    clearing_since: Mapped[datetime | None]
    """Since when the evidence has been good, for kinds that require it to stay good for a while."""
    cleared_at: Mapped[datetime | None]
    evidence: Mapped[dict[str, Any]]
    acknowledged_by: Mapped[str | None] = mapped_column(String(64))
    acknowledged_at: Mapped[datetime | None]
    acknowledged_until: Mapped[datetime | None]
    comment: Mapped[str | None]

    __table_args__ = (
        _words("state", State),
        _words("severity", Severity),
        partial_index("uq_alarms_not_cleared", "kind", "subject", where=NOT_CLEARED, unique=True),
        Index("ix_alarms_state", "state", "id"),
        Index("ix_alarms_repository", "repository_id", "state", "id"),
        Index("ix_alarms_cleared_at", "cleared_at"),
        NEVER_REUSED,
    )


class AlarmOverride(Base):
    """Thresholds of one repository that differ from the general ones."""

    __tablename__ = "alarm_overrides"

    repository_id: Mapped[RepositoryKey]
    thresholds: Mapped[dict[str, Any]]


class StorageDay(Base):
    """The last measurement per day of the free space where a repository is stored. Growth is computed from these."""

    __tablename__ = "storage_days"

    repository_id: Mapped[RepositoryKey]
    day: Mapped[date] = mapped_column(Date, primary_key=True)
    seen_at: Mapped[datetime]
    free_bytes: Mapped[int] = mapped_column(BigInteger)
