"""The forecast of a repository: from its records, and from the chunks of its files."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import pytest

from backup_engine.requests import RetentionPolicy
from backup_engine.retention import aged
from holdfast.archives.retention import simulate
from holdfast.archives.retention.schemas import Forecast
from holdfast.archives.retention.sizes_ahead import Past, days_ahead, samples
from holdfast.repositories import archive_records
from holdfast.repositories.archive_records import Archive
from holdfast.storage.session import Database
from tests.unit.archives.records import a_repository, an_archive, day

NOW = day(30)
DAY = timedelta(days=1)
DAILY = RetentionPolicy(keep_daily=10)


def archives(count: int = 30, **values: Any) -> list[Archive]:
    """Daily archives that each added 10 MB to one of 1 GB, oldest first."""
    defaults = {"series": "series", "deduplicated_size": 10_000_000, "backup_operation_id": 1, "lost_at": None}
    return [
        Archive(id=number, engine_id=str(number), name=str(number), start=day(number + 1), **{**defaults, **values})
        for number in range(count)
    ]


def past(known: list[Archive], **values: Any) -> Past:
    class Nobody:
        def scalars(self, _statement: object) -> list[object]:
            return []

    made = samples(Nobody(), 1, known, NOW)  # type: ignore[arg-type]
    return Past(known, made, values.get("unique_size", 1_000_000_000 + 10_000_000 * len(known)))


def forecast(of: Past, policy: RetentionPolicy, ahead: int, stored: Any = None) -> Forecast:
    until = (NOW + ahead * DAY).date()
    dated = [aged(archive.start) for archive in reversed(of.archives)]
    coming = [NOW + number * DAY for number in range(1, ahead + 1)]
    left = simulate.ahead(dated, coming, policy, major=1, now=NOW, until=until, watched=days_ahead(NOW, until))
    sets = of.sets(left.kept_on.values())
    return of.forecast(left.kept_on, NOW, {one: stored(one) for one in sets} if stored else None)


def test_a_policy_that_keeps_ten_days_needs_the_data_and_nine_times_what_is_new() -> None:
    found = forecast(past(archives()), DAILY, 40)

    assert (found.basis, found.reason, found.now) == ("sizes", None, 1_300_000_000)
    assert [(one.day - NOW.date()).days for one in found.points] == [7, 30]
    assert found.points[1].bytes == pytest.approx(1_100_000_000, rel=0.02)
    assert found.points[1].low <= (found.points[1].bytes or 0) <= found.points[1].high


def test_beyond_30_days_there_is_only_a_range_and_beyond_90_nothing() -> None:
    found = forecast(past(archives()), DAILY, 200)

    assert [(one.day - NOW.date()).days for one in found.points] == [7, 30, 90]
    assert [one.bytes is None for one in found.points] == [False, False, True]
    assert all(0 < one.low < one.high for one in found.points)
    assert forecast(past(archives()), DAILY, 3).points == []


def test_what_stays_is_added_up_from_chunks_where_they_are_known() -> None:
    """Each archive has half a gigabyte that all have, and 7 MB of its own."""

    def stored(wanted: Collection[str]) -> int:
        return 500_000_000 + 7_000_000 * len(wanted)

    found = forecast(past(archives(), unique_size=None), RetentionPolicy(keep_daily=14), 7, stored)

    assert (found.basis, found.now) == ("chunks", 500_000_000 + 30 * 7_000_000)
    assert found.points[0].bytes == 500_000_000 + 7 * 7_000_000 + 7 * 10_000_000


def test_growth_of_the_files_counts_where_every_archive_of_today_goes() -> None:
    grown = archives()
    for number, archive in enumerate(grown):
        archive.original_size = 1_000_000_000 + number * 20_000_000
    steady = forecast(past(archives()), DAILY, 30).points[1].bytes
    growing = forecast(past(grown), DAILY, 30).points[1].bytes

    assert steady is not None
    assert growing is not None
    assert growing > steady + 200_000_000


@pytest.mark.parametrize(
    ("known", "values", "reason"),
    [
        ([], {}, "too_few_backups"),
        (archives(7), {}, "too_few_backups"),
        (archives(backup_operation_id=None), {}, "too_few_backups"),
        (archives(deduplicated_size=None), {}, "too_few_backups"),
        ([*archives(), *archives(1, series="other")], {}, "several_series"),
        (archives(), {"unique_size": None}, "no_sizes"),
    ],
)
def test_where_too_little_is_known_there_is_a_reason_and_no_number(
    known: list[Archive], values: dict[str, Any], reason: str
) -> None:
    found = forecast(past(known, **values), DAILY, 90)

    assert (found.now, found.basis, found.points, found.reason) == (None, None, [], reason)


def test_archives_that_are_gone_are_learned_from_as_well(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        made: list[datetime] = []
        for number in range(20):
            values = {"deduplicated_size": 100 + number, "backup_operation_id": number + 1}
            archive = an_archive(session, repository, f"a{number}", day(number), **values)
            made.append(archive.start)
            if number < 15:
                archive_records.forget(session, repository.id, [archive.engine_id])
        session.flush()
        there = archive_records.all_of(session, repository.id)

        found = samples(session, repository.id, there, day(20))

    assert len(there) == 5
    assert [(one.days, one.bytes) for one in found] == [(1.0, 100.0 + number) for number in range(1, 20)]
