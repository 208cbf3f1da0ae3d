"""A job's progress, as one line in a terminal and as plain lines."""

from typing import Any

import pytest

from holdfast.entry.client import progress
from holdfast.entry.client.text import width
from tests.support.terminals import Screen

FILE = "home/anna/projects/2026/reports/final/summary.odt"


def running(percent: float | None = None, **details: Any) -> dict[str, Any]:
    return {
        "id": 12,
        "kind": "backup",
        "status": "running",
        "repository": "etc",
        "package_name": None,
        "queued_reason": None,
        "queued_behind_id": None,
        "progress_percent": percent,
        "progress_message": None,
        "progress_details": {
            "nfiles": 1204,
            "original_size": 3_200_000_000,
            "backup_speed": 270_000_000,
            "current_file": FILE,
            **details,
        },
    }


def shown(monkeypatch: pytest.MonkeyPatch, operation: dict[str, Any], columns: int) -> str:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    progress.LiveLine().show(operation)
    return screen.getvalue().removeprefix("\r").removesuffix("\x1b[K")


@pytest.mark.parametrize("columns", [80, 120])
def test_a_first_backup_shows_files_bytes_speed_and_the_current_file(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = shown(monkeypatch, running(), columns)

    assert width(line) < columns
    assert "backup 12 of etc" in line
    assert "1,204 files  3.2 GB  270.0 MB/s" in line
    assert line.endswith("summary.odt")
    assert "%" not in line  # the total is unknown
    assert "━" not in line


@pytest.mark.parametrize("columns", [80, 120])
def test_a_later_backup_also_shows_how_much_is_left(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {"total_expected_size": 6_400_000_000, "estimated_time_remaining": 30}
    line = shown(monkeypatch, running(50.0, **expected), columns)

    assert width(line) < columns
    assert "50%" in line
    assert "3.2 GB of 6.4 GB" in line
    assert line.endswith(".odt")
    assert ("━━━━━─────" in line, "30 s left" in line) == (columns == 120, columns == 120)


def test_a_backup_with_more_data_than_last_time_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    line = shown(monkeypatch, running(None, total_expected_size=5, more_than_expected=True), 120)

    assert "more than last time" in line
    assert "3.2 GB of" not in line


def test_a_hostile_file_name_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    line = shown(monkeypatch, running(None, current_file="\x1b[2J\n\x07x"), 120)

    assert line.endswith("\\x1b[2J\\n\\x07x")


@pytest.mark.parametrize("columns", [10, 20, 40])
def test_a_line_fits_a_narrow_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert width(shown(monkeypatch, running(50.0), columns)) < columns


def test_a_waiting_job_shows_what_it_waits_for() -> None:
    pending = {**running(), "status": "pending", "queued_reason": "repository_busy", "queued_behind_id": 7}

    assert progress.waiting(pending) == "waiting: another job is using the repository (job 7)"


def test_piped_output_repeats_an_unchanged_line_only_occasionally(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=False)
    monkeypatch.setattr("sys.stdout", screen)
    moments = iter([0.0, 1.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(moments, 12.0))
    lines = progress.PlainLines()
    for _ in range(4):
        lines.show(running())

    assert screen.getvalue().splitlines() == ["backup 12 of etc: running, 1,204 files, 3.2 GB, 270.0 MB/s"] * 2
