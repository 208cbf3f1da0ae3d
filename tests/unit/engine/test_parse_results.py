"""A result is parsed completely or refused."""

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from backup_engine.events import Event, LogMessage
from backup_engine.log_results import parse_check_lines, parse_freed_bytes, parse_prune_lines
from backup_engine.results import GarbledOutput, parse_archives, parse_create_result, parse_info

STATS = {"original_size": 10, "compressed_size": 9, "deduplicated_size": 8, "nfiles": 2}
CREATED: dict[str, Any] = {
    "archive": {
        "name": "a",
        "id": "f" * 64,
        "start": "2026-11-15T00:25:08.000000",
        "end": "2026-11-15T00:25:09.500000",
        "duration": 1.5,
        "stats": STATS,
    },
    "cache": {
        "stats": {
            "total_size": 1,
            "total_csize": 2,
            "unique_size": 3,
            "unique_csize": 4,
            "total_chunks": 5,
            "total_unique_chunks": 6,
        }
    },
    "repository": {"id": "e" * 64},
}


def without(document: dict[str, Any], *path: str) -> bytes:
    changed = deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return json.dumps(changed).encode()


def replaced(document: dict[str, Any], value: object, *path: str) -> bytes:
    changed = deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return json.dumps(changed).encode()


def log(message: str, level: str = "INFO") -> LogMessage:
    return LogMessage(level, "borg.output.list", None, message)


def test_the_result_of_a_create_is_parsed() -> None:
    result = parse_create_result(json.dumps(CREATED).encode())

    assert (result.archive_name, result.archive_id, result.repository_id) == ("a", "f" * 64, "e" * 64)
    assert result.end == datetime(2026, 11, 15, 0, 25, 9, 500_000, tzinfo=UTC)
    assert result.repository_totals is not None
    assert (result.repository_totals.total_size, result.repository_totals.unique_size) == (1, 4)


def test_times_with_an_offset_are_converted_to_utc() -> None:
    raw = replaced(CREATED, "2026-11-15T02:25:08+02:00", "archive", "start")

    assert parse_create_result(raw).start == datetime(2026, 11, 15, 0, 25, 8, tzinfo=UTC)


def test_sizes_that_an_engine_does_not_report_are_none_and_never_zero() -> None:
    raw = replaced(CREATED, {"original_size": 1, "nfiles": 1}, "archive", "stats")
    stats = parse_create_result(raw).stats

    assert (stats.compressed_size, stats.deduplicated_size) == (None, None)


def test_a_repository_without_totals_has_none() -> None:
    assert parse_create_result(without(CREATED, "cache")).repository_totals is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"null",
        b"[]",
        b"{",
        b"\xff",
        json.dumps(CREATED).encode()[:-1],
        json.dumps(CREATED).encode() * 2,
        without(CREATED, "archive"),
        without(CREATED, "archive", "name"),
        without(CREATED, "archive", "id"),
        without(CREATED, "archive", "stats", "nfiles"),
        without(CREATED, "cache", "stats", "unique_csize"),
        replaced(CREATED, "soon", "archive", "start"),
        replaced(CREATED, "0001-01-01T00:00:00+23:59", "archive", "start"),
        replaced(CREATED, -1, "archive", "stats", "nfiles"),
        replaced(CREATED, True, "archive", "stats", "nfiles"),
        replaced(CREATED, "long", "archive", "duration"),
        replaced(CREATED, [], "cache"),
    ],
)
def test_a_garbled_result_is_refused(raw: bytes) -> None:
    with pytest.raises(GarbledOutput):
        parse_create_result(raw)


ARCHIVE: dict[str, Any] = {"name": "a", "id": "1", "start": "2026-01-01T00:00:00"}


def test_one_invalid_archive_makes_the_whole_listing_refused() -> None:
    good = {"archives": [ARCHIVE, {**ARCHIVE, "name": "b"}]}
    bad = {"archives": [ARCHIVE, {"name": "b"}]}

    assert [archive.name for archive in parse_archives(json.dumps(good).encode())] == ["a", "b"]
    with pytest.raises(GarbledOutput):
        parse_archives(json.dumps(bad).encode())


