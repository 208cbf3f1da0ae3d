"""A kind of alarm: a query for bad evidence, and the sentence that explains it."""

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
    """The evidence about a subject. A subject without a finding is well."""

    subject: Subject
    severity: Severity | None
    """None: neither bad enough to raise an alarm nor good enough to clear one."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    known: bool = True
    """False: there is no evidence. It raises nothing and clears nothing."""


def unclear(subject: Subject) -> Finding:
    """Between the two thresholds."""
    return Finding(subject, None)


def unknown(subject: Subject) -> Finding:
    return Finding(subject, None, known=False)


@frozen
class Look:
    """The input of a query. `open` holds the ids of subjects with an alarm of this kind, watched ones included."""

    session: Session
    now: datetime
    thresholds: InForce
    overdue: Mapping[int, Mapping[str, OverdueAfter]]
    open: frozenset[int] = frozenset()
    least_overdue: Mapping[str, float] = field(default_factory=dict)
    """By cell, the smallest number of seconds in `overdue`."""


def least_overdue(overdue: Mapping[int, Mapping[str, OverdueAfter]]) -> dict[str, float]:
    """Most repositories share their rules, so few of them are looked at."""
    least: dict[str, float] = {}
    for cells in {id(cells): cells for cells in overdue.values()}.values():
        for cell, rule in cells.items():
            least[cell] = min(least.get(cell, rule.seconds), rule.seconds)
    return least


@frozen
class AlarmKind:
    name: str
    find: Callable[[Look], Iterable[Finding]]
    message: Callable[[str, Mapping[str, Any]], str]
    """Given the subject's name and the evidence, the sentence for users."""
    raise_after: timedelta = NO_TIME
    """How long the evidence must be bad."""
    clear_after: timedelta = NO_TIME
    """How long it must then be good."""


def shown(at: datetime | None) -> str | None:
    """A time in evidence, which is JSON."""
    return at.isoformat(timespec="seconds") if at is not None else None


def age(seconds: float) -> str:
    """A duration for a sentence: `3 days`, `5 hours`."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size or (seconds >= size and unit == "minute"):
            return f"{seconds / size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"


def on_day(text: Any) -> str:
    """A time of the evidence for users."""
    return str(text)[:16].replace("T", " ") + " UTC"
