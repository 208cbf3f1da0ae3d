"""How often work on a repository should happen, and when it did not: the seam to whoever plans it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, tzinfo
from typing import Protocol

from sqlalchemy.orm import Session

from holdfast.repositories.models import Repository


@dataclass(frozen=True, slots=True)
class Threshold:
    """The age of the last success beyond which a cell of `/status` is overdue, and what it follows from."""

    seconds: float
    schedule_id: int
    next_due_at: datetime | None


@dataclass(frozen=True, slots=True)
class MissedRuns:
    """Days on which a backup was due and none succeeded."""

    is_known: bool = False
    """Whether anything was due in the span at all."""
    days: Mapping[date, Sequence[str | None]] = field(default_factory=dict)
    """With the archive name templates of what was due; None: the repository's."""


class Cadence(Protocol):
    def thresholds(self, session: Session, repository: Repository) -> Mapping[str, Threshold]:
        """By the name of the cell; a cell that no schedule takes care of is left out."""

    def missed_runs(
        self, session: Session, repository: Repository, zone: tzinfo, first: date, last: date
    ) -> MissedRuns:
        """What was missed on the days of a time zone, from the first to the last."""


class NoCadence:
    """For repositories that nobody plans anything for."""

    def thresholds(self, session: Session, repository: Repository) -> Mapping[str, Threshold]:
        del session, repository
        return {}

    def missed_runs(
        self, session: Session, repository: Repository, zone: tzinfo, first: date, last: date
    ) -> MissedRuns:
        del session, repository, zone, first, last
        return MissedRuns()
