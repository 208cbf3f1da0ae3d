"""Real output of both series of engine 1: standard output and log become results."""

from datetime import UTC, datetime, timedelta

import pytest

from backup_engine.borg1.list_files import RECORD_FORMAT
from backup_engine.events import ArchiveProgress, FileStatus, ProgressPercent, QuestionAnswer, QuestionPrompt
from backup_engine.log_results import parse_check_lines, parse_freed_bytes, parse_prune_lines
from backup_engine.results import GarbledOutput, parse_archives, parse_create_result, parse_info
from tests.engine.recordings import VERSIONS, recording

pytestmark = pytest.mark.parametrize("version", VERSIONS)

SOURCE = "/tmp/holdfast-fixtures/source"
SOURCE_BYTES = 301_030
METADATA_BYTES = 2_000
"""The older series also counts an archive's own metadata when it creates the archive."""


def test_the_result_of_a_create_contains_its_sizes(version: str) -> None:
    result = parse_create_result(recording(version, "create").stdout)

    assert result.archive_name == "first"
    assert len(result.archive_id) == 64
    assert result.stats.nfiles == 4
    assert result.stats.original_size in range(SOURCE_BYTES, SOURCE_BYTES + METADATA_BYTES)
    assert result.stats.compressed_size in range(300_000, result.stats.original_size)
    assert result.stats.deduplicated_size == result.stats.compressed_size
    assert result.start.tzinfo is UTC
    assert timedelta(0) <= result.end - result.start < timedelta(minutes=1)
    assert result.duration > 0
    assert result.repository_totals is not None
    assert result.repository_totals.total_size in range(SOURCE_BYTES, SOURCE_BYTES + METADATA_BYTES)
    assert 300_000 < result.repository_totals.unique_size < result.repository_totals.unique_original_size


def test_a_placeholder_in_an_archive_name_is_resolved_in_the_result(version: str) -> None:
    result = parse_create_result(recording(version, "create_with_placeholder").stdout)

    assert result.archive_name == f"host-{result.start:%Y-%m-%d}"


def test_the_result_of_an_empty_archive_has_no_files(version: str) -> None:
    stats = parse_create_result(recording(version, "create_all_sources_missing").stdout).stats

    assert stats.nfiles == 0
    assert stats.original_size < METADATA_BYTES


def test_a_listing_contains_every_archive_oldest_first(version: str) -> None:
    archives = parse_archives(recording(version, "list_archives").stdout)

    assert [archive.name for archive in archives] == ["day-1", "day-2", "day-3", "day-4"]
    assert [archive.start for archive in archives] == [datetime(2026, 1, day, 10, tzinfo=UTC) for day in (1, 2, 3, 4)]
    assert len({archive.id for archive in archives}) == 4
    assert {(archive.comment, archive.hostname, archive.username) for archive in archives} == {
        ("holdfast:fixture", "fixture-host", "root")
    }
    assert all(archive.end is not None and archive.end >= archive.start for archive in archives)


def test_a_listing_of_the_last_archive_contains_the_newest(version: str) -> None:
    assert [archive.name for archive in parse_archives(recording(version, "list_last_archive").stdout)] == ["day-4"]


def test_a_listing_of_an_empty_repository_is_empty_and_accepted(version: str) -> None:
    assert parse_archives(recording(version, "list_empty").stdout) == []


@pytest.mark.parametrize("kept", [0, 1, 100, 500, -2])
def test_a_truncated_listing_is_refused(version: str, kept: int) -> None:
    with pytest.raises(GarbledOutput):
        parse_archives(recording(version, "list_archives").stdout.rstrip()[:kept])


@pytest.mark.parametrize("case", ["wrong_passphrase", "locked", "relocated", "repository_missing"])
def test_the_output_of_a_failed_listing_is_refused_and_never_read_as_an_empty_list(version: str, case: str) -> None:
    with pytest.raises(GarbledOutput):
        parse_archives(recording(version, case).stdout)


def test_info_of_a_repository_contains_its_sizes(version: str) -> None:
    info = parse_info(recording(version, "info_repository").stdout)

    assert (info.encryption, info.location, info.archives) == (
        "repokey-blake2",
        "/tmp/holdfast-fixtures/repository",
        (),
    )
    assert len(info.repository_id) == 64
    assert info.last_modified is not None
    assert info.repository_totals is not None
    assert info.repository_totals.unique_chunks == info.repository_totals.total_chunks == 6


