"""Real output of both series of engine 1: its lines determine how the run ended."""

import pytest

from backup_engine import outcome as outcomes
from backup_engine.causes import SENTENCES
from backup_engine.outcome import source_missing
from tests.engine.recordings import VERSIONS, cases, recording

pytestmark = pytest.mark.parametrize("version", VERSIONS)

SOURCE = "/tmp/holdfast-fixtures/source"

COMPLETED = (
    "break_lock",
    "check",
    "check_partial",
    "compact",
    "create",
    "create_listing_files",
    "create_with_placeholder",
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
    "list_empty",
    "list_files",
    "list_last_archive",
    "prune",
    "prune_dry_run",
    "relocated_confirmed",
)

WITH_WARNINGS = {
    "create_unreadable": (f"{SOURCE}/documents", f"{SOURCE}/notes.txt"),
    "create_vanished": (f"{SOURCE}/z-vanishing.txt",),
    "create_changed": (f"{SOURCE}/a-large.bin",),
    "create_all_sources_missing": ("/tmp/holdfast-fixtures/gone", "/tmp/holdfast-fixtures/gone-too"),
    "create_some_sources_missing": ("/tmp/holdfast-fixtures/gone",),
    "create_not_utf8": (f"{SOURCE}/na\udcefve.txt",),
    "extract_nothing_matched": (None,),
}

FAILED = {
    "check_damaged": ("engine.damaged", "The check found damage; copy the repository"),
    "create_archive_exists": ("engine.archive_exists", "choose another archive name"),
    "create_disk_full": ("engine.disk_full", "No space is left"),
    "delete_archive_missing": ("engine.failed", "The archive is no longer in the repository"),
    "extract_damaged": ("engine.damaged", "The repository is damaged; run a check"),
    "info_archive_missing": ("engine.failed", "The archive is no longer in the repository"),
    "init_exists": ("engine.repository_exists", "import the repository"),
    "init_folder_in_use": ("engine.repository_exists", "choose another path"),
    "init_not_permitted": ("engine.permission_denied", "correct the permissions"),
    "locked": ("engine.locked", "try again once it has finished"),
    "locked_by_another_host": ("engine.locked", "break the lock if nothing is using it"),
    "no_passphrase": ("engine.passphrase_wrong", "enter the correct one"),
    "not_a_repository": ("engine.not_a_repository", "correct the path"),
    "relocated": ("engine.repository_relocated", "confirm that it was moved"),
    "remote_engine_missing": ("engine.not_installed", "install BorgBackup"),
    "repository_missing": ("engine.repository_missing", "There is no repository at this path"),
    "repository_not_permitted": ("engine.permission_denied", "correct the permissions"),
    "repository_read_only": ("engine.permission_denied", "correct the permissions"),
    "unencrypted_unknown": ("engine.failed", "not encrypted and has not been used"),
    "unreachable": ("engine.unreachable", "(ssh: connect to host 127.0.0.1 port 1: Connection refused)"),
    "usage_error": ("engine.failed", "The engine failed: borg: error: unrecognized arguments: --no-such-option."),
    "wrong_passphrase": ("engine.passphrase_wrong", "enter the correct one"),
}

BY_SIGNAL = ("create_sigterm", "create_sigint", "create_sigkill")
REPAIRED = "check_repair"


def test_every_recording_is_covered_here(version: str) -> None:
    assert cases(version) == {*COMPLETED, *WITH_WARNINGS, *FAILED, *BY_SIGNAL, REPAIRED}


@pytest.mark.parametrize("case", COMPLETED)
def test_a_successful_run_is_completed_without_message_or_warnings(version: str, case: str) -> None:
    outcome = recording(version, case).outcome()

    assert (outcome.status, outcome.error_key, outcome.message, outcome.warnings) == ("completed", None, None, ())


@pytest.mark.parametrize("case", WITH_WARNINGS)
def test_a_run_with_warnings_names_each_path(version: str, case: str) -> None:
    outcome = recording(version, case).outcome()

    assert (outcome.status, outcome.error_key) == ("completed_with_warnings", None)
    assert tuple(warning.path for warning in outcome.warnings) == WITH_WARNINGS[case]
    assert outcome.warning_count == len(outcome.warnings)


