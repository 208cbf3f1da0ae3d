"""The restore points of past days, from existing archives and the record of removed ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import accumulate
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.archives.retention.simulate import DAY
from holdfast.operations.models import Operation
from holdfast.operations.status import SUCCEEDED
from holdfast.repositories import archive_records, gone_archives
from holdfast.repositories.models import Repository
from holdfast.repositories.series import series_of

MOST_GONE = 20_000
MOST_PRUNES = 200


@frozen
class Point:
    engine_id: str
    archive_id: int | None
    """None if the archive is gone."""
    name: str
    series: str
    start: datetime
    gone_at: datetime | None


def points(session: Session, repository: Repository, first: datetime) -> list[Point]:
    """Return every restore point that existed at any time since `first`, newest first."""
    there = [
        Point(one.engine_id, one.id, one.name, one.series, one.start, one.lost_at)
        for one in archive_records.all_of(session, repository.id)
        if one.lost_at is None or one.lost_at >= first
    ]
    gone = [
        Point(one.engine_id, None, one.name, one.series, one.start, one.gone_at)
        for one in gone_archives.since(session, repository.id, first, MOST_GONE)
    ]
    known: dict[str, Point] = {}
    for point in (*there, *gone, *_pruned(session, repository, first)):
        known.setdefault(point.engine_id, point)
    return sorted(known.values(), key=lambda point: (point.start, point.engine_id), reverse=True)


def _pruned(session: Session, repository: Repository, first: datetime) -> Iterator[Point]:
    """Yield the archives named in the results of prunes, which go back further than the record of removed archives."""
    statement = (
        select(Operation.result, Operation.completed_at)
        .where(
            Operation.repository_id == repository.id,
            Operation.kind == "prune",
            Operation.status.in_(sorted(SUCCEEDED)),
            Operation.completed_at >= first,
        )
        .order_by(Operation.completed_at.desc(), Operation.id.desc())
        .limit(MOST_PRUNES)
    )
    left = MOST_GONE
    for result, ended in session.execute(statement):
        for item in _listed(result)[:left]:
            left -= 1
            start = _moment(item.get("time"))
            if item.get("id") and start is not None:
                name = str(item.get("archive") or "")
                series = series_of(name, repository.archive_name_template)
                yield Point(str(item["id"]), None, name, series, start, ended)


def _listed(result: Any) -> list[Mapping[str, Any]]:
    found = result.get("prune") if isinstance(result, Mapping) else None
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _moment(text: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def counts(known: Iterable[Point], first: date, last: date) -> list[tuple[date, int]]:
    """Return the number of restore points at the end of each day."""
    days = (last - first).days + 1
    changes = [0] * (days + 1)
    for point in known:
        begin, end = _day(point.start, first), days if point.gone_at is None else _day(point.gone_at, first)
        if begin < min(end, days):
            changes[max(begin, 0)] += 1
            changes[min(max(end, 0), days)] -= 1
    return [(first + number * DAY, count) for number, count in enumerate(accumulate(changes[:days]))]


def shown(known: Sequence[Point], first: date, last: date) -> list[Point]:
    """Return the restore points that existed at the end of at least one of the days."""
    return [
        point
        for point in known
        if point.start.astimezone(UTC).date() <= last
        and (point.gone_at is None or point.gone_at.astimezone(UTC).date() > max(first, point.start.date()))
    ]


def _day(moment: datetime, first: date) -> int:
    return (moment.astimezone(UTC).date() - first).days
