"""The size forecast of a repository, from its records and from the chunks of its files."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from backup_engine.requests import RetentionPolicy
from backup_engine.retention import aged
from holdfast.archives.retention import simulate
from holdfast.archives.retention.size_forecast import (
    MOST_SERIES,
    Forecast,
    ForecastData,
    RecentBackup,
    days_ahead,
    samples,
    series_to_come,
)
from holdfast.archives.retention.size_samples import recent_backups, simulated_archive
from holdfast.repositories import archive_records
from holdfast.repositories.archive_records import Archive
from holdfast.storage.session import Database
from tests.unit.archives.records import a_repository, an_archive, day

NOW = day(30)
DAY = timedelta(days=1)
DAILY = RetentionPolicy(keep_daily=10)
DAYS_TO_COME = tuple(NOW + number * DAY for number in range(1, 201))


def archives(count: int = 30, **values: Any) -> list[Archive]:
    """Daily archives that each added 10 MB to one of 1 GB, oldest first."""
    defaults = {"series": "series", "deduplicated_size": 10_000_000, "backup_operation_id": 1, "lost_at": None}
    given = {**defaults, **values}
    return [
        Archive(id=number, engine_id=f"{given['series']} {number}", name=str(number), start=day(number + 1), **given)
        for number in range(count)
    ]


def in_order(*some: list[Archive]) -> list[Archive]:
    return sorted((one for each in some for one in each), key=lambda one: one.start)


def past(known: list[Archive], coming: Sequence[datetime] = DAYS_TO_COME, **values: Any) -> ForecastData:
    class Nobody:
        def scalars(self, _statement: object) -> list[object]:
            return []

    made = recent_backups(Nobody(), 1, known, NOW)  # type: ignore[arg-type]
    size = values.get("unique_size", 1_000_000_000 + 10_000_000 * len(known))
    return ForecastData([simulated_archive(one) for one in known], samples(made), size, series_to_come(made, coming))


def forecast(of: ForecastData, policy: RetentionPolicy, ahead: int, stored: Any = None) -> Forecast:
    until = (NOW + ahead * DAY).date()
    dated = [aged(archive.start) for archive in reversed(of.archives)]
    coming = [start for start in of.coming or DAYS_TO_COME if start <= NOW + ahead * DAY]
    left = simulate.simulate_policy(
        dated, coming, policy, major=1, now=NOW, until=until, watched=days_ahead(NOW, until)
    )
    sets = of.sets(left.kept_on.values())
    return of.forecast(left.kept_on, NOW, {one: stored(one) for one in sets} if stored else None)


def test_a_policy_that_keeps_ten_days_needs_the_data_and_nine_times_the_new_bytes() -> None:
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


def test_remaining_archives_are_measured_by_chunks_if_these_are_indexed() -> None:
    """Each archive consists of half a gigabyte shared by all and 7 MB of its own."""

    def stored(wanted: Collection[str]) -> int:
        return 500_000_000 + 7_000_000 * len(wanted)

    found = forecast(past(archives(), unique_size=None), RetentionPolicy(keep_daily=14), 7, stored)

    assert (found.basis, found.now) == ("chunks", 500_000_000 + 30 * 7_000_000)
    assert found.points[0].bytes == 500_000_000 + 7 * 7_000_000 + 7 * 10_000_000


def test_growth_of_the_files_counts_if_no_archive_of_today_remains() -> None:
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
        (in_order(archives(), archives(series="other", deduplicated_size=None)), {}, "too_few_backups"),
        (in_order(*(archives(10, series=str(n)) for n in range(MOST_SERIES + 1))), {}, "several_series"),
        (in_order(archives(original_size=5), archives(series="other")), {}, "several_series"),
        (archives(), {"unique_size": None}, "no_sizes"),
    ],
)
def test_without_enough_data_the_forecast_returns_a_reason_and_no_numbers(
    known: list[Archive], values: dict[str, Any], reason: str
) -> None:
    found = forecast(past(known, **values), DAILY, 90)

    assert (found.now, found.basis, found.points, found.reason) == (None, None, [], reason)


def test_the_forecast_also_learns_from_removed_archives(database: Database) -> None:
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

        found = samples(recent_backups(session, repository.id, there, day(20)))
        (series,) = found

    assert len(there) == 5
    assert [(one.days, one.bytes) for one in found[series]] == [(1.0, 100.0 + number) for number in range(1, 20)]


# --- several series ---------------------------------------------------------------------------------------------------


def of_two_series(**values: Any) -> list[Archive]:
    """Daily archives at two in the morning, which add 10 MB each, and at noon, which add 2 MB; oldest first."""
    defaults = {"backup_operation_id": 1, "lost_at": None}
    kinds = (("night", 10, 10_000_000, 3_000_000), ("noon", 0, 2_000_000, 1_000_000))
    return [
        Archive(
            id=2 * number + place,
            engine_id=f"{series} {number}",
            name=f"{series} {number}",
            series=series,
            start=day(number + 1) - timedelta(hours=earlier),
            deduplicated_size=new,
            original_size=size,
            **{**defaults, **values},
        )
        for number in range(29)
        for place, (series, earlier, new, size) in enumerate(kinds)
    ]


LAST_NOON = of_two_series()[-1].start
HALF_DAYS = tuple(LAST_NOON + number * DAY / 2 for number in range(1, 401))


def by_chunks(wanted: Collection[str]) -> int:
    """Bytes shared by both series, bytes shared within a series, and those of each archive."""
    night, noon = (sum(name.startswith(series) for name in wanted) for series in ("night", "noon"))
    own = (400_000_000 + 10_000_000 * night if night else 0) + (90_000_000 + 2_000_000 * noon if noon else 0)
    return 500_000_000 + own


def test_each_of_two_series_grows_by_what_its_own_backups_add() -> None:
    found = forecast(past(of_two_series(), HALF_DAYS), RetentionPolicy(keep_last=40), 30, by_chunks)

    assert (found.basis, found.reason, found.now) == ("chunks", None, by_chunks([one.name for one in of_two_series()]))
    near, far = found.points
    twenty = by_chunks([f"{series} {number}" for number in range(20) for series in ("night", "noon")])
    assert near.bytes == pytest.approx(twenty, rel=0.01)
    assert far.bytes == pytest.approx(near.bytes, rel=0.01)
    assert far.low < (far.bytes or 0) < far.high


def test_a_series_of_which_the_policy_keeps_nothing_needs_no_bytes() -> None:
    """Only the last archive of each day is kept, which is always the one at noon."""
    found = forecast(past(of_two_series(), HALF_DAYS), RetentionPolicy(keep_daily=10), 30, by_chunks)

    assert found.points[1].bytes == pytest.approx(500_000_000 + 90_000_000 + 10 * 2_000_000, rel=0.02)


def test_without_chunks_todays_bytes_are_divided_by_the_sizes_of_the_newest_archives() -> None:
    total = 4_000_000_000 + 29 * 12_000_000
    found = forecast(past(of_two_series(), HALF_DAYS, unique_size=total), RetentionPolicy(keep_daily=10), 30)

    assert (found.basis, found.now) == ("sizes", total)
    assert found.points[1].bytes == pytest.approx(1_000_000_000 + 9 * 2_000_000, rel=0.02)


def test_a_single_archive_of_another_series_counts_with_its_current_bytes() -> None:
    other = archives(1, series="once", deduplicated_size=None)

    def stored(wanted: Collection[str]) -> int:
        return 7_000_000 * len(wanted) + (100_000_000 if "once 0" in wanted else 0)

    kept = past([*other, *archives()])
    found = forecast(kept, RetentionPolicy(keep_last=1000), 7, stored)

    assert found.points[0].bytes == 100_000_000 + 31 * 7_000_000 + 7 * 10_000_000


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ("abab", "abab"),
        ("aabaabaab", "aaba"),
        ("baaba", "baab"),
        ("aaaa", "aaaa"),
        ("abc", "abca"),
    ],
)
def test_series_alternate_as_they_did_before(turns: str, expected: str) -> None:
    made = [RecentBackup(day(number), series, None) for number, series in enumerate(turns)]

    assert "".join(series_to_come(made, DAYS_TO_COME[:4]).values()) == expected
