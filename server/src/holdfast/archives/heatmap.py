"""Counts and sizes per day, from existing archives and due runs."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.archives.schemas import Day, DaySeries, Heatmap, NamedDaySeries
from holdfast.errors import Unprocessable
from holdfast.kit import clock
from holdfast.repositories.archive_names import series_name
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.cadence import Cadence, MissedRuns
from holdfast.repositories.models import Repository

DEFAULT_DAYS = 365
MOST_DAYS = 3660
RUNS_LOOKED_AT = 30
FEWEST_RUNS = 5
SPREADS = 5.0


def heatmap(
    session: Session,
    repository: Repository,
    since: datetime | None,
    until: datetime | None,
    zone: str,
    *,
    outliers: bool,
    cadence: Cadence,
) -> Heatmap:
    """Count archives by day of a time zone. Raise Unprocessable for an invalid zone or span."""
    place = _zone(zone)
    last = (until or clock.now()).astimezone(place).date()
    first = since.astimezone(place).date() if since else last - timedelta(days=DEFAULT_DAYS - 1)
    if first > last or (last - first).days > MOST_DAYS:
        raise Unprocessable("archives.bad_span", f"The span must have 1 to {MOST_DAYS} days.")
    archives = _archives(session, repository.id)
    missed = cadence.missed_runs(session, repository, place, first, last)
    odd = _outliers(archives) if outliers else {}
    shown = [archive for archive in archives if first <= archive.start.astimezone(place).date() <= last]
    by_series: dict[str, list[Archive]] = defaultdict(list)
    for archive in shown:
        by_series[archive.series].append(archive)
    return Heatmap(
        since=first.isoformat(),
        until=last.isoformat(),
        repository=DaySeries(days=_days(shown, place, odd), missed_days=_missed(missed)),
        series=[
            NamedDaySeries(
                series=series, days=_days(group, place, odd), missed_days=_missed(missed, repository, series)
            )
            for series, group in sorted(by_series.items())
        ],
        cadence_known=missed.is_known,
        flags_available={"outliers": outliers, "missed_run": True},
    )


def _missed(missed: MissedRuns, repository: Repository | None = None, series: str | None = None) -> list[str]:
    """Return the days on which a backup was missed, optionally of one series only."""
    return [
        day.isoformat()
        for day, templates in sorted(missed.days.items())
        if repository is None
        or any(series_name(each or repository.archive_name_template, repository.name) == series for each in templates)
    ]


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Unprocessable("archives.unknown_timezone", "Unknown time zone.") from error


def _archives(session: Session, repository_id: int) -> Sequence[Archive]:
    statement = select(Archive).where(Archive.repository_id == repository_id).order_by(Archive.start, Archive.id)
    return session.scalars(statement).all()


def _days(archives: Sequence[Archive], place: ZoneInfo, odd: dict[int, list[str]]) -> list[Day]:
    by_day: dict[date, list[Archive]] = defaultdict(list)
    for archive in archives:
        by_day[archive.start.astimezone(place).date()].append(archive)
    return [
        Day(
            date=day.isoformat(),
            count=len(group),
            original_size=_sum([archive.original_size for archive in group]),
            deduplicated_size=_sum([archive.deduplicated_size for archive in group]),
            duration_seconds=_sum_seconds([archive.duration_seconds for archive in group]),
            archive_ids=[archive.id for archive in group],
            anomalies=sorted({flag for archive in group for flag in odd.get(archive.id, [])}),
        )
        for day, group in sorted(by_day.items())
    ]


def _sum(values: list[int | None]) -> int | None:
    """Add up the values. Return None if any of them is unknown: a partial sum would look like a drop."""
    return None if any(value is None for value in values) else sum(value for value in values if value is not None)


def _sum_seconds(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 3) if len(known) == len(values) else None


def _outliers(archives: Sequence[Archive]) -> dict[int, list[str]]:
    """Return flags for archives that are far from the median of earlier ones in the series, in median deviations."""
    flags: dict[int, list[str]] = defaultdict(list)
    by_series: dict[str, list[Archive]] = defaultdict(list)
    for archive in archives:
        by_series[archive.series].append(archive)
    for group in by_series.values():
        for name, flag in (
            ("original_size", "size"),
            ("deduplicated_size", "new_data"),
            ("duration_seconds", "duration"),
            ("nfiles", "files"),
        ):
            for archive_id, direction in _odd_ones([(one.id, getattr(one, name)) for one in group]):
                flags[archive_id].append(f"{flag}_{direction}")
    return flags


def _odd_ones(values: Sequence[tuple[int, float | None]]) -> list[tuple[int, str]]:
    odd: list[tuple[int, str]] = []
    # The first archive of a series stores everything, so it cannot be compared with the later ones.
    known = [(archive_id, float(value)) for archive_id, value in values if value is not None][1:]
    for position, (archive_id, value) in enumerate(known):
        before = [other for _, other in known[max(0, position - RUNS_LOOKED_AT) : position]]
        if len(before) < FEWEST_RUNS:
            continue
        middle = statistics.median(before)
        spread = statistics.median(abs(other - middle) for other in before)
        width = max(SPREADS * 1.4826 * spread, 0.5 * abs(middle), 1.0)
        if abs(value - middle) > width:
            odd.append((archive_id, "high" if value > middle else "low"))
    return odd
