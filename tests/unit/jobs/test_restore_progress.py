"""The progress of an extraction."""

from typing import Any

import pytest

from backup_engine.events import ProgressPercent
from backup_jobs.restore.progress import ExtractProgress, estimated_time_remaining


def test_size_speed_and_percentage_are_derived_from_the_engines_progress() -> None:
    reports: list[dict[str, Any]] = []
    progress = ExtractProgress(lambda **values: reports.append(values))

    for time, current in ((10.0, 0), (12.0, 400), (14.0, 800)):
        progress.on_event(ProgressPercent(msgid="extract", current=current, total=1000, info=("a/b",), time=time))

    assert [report["progress_percent"] for report in reports] == [0.0, 40.0, 80.0]
    assert [report["restore_speed"] for report in reports] == [None, 200, 200]
    assert reports[-1]["restored_size"] == 800
    assert reports[-1]["original_size"] == 1000
    assert reports[-1]["current_file"] == "a/b"


def test_an_extraction_never_shows_100_percent_before_its_end() -> None:
    reports: list[dict[str, Any]] = []
    progress = ExtractProgress(lambda **values: reports.append(values))

    progress.on_event(ProgressPercent(msgid="extract", current=1000, total=1000, time=1.0))

    assert reports[0]["progress_percent"] == 99.0


@pytest.mark.parametrize(
    "event",
    [
        ProgressPercent(msgid="extract", current=0, total=0),
        ProgressPercent(msgid="extract.permissions", current=1, total=2),
        ProgressPercent(msgid="extract", current=5, total=10, finished=True),
    ],
)
def test_other_messages_are_not_progress(event: ProgressPercent) -> None:
    reports: list[dict[str, Any]] = []

    ExtractProgress(lambda **values: reports.append(values)).on_event(event)

    assert reports == []


@pytest.mark.parametrize(
    ("original", "restored", "speed", "seconds"),
    [(1000, 400, 100, 6), (1000, 1000, 100, 0), (1000, 1200, 100, 0), (1000, 400, 0, None), (None, 1, 1, None)],
)
def test_the_time_left_is_computed_from_sizes_and_speed(
    original: int | None, restored: int | None, speed: int | None, seconds: int | None
) -> None:
    assert estimated_time_remaining(original, restored, speed) == seconds