@pytest.mark.parametrize("case", FAILED)
def test_a_failed_run_has_an_error_key_and_a_message_with_advice(version: str, case: str) -> None:
    outcome = recording(version, case).outcome()

    key, part_of_message = FAILED[case]
    assert (outcome.status, outcome.error_key) == ("failed", key)
    assert outcome.message is not None
    assert part_of_message in outcome.message
    assert "\n" not in outcome.message


@pytest.mark.parametrize("case", BY_SIGNAL)
def test_a_run_ended_by_an_unrequested_signal_is_interrupted(version: str, case: str) -> None:
    outcome = recording(version, case).outcome()

    assert (outcome.status, outcome.error_key) == ("interrupted", "operations.interrupted")


@pytest.mark.parametrize("case", BY_SIGNAL)
def test_a_run_ended_by_a_signal_on_request_is_cancelled(version: str, case: str) -> None:
    outcome = recording(version, case).outcome(cancel_requested=True)

    assert (outcome.status, outcome.error_key) == ("cancelled", None)


@pytest.mark.parametrize("case", ["create", "create_unreadable"])
def test_a_run_that_completed_before_the_stop_reached_it_is_completed(version: str, case: str) -> None:
    asked_to_stop = recording(version, case).outcome(cancel_requested=True)

    assert asked_to_stop == recording(version, case).outcome()
    assert asked_to_stop.status.startswith("completed")


@pytest.mark.parametrize("case", ["create_disk_full", "wrong_passphrase", "locked"])
def test_a_run_that_failed_for_its_own_reason_is_failed_even_after_a_stop_request(version: str, case: str) -> None:
    assert recording(version, case).outcome(cancel_requested=True).status == "failed"


def test_a_run_whose_connection_broke_after_a_stop_request_is_cancelled(version: str) -> None:
    assert recording(version, "unreachable").outcome(cancel_requested=True).status == "cancelled"


def test_a_repair_that_found_damage_reports_and_lists_it(version: str) -> None:
    outcome = recording(version, REPAIRED).outcome()

    assert (outcome.status, outcome.error_key) == ("completed_with_warnings", None)
    assert outcome.message is not None
    assert "repaired" in outcome.message
    assert any("random.bin: New missing file chunk" in warning.message for warning in outcome.warnings)


def test_if_no_passphrase_was_given_a_refused_one_is_reported_as_missing(version: str) -> None:
    outcome = recording(version, "no_passphrase").outcome(passphrase_given=False)

    assert outcome.error_key == "engine.passphrase_missing"
    assert outcome.message == SENTENCES["engine.passphrase_missing"]


def test_a_backup_of_only_missing_sources_is_distinguished_from_one_with_some_missing(version: str) -> None:
    gone = ("/tmp/holdfast-fixtures/gone", "/tmp/holdfast-fixtures/gone-too/")
    nothing = recording(version, "create_all_sources_missing").accumulator
    something = recording(version, "create_some_sources_missing").accumulator

    assert nothing.missing_sources(gone) == gone
    assert nothing.all_sources_missing(gone)
    assert something.missing_sources((SOURCE, gone[0])) == (gone[0],)
    assert not something.all_sources_missing((SOURCE, gone[0]))


def test_a_vanished_file_is_not_a_missing_source(version: str) -> None:
    vanished = recording(version, "create_vanished").accumulator

    assert vanished.missing_sources((SOURCE,)) == ()
    assert not vanished.all_sources_missing((SOURCE,))


def test_a_backup_of_only_missing_sources_is_failed(version: str) -> None:
    outcome = source_missing(recording(version, "create_all_sources_missing").accumulator)

    assert (outcome.status, outcome.error_key) == ("failed", "engine.source_missing")
    assert outcome.warning_count == 2


def test_only_the_newer_series_gives_a_warning_about_a_path_a_message_id(version: str) -> None:
    warnings = recording(version, "create_unreadable").outcome().warnings

    expected = "BackupPermissionError" if version >= "1.4" else None
    assert {warning.msgid for warning in warnings} == {expected}


def test_a_warning_keeps_the_exact_bytes_of_its_path(version: str) -> None:
    (warning,) = recording(version, "create_not_utf8").outcome().warnings

    assert warning == outcomes.Warning(
        f"{SOURCE}/na\udcefve.txt",
        f"{SOURCE}/na\\xefve.txt: open: [Errno 13] Permission denied: 'na\\udcefve.txt'",
        warning.msgid,
    )