def test_info_of_an_archive_contains_its_sizes(version: str) -> None:
    (archive,) = parse_info(recording(version, "info_archive").stdout).archives

    assert (archive.name, archive.comment, archive.hostname) == ("first", "holdfast:fixture", "fixture-host")
    assert (archive.stats.original_size, archive.stats.nfiles) == (301_030, 4)


@pytest.mark.parametrize("case", ["prune_dry_run", "prune"])
def test_a_prune_lists_which_archives_it_keeps_by_which_rule_and_which_it_removes(version: str, case: str) -> None:
    result = parse_prune_lines(recording(version, case).events)

    assert [(archive.archive, archive.rule) for archive in result.keep] == [
        ("day-4", "secondly"),
        ("day-3", "daily"),
        ("day-2", "daily"),
    ]
    assert [(archive.archive, archive.rule) for archive in result.prune] == [("day-1", None)]
    assert result.prune[0].time == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert len({archive.id for archive in (*result.keep, *result.prune)}) == 4


def test_a_compact_reports_roughly_how_much_it_freed(version: str) -> None:
    freed = parse_freed_bytes(recording(version, "compact").events)

    assert freed is not None
    assert 1_000 < freed < 100_000


def test_the_freed_space_of_a_run_other_than_a_compact_is_unknown(version: str) -> None:
    assert parse_freed_bytes(recording(version, "check").events) is None


def test_a_check_reports_a_verdict_for_each_part(version: str) -> None:
    result = parse_check_lines(recording(version, "check").events)

    assert result.finished == ("no problems found", "no problems found")
    assert result.clean


def test_a_partial_check_has_one_part(version: str) -> None:
    assert parse_check_lines(recording(version, "check_partial").events).finished == ("no problems found",)


def test_a_check_of_a_damaged_repository_lists_its_problems(version: str) -> None:
    result = parse_check_lines(recording(version, "check_damaged").events)

    assert result.finished == ("errors found",)
    assert any("Segment entry checksum mismatch" in problem for problem in result.problems)
    assert not result.clean


def test_a_check_that_never_finished_is_not_clean(version: str) -> None:
    assert not parse_check_lines(recording(version, "locked").events).clean


def test_a_backup_reports_its_progress(version: str) -> None:
    events = recording(version, "create_changed").events
    progress = [event for event in events if isinstance(event, ArchiveProgress) and not event.finished]

    assert progress[-1].path == f"{SOURCE}/a-large.bin".lstrip("/")
    assert recording(version, "create_changed").accumulator.last_progress == progress[-1]


def test_a_restore_reports_its_percentage(version: str) -> None:
    last = recording(version, "extract").accumulator.last_percent

    assert isinstance(last, ProgressPercent)
    assert (last.msgid, last.current, last.total) == ("extract", 530, 530)
    assert last.info == ("tmp/holdfast-fixtures/source/documents/ünïcode.txt",)


def test_a_backup_that_lists_files_reports_the_status_of_each(version: str) -> None:
    events = recording(version, "create_unreadable").events

    assert [event for event in events if isinstance(event, FileStatus)] == [
        FileStatus("E", f"{SOURCE}/documents"),
        FileStatus("E", f"{SOURCE}/notes.txt"),
        FileStatus("A", f"{SOURCE}/random.bin"),
    ]


def test_the_prompt_about_a_moved_repository_is_answered_with_no(version: str) -> None:
    events = recording(version, "relocated").events

    assert [event.msgid for event in events if isinstance(event, QuestionPrompt)] == [
        "BORG_RELOCATED_REPO_ACCESS_IS_OK"
    ]
    assert [event.accepted for event in events if isinstance(event, QuestionAnswer)] == [None, False]


def test_a_file_listing_has_one_record_per_file_in_the_requested_format(version: str) -> None:
    parts = recording(version, "list_files").stdout.split(b"\0")

    assert parts.pop() == b""
    records = [part.split(b"\t") for part in parts[::2]]
    assert {len(record) for record in records} == {RECORD_FORMAT.count("{TAB}") + 1}
    sizes = {record[-1].decode(): int(record[5]) for record in records}
    assert sizes[f"{SOURCE}/documents/letter.txt".lstrip("/")] == 520
    assert not any(path.endswith(".bin") for path in sizes)


def test_an_exported_key_starts_with_the_key_marker(version: str) -> None:
    assert recording(version, "key_export").stdout.startswith(b"BORG_KEY ")


def test_one_file_extracted_to_standard_output_is_exactly_its_content(version: str) -> None:
    assert recording(version, "extract_to_stdout").stdout == b"Dear reader,\n" * 40
