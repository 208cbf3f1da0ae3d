"""Printed text fits the terminal and is easy to read."""

import json

import pytest

from holdfast.entry.client.table import Column, fitted
from holdfast.entry.client.text import clean, clean_json, cut, shorten, width
from holdfast.entry.client.units import age, count, duration, size, speed, when


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, ünïcode, 漢字", "plain, ünïcode, 漢字"),
        ("\x1b]0;pwn\x07", "\\x1b]0;pwn\\x07"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eexe.gpj", "\\u202eexe.gpj"),
        ("\udcff", "\\udcff"),
        ("[red]x[/red]", "[red]x[/red]"),
    ],
)
def test_control_characters_are_escaped(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_cleaned_json_is_still_the_same_document() -> None:
    value = {"name": "\x1b[0m \x7f \x9b \u202e \udcff \U000e0041 ü", "list": [1, None]}
    document = clean_json(json.dumps(value, ensure_ascii=False, indent=2))

    assert json.loads(document) == value
    assert not any(sign in document for sign in ("\x1b", "\x7f", "\x9b", "\u202e", "\udcff", "\U000e0041"))


def test_a_path_that_is_too_wide_is_shortened_in_the_middle() -> None:
    short = shorten("/srv/data/projects/2026/reports/final/summary.odt", 24)

    assert width(short) == 24
    assert short.startswith("/srv/")
    assert short.endswith("summary.odt")


@pytest.mark.parametrize("columns", range(1, 30))
def test_wide_characters_never_make_a_text_too_wide(columns: int) -> None:
    text = "漢字/ファイル/名前 plain é"

    assert width(shorten(text, columns)) <= columns
    assert width(cut(text, columns)) <= columns


@pytest.mark.parametrize("available", [40, 80, 120])
def test_a_table_fits_and_only_elastic_columns_shrink_while_possible(available: int) -> None:
    columns = (Column("ID", right=True), Column("NAME", elastic=True), Column("PATH", elastic=True), Column("STATUS"))
    rows = [["12", "n" * 30, "/" + "p" * 90, "completed"]]

    widths = fitted(columns, rows, available)

    assert sum(widths) + 2 * (len(columns) - 1) <= available
    assert (widths[0], widths[3]) == (2, 9)


def test_sizes_counts_and_durations_are_readable() -> None:
    assert [size(number) for number in (0, 999, 1000, 999_949, 41_000_000, 3_200_000_000, None)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "999.9 kB",
        "41.0 MB",
        "3.2 GB",
        "-",
    ]
    assert [count(1204, "file"), count(1, "file"), count(0, "archive")] == ["1,204 files", "1 file", "0 archives"]
    assert [duration(seconds) for seconds in (0.24, 12, 150, 4000, 400_000)] == [
        "0.2 s",
        "12 s",
        "2 min 30 s",
        "1 h 06 min",
        "4 days",
    ]
    assert speed(270_000_000, 1.0) == "270.0 MB/s"
    assert speed(5, 0.0) is None


def test_times_are_shown_in_the_users_zone_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert when("2026-07-01T12:00:00.5+00:00") == "2026-07-01 14:00:00 CEST"
        assert when("2026-12-01T12:00:00+00:00") == "2026-12-01 13:00:00 CET"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert when(None) == "-"
    assert when("not a time") == "-"
    assert age("2020-01-01T00:00:00+00:00").endswith("days ago")