@pytest.mark.parametrize("content", [{}, {"archives": None}, {"archives": {}}, {"archives": ["a"]}, {"archives": [[]]}])
def test_a_listing_without_a_list_of_archives_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(GarbledOutput):
        parse_archives(json.dumps(content).encode())


def test_an_archive_without_the_optional_keys_is_parsed() -> None:
    (archive,) = parse_archives(json.dumps({"archives": [ARCHIVE]}).encode())

    assert (archive.end, archive.comment, archive.hostname) == (None, "", None)


def test_a_comment_that_is_not_text_becomes_empty() -> None:
    (archive,) = parse_archives(json.dumps({"archives": [{**ARCHIVE, "comment": 5}]}).encode())
    assert archive.comment == ""


@given(some.binary())
def test_arbitrary_bytes_are_refused(raw: bytes) -> None:
    for parse in (parse_archives, parse_create_result, parse_info):
        with pytest.raises(GarbledOutput):
            parse(raw)


@given(
    some.dictionaries(some.sampled_from(["archives", "archive", "cache", "repository"]), some.just({}) | some.just([]))
)
def test_any_json_object_is_parsed_or_refused(content: dict[str, object]) -> None:
    for parse in (parse_archives, parse_create_result, parse_info):
        try:
            parse(json.dumps(content).encode())
        except GarbledOutput:
            continue


ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("message", "name", "rule"),
    [
        (f"Keeping archive (rule: daily[oldest] #1):    a1     Sun, 2026-11-15 00:25:08 [{ID}]", "a1", "daily[oldest]"),
        (
            f"Keeping archive (rule: quarterly_3monthly #12): a  b   Sun, 2026-11-15 00:25:08 [{ID}]",
            "a  b",
            "quarterly_3monthly",
        ),
        (f"Keeping archive (rule: within #1): x Sun, 2026-11-15 02:25:08 +0200 [{ID}]", "x", "within"),
        (
            f"Keeping checkpoint archive:     c.checkpoint    Sun, 2026-11-15 00:25:08 [{ID}]",
            "c.checkpoint",
            "checkpoint",
        ),
        (f"Would prune:        [odd] Mon, name   Sun, 2026-11-15 00:25:08 [{ID}]", "[odd] Mon, name", None),
        (f"Pruning archive (1/3):                       a3   Sun, 2026-11-15 00:25:08 [{ID}]", "a3", None),
    ],
)
def test_a_prune_line_is_parsed(message: str, name: str, rule: str | None) -> None:
    result = parse_prune_lines([log(message)])

    (archive,) = result.keep or result.prune
    assert (archive.archive, archive.rule, archive.id) == (name, rule, ID)
    assert bool(result.keep) == (rule is not None)
    assert archive.time == datetime(2026, 11, 15, 0, 25, 8, tzinfo=UTC)


def test_other_lines_of_a_prune_are_ignored() -> None:
    events: list[Event] = [log("Keeping 3 archives and 0 checkpoints"), log("Would prune: cut off")]

    assert parse_prune_lines(events).keep == parse_prune_lines(events).prune == ()


def test_an_impossible_time_in_a_prune_is_refused() -> None:
    with pytest.raises(GarbledOutput):
        parse_prune_lines([log(f"Would prune: a Sun, 2026-13-45 00:25:08 [{ID}]")])


@pytest.mark.parametrize(
    ("text", "freed"),
    [("0 B", 0), ("999 B", 999), ("7.80 kB", 7_800), ("1.25 GB", 1_250_000_000), ("3.00 TB", 3_000_000_000_000)],
)
def test_freed_space_is_converted_to_bytes(text: str, freed: int) -> None:
    assert parse_freed_bytes([log(f"compaction freed about {text} repository space.")]) == freed


@pytest.mark.parametrize("text", ["1.2.3 kB", "... B", "5 XB"])
def test_freed_space_that_is_not_a_valid_size_is_unknown(text: str) -> None:
    assert parse_freed_bytes([log(f"compaction freed about {text} repository space.")]) is None


def test_a_check_keeps_a_bounded_number_of_problems() -> None:
    result = parse_check_lines([log(f"problem {number}", "ERROR") for number in range(50)], most_problems=10)

    assert len(result.problems) == 10
    assert not result.clean
