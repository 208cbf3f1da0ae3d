"""Which archives belong to the series of a template: one name too many, and a prune loses data."""

import fnmatch
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from backup_engine.features import REFUSED_IN_NAMES
from holdfast.backup.archive_name import archive_name
from holdfast.repositories.archive_names import MICROSECONDS, series_name, series_of_template

TEMPLATES = (
    *("{repository}-{now}", "{repository}", "{now}", "{repository}-db-{now}", "{repository}-{now}-db"),
    *("{repository}-{now:%Y-%m-%d}", "x {now:%Y/%m/%d %H:%M}", "{repository}_{now:%Y%m%dT%H%M%S}", "{now:%F}-{now:%T}"),
    *("{repository}-{now:%A}", "{repository}-{now:%b}-{now:%s}", "a*b?c[d]-{now}", "{repository}-{now:%j-%V-%-d}"),
)
MOMENTS = some.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=some.just(UTC))  # noqa: DTZ001
NAMES = some.text(some.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


@given(
    template=some.sampled_from(TEMPLATES),
    repository=NAMES,
    now=MOMENTS,
    refused=some.sampled_from(["", REFUSED_IN_NAMES]),
)
def test_a_series_contains_every_name_that_its_template_generates(
    template: str, repository: str, now: datetime, refused: str
) -> None:
    if not repository.strip("-./ \t{}") or "\ue000" in repository:
        return
    name = archive_name(template, repository=repository, now=now, refused=refused)
    series = series_of_template(template, repository, refused)
    assert series.has(name)
    assert fnmatch.fnmatchcase(name, series.glob)


@given(one=some.sampled_from(TEMPLATES), other=some.sampled_from(TEMPLATES), now=MOMENTS)
def test_no_name_of_one_template_is_in_the_series_of_another(one: str, other: str, now: datetime) -> None:
    if one != other:
        assert not series_of_template(one, "home").has(archive_name(other, repository="home", now=now))


def test_a_series_of_an_agents_engine_has_six_fractional_digits() -> None:
    series = series_of_template("{repository}-{now}", "home", fraction=MICROSECONDS)
    assert series.has("home-2026-11-16T02:00:00.123456")
    assert not series.has("home-2026-11-16T02:00:00.123")
    assert not series.has("home-2026-11-16T02:00:00.123456-db")


def test_repositories_whose_names_share_a_prefix_do_not_share_a_series() -> None:
    series = series_of_template("{repository}-{now}", "home")
    for other in ("home-db", "home-2026", "home.old", "hom", "homes"):
        assert not series.has(archive_name("{repository}-{now}", repository=other, now=datetime.now(UTC)))


@pytest.mark.parametrize("letter", ["c", "x", "X", "Z", "k", "l", "P"])
def test_a_time_format_that_is_ambiguous_gives_an_empty_series(letter: str) -> None:
    template = "{repository}-{now:%" + letter + "}"
    name = archive_name(template, repository="home", now=datetime.now(UTC) - timedelta(days=1))
    assert not series_of_template(template, "home").has(name)


def test_a_series_is_shown_under_its_name_without_the_time() -> None:
    assert series_name("{repository}-{now}", "home") == "home"
    assert series_name("{repository}-db-{now:%Y-%m-%d}", "home") == "home-db"
