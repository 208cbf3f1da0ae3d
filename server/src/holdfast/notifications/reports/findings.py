"""The content of a report, based only on stored evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.agents import labels
from holdfast.api.parts import Part
from holdfast.notifications.events.rules import in_scope
from holdfast.notifications.models import Incident
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository


@frozen
class Sources:
    """Facts from other features, by repository. A missing feature provides none."""

    missed: Callable[[Session, datetime], Mapping[int, int]] = lambda _session, _since: {}
    next_due: Callable[[Session], Mapping[int, datetime]] = lambda _session: {}
    alarms: Callable[[Session], Sequence[str]] = lambda _session: ()
    targets: Callable[[Session, Sequence[int]], frozenset[int]] = lambda _session, _schedules: frozenset()
    """Given schedules, return the repositories that they work on."""


SOURCES = Part[Sources]("report_sources")


@frozen
class Line:
    """The findings for one repository."""

    repository: str
    last_success: datetime | None
    last_proof: datetime | None
    backups: int
    failed: int
    missed: int
    growth: int | None
    """Bytes added by the archives of the period."""
    next_due: datetime | None
    failing_since: datetime | None

    @property
    def is_well(self) -> bool:
        return not (self.failed or self.missed or self.failing_since) and self.last_success is not None


@frozen
class Findings:
    since: datetime
    until: datetime
    lines: Sequence[Line] = ()
    alarms: Sequence[str] = ()
    incidents: Sequence[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        return not self.alarms and not self.incidents and all(line.is_well for line in self.lines)

    @property
    def summary(self) -> str:
        if not self.lines:
            return "No repositories"
        bad = sum(not line.is_well for line in self.lines)
        count = f"{len(self.lines)} repositories" if len(self.lines) != 1 else "1 repository"
        return f"{count}: all well" if self.is_well else f"{count}, {bad} need attention"


def gather(session: Session, scope: Mapping[str, Any], since: datetime, now: datetime, sources: Sources) -> Findings:
    schedules = scope.get("schedule_ids")
    chosen = sources.targets(session, schedules) if schedules else None
    ended = _ended(session, since)
    missed, due = sources.missed(session, since), sources.next_due(session)
    growth = _growth(session, since)
    failing = {
        incident.repository_id: incident.opened_at
        for incident in session.scalars(
            select(Incident).where(Incident.closed_at.is_(None)).order_by(Incident.id.desc())
        )
        if incident.repository_id is not None and incident.event.endswith(".failed")
    }
    labelled = labels.of_all(session)
    lines = [
        Line(
            repository=repository.name,
            last_success=repository.last_backup,
            last_proof=repository.last_restore_check,
            backups=ended.get((repository.id, "succeeded"), 0),
            failed=ended.get((repository.id, "failed"), 0),
            missed=missed.get(repository.id, 0),
            growth=growth.get(repository.id),
            next_due=due.get(repository.id),
            failing_since=failing.get(repository.id),
        )
        for repository in session.scalars(select(Repository).order_by(Repository.name))
        if chosen is None or repository.id in chosen
        if in_scope({**scope, "schedule_ids": None}, repository.id, None, labelled[repository.id])
    ]
    return Findings(since, now, lines, list(sources.alarms(session)), _incidents(session))


def _ended(session: Session, since: datetime) -> dict[tuple[int, str], int]:
    """Return the number of backups that succeeded, and of operations of any kind that failed, by repository."""
    counted = (
        select(Operation.repository_id, Operation.kind, Operation.status, func.count().label("number"))
        .where(Operation.completed_at >= since, Operation.repository_id.is_not(None))
        .group_by(Operation.repository_id, Operation.kind, Operation.status)
    )
    totals: dict[tuple[int, str], int] = {}
    for row in session.execute(counted):
        word = "failed" if row.status == Status.FAILED else None
        if row.kind == "backup" and row.status in (Status.COMPLETED, Status.COMPLETED_WITH_WARNINGS):
            word = "succeeded"
        if word is not None:
            totals[row.repository_id, word] = totals.get((row.repository_id, word), 0) + row.number
    return totals


def _growth(session: Session, since: datetime) -> dict[int, int]:
    added = (
        select(Archive.repository_id, func.sum(Archive.deduplicated_size))
        .where(Archive.start >= since, Archive.deduplicated_size.is_not(None))
        .group_by(Archive.repository_id)
    )
    return {repository_id: int(size or 0) for repository_id, size in session.execute(added)}


def _incidents(session: Session) -> list[str]:
    """Return open incidents without a repository; those of repositories are in their lines."""
    found = select(Incident).where(
        Incident.closed_at.is_(None), Incident.repository_id.is_(None), Incident.severity > 1
    )
    return [str(incident.item.get("title")) for incident in session.scalars(found.order_by(Incident.id).limit(50))]
