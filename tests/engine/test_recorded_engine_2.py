"""Real output of the pinned beta of engine 2: how each run ended, and the results it contains."""

import base64
from datetime import UTC, datetime

import pytest

from backup_engine.features import BETAS
from backup_engine.listing import read_listing
from backup_engine.log_results import parse_check_lines, parse_freed_bytes, parse_prune_lines
from backup_engine.results import GarbledOutput, parse_archives, parse_create_result, parse_info
from tests.engine.recordings import cases, recording

VERSION = "2.0.0b23"
SOURCE = "/tmp/holdfast-fixtures/source"
GONE = ("/tmp/holdfast-fixtures/gone", "/tmp/holdfast-fixtures/gone-too")

COMPLETED = (
    "check",
    "check_partial",
    "compact",
    "create",
    "create_changed",
    "create_listing_files",
    "delete_archive",
    "diff",
    "export_tar",
    "extract",
    "extract_to_stdout",
    "info_archive",
    "info_repository",
    "init",
    "key_export",
    "list_archives",
    "list_deleted_archives",
    "list_empty",
    "list_files",
    "list_last_archive",
    "prune",
    "prune_dry_run",
    "relocated_confirmed",
    "repository_read_only",
    "undelete_archive",
)
"""A file that changed during a backup is read again.

The repository's own folder may be read-only: nothing is written directly in it.
"""

WITH_WARNINGS = {
    "create_unreadable": (f"{SOURCE}/documents", f"{SOURCE}/notes.txt"),
    "create_vanished": (f"{SOURCE}/z-vanishing.txt",),
    "create_all_sources_missing": GONE,
    "create_some_sources_missing": GONE[:1],
    "create_not_utf8": (f"{SOURCE}/na\udcefve.txt",),
    "extract_nothing_matched": (None,),
}

FAILED = {
    "check_damaged": ("engine.damaged", "The check found damage"),
    "check_repair": ("engine.damaged", "The repository still contains damaged data"),
    "create_disk_full": ("engine.disk_full", "No space is left"),
    "delete_archive_missing": ("engine.failed", "The archive is no longer in the repository"),
    "extract_damaged": ("engine.damaged", "The repository is damaged; run a check"),
    "info_archive_ambiguous": ("engine.failed", "The archive is no longer in the repository"),
    "info_archive_missing": ("engine.failed", "The archive is no longer in the repository"),
    "init_exists": ("engine.repository_exists", "import the repository"),
    "init_folder_in_use": ("engine.repository_exists", "choose another path"),
    "init_not_permitted": ("engine.permission_denied", "correct the permissions"),
    "locked_exclusively": ("engine.locked", "try again once it has finished"),
    "no_passphrase": ("engine.passphrase_wrong", "enter the correct one"),
    "not_a_repository": ("engine.repository_missing", "There is no repository at this path"),
    "relocated": ("engine.repository_relocated", "confirm that it was moved"),
    "repository_missing": ("engine.repository_missing", "There is no repository at this path"),
    "repository_not_permitted": ("engine.permission_denied", "correct the permissions"),
    "unencrypted_unknown": ("engine.failed", "not encrypted and has not been used"),
    "usage_error": ("engine.failed", "The engine failed: error: unrecognized arguments: --no-such-option."),
    "wrong_passphrase": ("engine.passphrase_wrong", "enter the correct one"),
}

BY_SIGNAL = ("create_sigterm", "create_sigkill")


def test_every_recording_is_covered_here_and_is_of_a_supported_beta() -> None:
    assert cases(VERSION) == {*COMPLETED, *WITH_WARNINGS, *FAILED, *BY_SIGNAL}
    assert VERSION in BETAS


@pytest.mark.parametrize("case", COMPLETED)
def test_a_successful_run_is_completed_without_message_or_warnings(case: str) -> None:
    outcome = recording(VERSION, case).outcome()

    assert (outcome.status, outcome.error_key, outcome.message, outcome.warnings) == ("completed", None, None, ())


@pytest.mark.parametrize("case", WITH_WARNINGS)
def test_a_run_with_warnings_names_each_path(case: str) -> None:
    outcome = recording(VERSION, case).outcome()

    assert (outcome.status, outcome.error_key) == ("completed_with_warnings", None)
    assert tuple(warning.path for warning in outcome.warnings) == WITH_WARNINGS[case]


@pytest.mark.parametrize("case", FAILED)
def test_a_failed_run_has_an_error_key_and_a_message_with_advice(case: str) -> None:
    outcome = recording(VERSION, case).outcome()

    key, part_of_message = FAILED[case]
    assert (outcome.status, outcome.error_key) == ("failed", key)
    assert outcome.message is not None
    assert part_of_message in outcome.message


@pytest.mark.parametrize("case", BY_SIGNAL)
def test_a_run_ended_by_a_signal_is_interrupted_or_cancelled_on_request(case: str) -> None:
    assert recording(VERSION, case).outcome().status == "interrupted"
    assert recording(VERSION, case).outcome(cancel_requested=True).status == "cancelled"


def test_a_backup_of_only_missing_sources_is_distinguished_from_one_with_some_missing() -> None:
    assert recording(VERSION, "create_all_sources_missing").accumulator.all_sources_missing(GONE)
    assert not recording(VERSION, "create_some_sources_missing").accumulator.all_sources_missing((SOURCE, GONE[0]))


