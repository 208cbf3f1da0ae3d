"""How often work on a repository should happen, and when it was missed: the interface to the scheduling feature."""

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
    """The age of the last success beyond which a cell of `/status` is overdue, and the schedule that sets it."""

    seconds: float
    schedule_id: int
    next_due_at: datetime | None


@frozen
class MissedRuns:
    """Days on which a backup was due and none succeeded."""

    is_known: bool = False
    """Whether anything was due in the period at all."""
    days: Mapping[date, Sequence[str | None]] = field(default_factory=dict)
    """The missed days, each with the archive name templates of the due backups; None: the repository's template."""


DueBetween = Callable[[datetime, datetime, int], list[datetime]]
"""Return due times after one moment and up to another, oldest first, up to a number. Can be sent to other processes."""


class Cadence(Protocol):
    def thresholds(self, session: Session, repository: Repository) -> Mapping[str, Threshold]:
        """Return the thresholds by cell name; cells without a schedule are left out."""

    def missed_runs(
        self, session: Session, repository: Repository, zone: tzinfo, first: date, last: date
    ) -> MissedRuns:
        """Return the missed backups on the days of a time zone, from the first to the last."""

    def backups_to_come(self, session: Session, repository: Repository) -> DueBetween | None:
        """Return when backups are due; None if no schedule makes any."""


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
