"""The days of the heatmap, and outliers."""

from datetime import datetime

import pytest
from sqlalchemy.orm import Session

from holdfast.archives.heatmap import heatmap
from holdfast.archives.schemas import Heatmap
from holdfast.errors import Unprocessable
from holdfast.repositories.cadence import NoCadence
from holdfast.repositories.models import Repository
from holdfast.storage.session import Database
from tests.unit.archives.records import a_repository, an_archive, day

ORDINARY = [1000, 1010, 990, 1005, 1000, 995, 1003]


def shown(session: Session, repository: int, *, zone: str = "UTC", outliers: bool = True, until: float = 60) -> Heatmap:
    known = session.get_one(Repository, repository)
    return heatmap(session, known, day(-60), day(until), zone, outliers=outliers, cadence=NoCadence())


def anomalies(found: Heatmap) -> dict[str, list[str]]:
    return {one.date: one.anomalies for one in found.repository.days if one.anomalies}


def sized(session: Session, sizes: list[int], **values: object) -> int:
    repository = a_repository(session)
    for number, size in enumerate(sizes):
        an_archive(session, repository, f"a{number}", day(number), original_size=size, **values)
    return repository.id


def test_an_archive_much_larger_than_those_before_it_is_an_outlier(database: Database) -> None:
    with database.writing() as session:
        repository = sized(session, [*ORDINARY, 9000, 1001])

        assert anomalies(shown(session, repository)) == {day(7).date().isoformat(): ["size_high"]}


def test_an_archive_much_smaller_than_those_before_it_is_an_outlier_too(database: Database) -> None:
    with database.writing() as session:
        repository = sized(session, [*ORDINARY, 10])

        assert anomalies(shown(session, repository)) == {day(7).date().isoformat(): ["size_low"]}


def test_a_first_archive_is_never_an_outlier_and_makes_no_other_one(database: Database) -> None:
    with database.writing() as session:
        repository = sized(session, [1_000_000, *ORDINARY, 1002])

        assert anomalies(shown(session, repository)) == {}


def test_ordinary_archives_after_an_outlier_are_not_outliers(database: Database) -> None:
    with database.writing() as session:
        repository = sized(session, [*ORDINARY, 1_000_000, 1001, 998, 1004])

        assert list(anomalies(shown(session, repository))) == [day(7).date().isoformat()]


def test_too_few_archives_have_no_outliers(database: Database) -> None:
    with database.writing() as session:
        repository = sized(session, [1000, 1000, 1000, 9000])

        assert anomalies(shown(session, repository)) == {}


def test_archives_are_compared_within_their_series(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        for number in range(8):
            an_archive(session, repository, f"s{number}", day(number), original_size=1000, series="small")
            an_archive(session, repository, f"l{number}", day(number), original_size=10**9, series="large")

        assert anomalies(shown(session, repository.id)) == {}


def test_a_plan_without_outliers_shows_none(database: Database) -> None:
    with database.writing() as session:
        repository = sized(session, [*ORDINARY, 9000])
        found = shown(session, repository, outliers=False)

        assert anomalies(found) == {}
        assert found.flags_available["outliers"] is False


def test_an_unknown_size_makes_the_sum_of_the_day_unknown(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        an_archive(session, repository, "known", day(0), original_size=5, deduplicated_size=1)
        an_archive(session, repository, "unknown", day(0.1), original_size=None, deduplicated_size=2)
        (found,) = shown(session, repository.id).repository.days

        assert (found.count, found.original_size, found.deduplicated_size) == (2, None, 3)


def test_days_are_those_of_the_time_zone_even_across_a_clock_change(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)
        an_archive(session, repository, "winter", datetime.fromisoformat("2026-03-28T22:30:00+00:00"))
        an_archive(session, repository, "summer", datetime.fromisoformat("2026-03-29T22:30:00+00:00"))
        found = shown(session, repository.id, zone="Europe/Berlin")

        assert [one.date for one in found.repository.days] == ["2026-03-28", "2026-03-30"]


def test_a_span_of_more_than_ten_years_is_refused(database: Database) -> None:
    with database.writing() as session:
        repository = a_repository(session)

        with pytest.raises(Unprocessable):
            heatmap(session, repository, day(-5000), day(0), "UTC", outliers=True, cadence=NoCadence())
