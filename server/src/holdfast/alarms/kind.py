"""A kind of alarm: a query for bad evidence, and the message that explains it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.alarms.models import Severity
from holdfast.alarms.thresholds import InForce
from holdfast.repositories.overdue import OverdueAfter

NO_TIME = timedelta(0)


@frozen
class Subject:
    type: str
    id: int

    @property
    def text(self) -> str:
        return f"{self.type}:{self.id}"

    @property
    def repository_id(self) -> int | None:
        return self.id if self.type == "repository" else None

    @staticmethod
    def parse(text: str) -> "Subject":
        kind, _, number = text.partition(":")
        return Subject(kind, int(number))


THE_SERVICE = Subject("service", 0)


@frozen
class Finding:
    """The evidence about a subject. A subject without a finding is fine."""

    subject: Subject
    severity: Severity | None
    """None if the evidence is neither bad enough to raise an alarm nor good enough to clear one."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    known: bool = True
    """False if there is no evidence: the finding then raises nothing and clears nothing."""


def between_thresholds(subject: Subject) -> Finding:
    """The evidence is between the thresholds for raising and for clearing."""
    return Finding(subject, None)


def unknown(subject: Subject) -> Finding:
    return Finding(subject, None, known=False)


@frozen
class EvaluationContext:
    """The input of a query. `open` contains the ids of subjects that have an alarm of this kind, including watched
    ones.
    """

    session: Session
    now: datetime
    thresholds: InForce
    overdue: Mapping[int, Mapping[str, OverdueAfter]]
    open: frozenset[int] = frozenset()
    least_overdue: Mapping[str, float] = field(default_factory=dict)
    """The shortest limit in `overdue` for each cell, in seconds."""


def least_overdue(overdue: Mapping[int, Mapping[str, OverdueAfter]]) -> dict[str, float]:
    """Return the shortest overdue limit per cell.

    Most repositories share the same rules object, so each object is examined only once.
    """
    least: dict[str, float] = {}
    for cells in {id(cells): cells for cells in overdue.values()}.values():
        for cell, rule in cells.items():
            least[cell] = min(least.get(cell, rule.seconds), rule.seconds)
    return least


@frozen
class AlarmKind:
    name: str
    find: Callable[[EvaluationContext], Iterable[Finding]]
    message: Callable[[str, Mapping[str, Any]], str]
    """Given the subject's name and the evidence, return the message for users."""
    raise_after: timedelta = NO_TIME
    """How long the evidence must be bad before the alarm is raised."""
    clear_after: timedelta = NO_TIME
    """How long the evidence must then be good before the alarm clears."""


def shown(at: datetime | None) -> str | None:
    """Format a time for the evidence, which is stored as JSON."""
    return at.isoformat(timespec="seconds") if at is not None else None


def age(seconds: float) -> str:
    """Format a duration for a message: `3 days`, `5 hours`."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size or (seconds >= size and unit == "minute"):
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"


def on_day(text: Any) -> str:
    """Format a time from the evidence for users."""
    return str(text)[:16].replace("T", " ") + " UTC"
