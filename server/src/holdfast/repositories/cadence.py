"""How often work on a repository should happen, and when it was missed: the seam to the feature that plans it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import date, datetime, tzinfo
from typing import Protocol

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.api.parts import Part
from holdfast.repositories.models import Repository


@frozen
class Threshold:
    """The age of the last success beyond which a cell of `/status` is overdue, and its origin."""

    seconds: float
    schedule_id: int
    next_due_at: datetime | None


@frozen
class MissedRuns:
    """Days on which a backup was due and none succeeded."""

    is_known: bool = False
    """Whether anything was due in the span at all."""
    days: Mapping[date, Sequence[str | None]] = field(default_factory=dict)
    """With the archive name templates of the due backups; None: the repository's."""


DueBetween = Callable[[datetime, datetime, int], list[datetime]]
"""The moments after one and up to another, oldest first, no more than a number; can be sent to where it is computed."""


class Cadence(Protocol):
    def thresholds(self, session: Session, repository: Repository) -> Mapping[str, Threshold]:
        """By the name of the cell; cells without a schedule are left out."""

    def missed_runs(
        self, session: Session, repository: Repository, zone: tzinfo, first: date, last: date
    ) -> MissedRuns:
        """Missed backups on the days of a time zone, from the first to the last."""

    def backups_to_come(self, session: Session, repository: Repository) -> DueBetween | None:
        """When backups are due; None without a schedule that makes any."""


CADENCE = Part[Cadence]("cadence")


class NoCadence:
    """For repositories without a schedule."""

    def thresholds(self, session: Session, repository: Repository) -> Mapping[str, Threshold]:
        del session, repository
        return {}

    def missed_runs(
        self, session: Session, repository: Repository, zone: tzinfo, first: date, last: date
    ) -> MissedRuns:
        del session, repository, zone, first, last
        return MissedRuns()

    def backups_to_come(self, session: Session, repository: Repository) -> DueBetween | None:
        del session, repository
        return None


class LastTick(Protocol):
    """When schedules were last checked, by any process."""

    @property
    def at(self) -> datetime | None: ...

    @property
    def is_fresh(self) -> bool: ...

    def read(self) -> datetime | None: ...


LAST_TICK = Part[LastTick]("last_tick")
