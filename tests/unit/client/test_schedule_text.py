"""Times as users type them, and as the client prints them."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import typer

from holdfast.entry.client import schedule_text as words


def test_a_time_of_day_becomes_a_daily_pattern() -> None:
    assert words.daily_cron("02:00") == "0 2 * * *"
    assert words.daily_cron("7:05") == "5 7 * * *"


@pytest.fixture
def berlin() -> Iterator[None]:
    """A machine in Berlin, which is an hour ahead of UTC in winter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(("text", "minutes"), [("30m", 30), ("6h", 360), ("2d", 2880), ("1w", 10080), ("90 min", 90)])
def test_time_spans_are_parsed(text: str, minutes: int) -> None:
    assert words.minutes(text) == minutes


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("22:00-06:00", {"days": [], "from": "22:00", "to": "06:00"}),
        ("sat,sun 00:00-24:00", {"days": ["sat", "sun"], "from": "00:00", "to": "24:00"}),
        (
            "fri-mon 20:00-21:00 500k",
            {"days": ["fri", "sat", "sun", "mon"], "from": "20:00", "to": "21:00", "upload_kib": 500},
        ),
    ],
)
def test_windows_are_parsed(text: str, window: dict[str, object]) -> None:
    assert words.window(text) == window


@pytest.mark.parametrize("text", ["", "noon", "mon-fri", "x 22:00-06:00"])
def test_an_invalid_window_ends_the_command(text: str) -> None:
    with pytest.raises(typer.Exit):
        words.window(text)


def test_future_times_are_shown_in_words() -> None:
    now = datetime.now().astimezone()
    noon = now.replace(hour=12, minute=0)
    assert words.soon(noon.isoformat()).startswith("today 12:00")
    assert words.soon((noon + timedelta(days=1)).isoformat()).startswith("tomorrow 12:00")
    assert words.soon((noon + timedelta(days=3)).isoformat()).startswith(f"{noon + timedelta(days=3):%a} ")
    assert words.soon((noon + timedelta(days=30)).isoformat()).startswith(f"{noon + timedelta(days=30):%Y-%m-%d} ")
    assert words.soon(None) == "-"


def test_an_end_may_be_a_span_a_date_or_a_time(berlin: None) -> None:
    soon = datetime.fromisoformat(words.until("3d"))
    assert abs(soon - datetime.now(UTC) - timedelta(days=3)) < timedelta(minutes=1)
    assert words.until("2026-12-24T08:00+02:00") == "2026-12-24T06:00:00+00:00"
    assert words.until("2026-12-24T08:00") == "2026-12-24T07:00:00+00:00"
    assert words.until("2026-12-24") == "2026-12-23T23:00:00+00:00"
    with pytest.raises(typer.Exit):
        words.until("christmas")


def test_the_time_zone_comes_from_the_machines_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert words.local_zone() == "Asia/Tokyo"