def test_the_result_of_a_create_lacks_the_sizes_that_engine_2_does_not_report() -> None:
    result = parse_create_result(recording(VERSION, "create").stdout)

    assert (result.archive_name, len(result.archive_id), result.stats.nfiles) == ("first", 64, 4)
    assert result.stats.original_size > 301_000
    assert (result.stats.compressed_size, result.stats.deduplicated_size) == (None, None)
    assert result.repository_totals is None
    assert result.start.tzinfo is UTC


def test_a_listing_contains_every_archive_with_the_comment_that_names_its_operation() -> None:
    archives = parse_archives(recording(VERSION, "list_archives").stdout)

    assert [archive.name for archive in archives] == ["day-1", "day-2", "day-3", "day-4"]
    assert all(archive.end is not None and archive.start < archive.end for archive in archives)
    assert {(archive.comment, archive.hostname, archive.username) for archive in archives} == {
        ("holdfast:fixture", "fixture-host", "root")
    }


def test_deleted_archives_are_listed_separately() -> None:
    assert [archive.name for archive in parse_archives(recording(VERSION, "list_deleted_archives").stdout)] == ["first"]


@pytest.mark.parametrize("case", ["wrong_passphrase", "relocated", "repository_missing"])
def test_the_output_of_a_failed_listing_is_refused_and_never_read_as_an_empty_list(case: str) -> None:
    with pytest.raises(GarbledOutput):
        parse_archives(recording(VERSION, case).stdout)


def test_info_of_a_repository_contains_its_encryption_but_no_sizes() -> None:
    info = parse_info(recording(VERSION, "info_repository").stdout)

    assert (info.encryption, info.repository_totals, info.archives) == ("aes256-ocb", None, ())
    assert len(info.repository_id) == 64


@pytest.mark.parametrize(
    ("told", "name"),
    [
        (b'{"encryption": "none-sha256", "id_hash": "sha256"}', "none"),
        (b'{"encryption": "chacha20-poly1305", "id_hash": "blake3"}', "chacha20-poly1305-blake3"),
        (b'{"encryption": "aes256-ocb", "id_hash": "sha256", "keyfile": "/k"}', "keyfile-aes256-ocb"),
        (b'{"encryption": "authenticated-blake3", "id_hash": "blake3"}', "authenticated-blake3"),
    ],
)
def test_each_encryption_mode_is_shown_by_the_name_used_to_create_it(told: bytes, name: str) -> None:
    raw = b'{"repository": {"id": "x", "location": "/r"}, "encryption": %s}' % told

    assert parse_info(raw).encryption == name


def test_info_of_an_archive_contains_its_number_of_files() -> None:
    (archive,) = parse_info(recording(VERSION, "info_archive").stdout).archives

    assert (archive.name, archive.comment, archive.stats.nfiles) == ("first", "holdfast:fixture", 4)


@pytest.mark.parametrize("case", ["prune_dry_run", "prune"])
def test_a_prune_lists_which_archives_it_keeps_by_which_rule_and_which_it_removes(case: str) -> None:
    result = parse_prune_lines(recording(VERSION, case).events)

    assert [(archive.archive, archive.rule) for archive in result.keep] == [
        ("day-4", "keep"),
        ("day-3", "daily"),
        ("day-2", "daily"),
    ]
    assert [(archive.archive, archive.rule) for archive in result.prune] == [("day-1", None)]
    assert result.prune[0].time == datetime(2026, 1, 1, 10, tzinfo=UTC)


def test_a_compact_reports_roughly_how_much_it_freed() -> None:
    assert parse_freed_bytes(recording(VERSION, "compact").events) == 5_000


def test_a_check_reports_a_verdict_for_each_part() -> None:
    whole, damaged = (parse_check_lines(recording(VERSION, case).events) for case in ("check", "check_damaged"))

    assert whole.finished == ("no problems found", "no problems found")
    assert whole.clean
    assert damaged.finished == ("errors found", "problems found")
    assert any("is corrupted" in problem for problem in damaged.problems)


def test_a_file_listing_has_one_line_per_file() -> None:
    sizes = {item.path.decode(): item.size for item in read_listing([recording(VERSION, "list_files").stdout])}

    assert sizes[f"{SOURCE}/documents/letter.txt".lstrip("/")] == 520
    assert not any(path.endswith(".bin") for path in sizes)


def test_a_truncated_file_listing_is_refused() -> None:
    listing = recording(VERSION, "list_files").stdout
    for cut in (1, 2, 40):
        with pytest.raises(GarbledOutput):
            list(read_listing([listing[:-cut]]))


def test_the_bytes_of_a_path_are_taken_from_its_base64_form() -> None:
    line = recording(VERSION, "list_files").stdout.splitlines()[0]
    odd = line.replace(b'"path": ', b'"path_b64": "%s", "path": ' % base64.b64encode(b"caf\xe9"))

    assert next(iter(read_listing([odd + b"\n"]))).path == b"caf\xe9"


def test_one_file_extracted_to_standard_output_is_exactly_its_content() -> None:
    assert recording(VERSION, "extract_to_stdout").stdout == b"Dear reader,\n" * 40
