"""Which archives belong to one series."""

import pytest

from holdfast.repositories.series import series_of


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("web-2026-11-15", "web"),
        ("web-2026-11-15T01:02:03", "web"),
        ("web-2026-11-15T01:02:03.123456+02:00", "web"),
        ("web_20261115_0102", "web"),
        ("2026-11-15-web", "web"),
        ("host-2026-11-15-home", "host-home"),
        ("web-1763168523", "web"),
        ("web.1763168523.5", "web"),
        ("2026-11-15", "archives"),
        ("nightly", "nightly"),
        ("version-12", "version-12"),
        ("build-20261", "build-20261"),
    ],
)
def test_timestamps_are_stripped_from_a_name(name: str, series: str) -> None:
    assert series_of(name) == series


@pytest.mark.parametrize(
    ("template", "name", "series"),
    [
        ("{repository}-{now}", "nas-2026-11-15T01:02:03.123", "nas"),
        ("{repository}-{now}", "photos-2024-01-01-2026-11-15T01:02:03.123", "photos-2024-01-01"),
        ("daily-{now:%d}-home", "daily-15-home", "daily-home"),
        ("{repository}-{now:%A}", "nas-Sunday", "nas"),
        ("week {now:%V}", "week-46", "week"),
        ("{now:%s}", "1763168523", "archives"),
        ("{repository}-{now:%Y%m%d}-{now:%H%M}", "nas-20261115-0102", "nas"),
    ],
)
def test_a_name_that_matches_the_template_loses_the_times_of_the_template(
    template: str, name: str, series: str
) -> None:
    assert series_of(name, template) == series


def test_a_name_that_does_not_match_the_template_loses_whatever_looks_like_a_time() -> None:
    assert series_of("cron-2026-11-15", "{repository}-{now:%A}") == "cron"
    assert series_of("manual", "{repository}-{now}") == "manual"


def test_a_template_without_a_time_is_ignored() -> None:
    assert series_of("fixed-2026-11-15", "fixed-2026-11-15") == "fixed"
