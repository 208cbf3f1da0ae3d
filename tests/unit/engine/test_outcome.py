"""How a run ended, determined from its exit code, its signal and its output."""

import re
import tracemalloc

import pytest

from backup_engine import outcome as outcomes
from backup_engine.causes import (
    KEY_BY_EXIT_CODE,
    KEY_BY_GENERAL_MESSAGE_ID,
    KEY_BY_MESSAGE_ID,
    KEY_BY_TEXT,
    PUBLISHED_AS,
    SENTENCES,
)
from backup_engine.events import ArchiveProgress, Event, LogMessage, PlainLine, ProgressPercent
from backup_engine.outcome import MOST_WARNINGS, Accumulator, Outcome, conclude

PUBLISHED = {
    "engine.source_missing",
    "engine.disk_full",
    "engine.not_installed",
    "engine.unsupported",
    "engine.archive_exists",
    "engine.passphrase_wrong",
    "engine.passphrase_missing",
    "engine.locked",
    "engine.permission_denied",
    "engine.unreachable",
    "engine.repository_missing",
    "engine.not_a_repository",
    "engine.repository_relocated",
    "engine.repository_older",
    "engine.result_too_large",
    "repository.replaced",
    "engine.damaged",
    "engine.failed",
    "engine.repository_exists",
    "ssh.key_refused",
    "ssh.python_missing",
    "agents.body_refused",
    "ssh.host_key_changed",
    "rclone.credentials_refused",
    "rclone.unreachable",
    "rclone.storage_full",
    "rclone.permission_denied",
    "rclone.configuration_refused",
    "rclone.not_found",
    "rclone.failed",
}


def error(message: str, msgid: str | None = None) -> LogMessage:
    return LogMessage("ERROR", "borg.archiver", msgid, message)


def warning(message: str, msgid: str | None = None) -> LogMessage:
    return LogMessage("WARNING", "borg.archiver", msgid, message)


def ended(code: int | None, *events: Event, signal: int | None = None, cancel_requested: bool = False) -> Outcome:
    return conclude(code, signal, Accumulator().add_all(events), cancel_requested)


def test_every_reason_has_a_sentence_and_a_published_key() -> None:
    reasons = {*KEY_BY_MESSAGE_ID.values(), *KEY_BY_GENERAL_MESSAGE_ID.values(), *KEY_BY_EXIT_CODE.values()}
    reasons |= {key for _, _, key in KEY_BY_TEXT}

    assert reasons <= set(SENTENCES)
    assert {PUBLISHED_AS.get(reason, reason) for reason in SENTENCES} == PUBLISHED


@pytest.mark.parametrize("sentence", SENTENCES.values())
def test_a_sentence_names_the_cause_and_what_to_do(sentence: str) -> None:
    assert re.fullmatch(r"[A-Z][^.;]*(?:\d\.\d[^.;]*)?; [^;]*\.", sentence)


@pytest.mark.parametrize("code", [1, *range(100, 126)])
def test_a_warning_exit_code_means_completed_with_warnings(code: int) -> None:
    outcome = ended(code, warning("/x: open: [Errno 13] Permission denied: 'x'", "BackupPermissionError"))

    assert outcome.status == "completed_with_warnings"
    assert outcome.warnings == (
        outcomes.Warning("/x", "/x: open: [Errno 13] Permission denied: 'x'", "BackupPermissionError"),
    )


@pytest.mark.parametrize("code", [2, 3, 4, 52, 73, 99, 200, 255])
def test_an_error_exit_code_means_failed_even_without_output(code: int) -> None:
    outcome = ended(code)

    assert outcome.status == "failed"
    assert outcome.error_key == PUBLISHED_AS.get(
        KEY_BY_EXIT_CODE.get(code, ""), KEY_BY_EXIT_CODE.get(code, "engine.failed")
    )
    assert outcome.message


@pytest.mark.parametrize(
    ("code", "signal"), [(143, None), (130, None), (129, None), (137, None), (None, 9), (-15, None), (None, None)]
)
def test_an_end_by_a_signal_is_interrupted_or_cancelled(code: int | None, signal: int | None) -> None:
    assert ended(code, signal=signal).status == "interrupted"
    assert ended(code, signal=signal, cancel_requested=True).status == "cancelled"


@pytest.mark.parametrize("code", [0, 1, 105])
def test_a_completed_run_is_completed_even_if_a_stop_was_requested(code: int) -> None:
    assert ended(code, cancel_requested=True) == ended(code)


def test_a_self_test_interrupted_by_a_signal_is_not_a_failure() -> None:
    told = error("self test test_chunkify FAILED:\nTraceback (most recent call last):\nborg.helpers.process.SigTerm\n")

    assert ended(2, told, error("self test failed")).status == "interrupted"
    assert ended(2, told, cancel_requested=True).status == "cancelled"
    assert ended(2, error("self test test_chunkify FAILED:\nAssertionError: 1 != 2\n")).status == "failed"


def told_outside_the_log(*lines: str) -> Accumulator:
    return Accumulator().add_all([PlainLine(line) for line in lines])


def test_an_engine_ended_by_a_signal_before_it_could_log_was_interrupted() -> None:
    """Python's exit code for an uncaught exception is the engine's code for a warning."""
    said = told_outside_the_log(
        "Traceback (most recent call last):", '  File "borg", line 10, in <module>', "borg.helpers.process.SigTerm"
    )

    assert conclude(1, None, said, False).status == "interrupted"
    assert conclude(1, None, said, True).status == "cancelled"


def test_an_engine_that_crashed_before_it_could_log_has_failed() -> None:
    said = told_outside_the_log("Traceback (most recent call last):", "ImportError: no module named borg.archiver")
    ended = conclude(1, None, said, False)

    assert (ended.status, ended.error_key) == ("failed", "engine.failed")
    assert "ImportError: no module named borg.archiver" in (ended.message or "")
    assert conclude(1, None, told_outside_the_log("some words of a shell"), False).status == "completed_with_warnings"


def test_the_message_id_takes_precedence_over_the_text_and_the_exit_code() -> None:
    outcome = ended(52, error("[Errno 28] No space left on device", "LockTimeout"))

    assert outcome.error_key == "engine.locked"


def test_the_text_takes_precedence_over_the_exit_code() -> None:
    assert ended(52, error("OSError: [Errno 28] No space left on device", "Exception")).error_key == "engine.disk_full"


def test_the_first_specific_error_decides() -> None:
    outcome = ended(2, error("Local Exception", "Exception"), error("a", "PassphraseWrong"), error("b", "LockTimeout"))

    assert outcome.error_key == "engine.passphrase_wrong"


def test_a_failed_lock_counts_as_a_permission_or_space_problem_if_the_message_names_one() -> None:
    assert ended(2, error("lock ([Errno 13] Permission denied)", "LockFailed")).error_key == "engine.permission_denied"
    assert (
        ended(2, error("lock ([Errno 30] Read-only file system)", "LockFailed")).error_key == "engine.permission_denied"
    )
    assert ended(2, error("lock ([Errno 28] No space)", "LockFailed")).error_key == "engine.disk_full"
    assert ended(2, error("lock", "LockFailed")).error_key == "engine.locked"


def test_an_unreadable_source_file_does_not_make_a_failure_a_permission_problem() -> None:
    outcome = ended(
        2, warning("/x: open: [Errno 13] Permission denied"), error("Connection closed", "ConnectionClosed")
    )

    assert outcome.error_key == "engine.unreachable"


def test_a_full_disk_reported_only_by_warnings_is_recognised() -> None:
    outcome = ended(2, warning("/x: read: [Errno 28] No space left on device"), error("Local Exception", "Exception"))

    assert outcome.error_key == "engine.disk_full"


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("bash: line 1: borg: command not found", "engine.not_installed"),
        ("sh: 1: borg1: not found", "engine.not_installed"),
        ("bash: /opt/borg/bin/borg: No such file or directory", "engine.not_installed"),
        ("backup@host: Permission denied (publickey,password).", "ssh.key_refused"),
        (
            "A proxy in front of the service refuses large request bodies (HTTP 413 after 9 bytes).",
            "agents.body_refused",
        ),
        ("Host key verification failed.", "engine.unreachable"),
        ("@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @", "ssh.host_key_changed"),
        ("ssh: Could not resolve hostname nowhere: Name or service not known", "engine.unreachable"),
    ],
)
def test_messages_from_ssh_and_the_far_side_are_recognised(line: str, key: str) -> None:
    through_the_engine = ended(81, warning(f"Remote: {line}"), error("Connection closed", "ConnectionClosedWithHint"))
    directly = ended(255, PlainLine(line))

    assert (through_the_engine.error_key, directly.error_key) == (key, key)
    assert through_the_engine.warning_count == 0


@pytest.mark.parametrize("code", [126, 127])
def test_a_program_that_never_started_is_not_installed(code: int) -> None:
    assert ended(code).error_key == "engine.not_installed"
    assert ended(code, warning("/x: open: [Errno 5] Input/output error")).status == "completed_with_warnings"


def test_an_unrecognised_error_is_shown_in_the_engines_own_words() -> None:
    traceback = (
        'Traceback (most recent call last):\n  File "x", line 1, in main\nValueError: bad\x1b value\n\n'
        "Platform: Linux\nPID: 1 CWD: /\nsys.argv: ['borg']\n"
    )

    assert ended(2, error("Local Exception", "Exception"), error(traceback)).message == (
        "The engine failed: ValueError: bad\\x1b value."
    )
    assert ended(4, error("Command Error: two\nlines", "CommandError")).message == (
        "The engine failed: Command Error: two lines."
    )


def test_the_bug_report_text_that_engine_2_adds_to_an_unexpected_error_is_left_out() -> None:
    said = (
        "\nError:\n\nValueError: unexpected '..' element in path\n\nIf reporting bugs, please include the "
        "following:\n\n"
        'Traceback (most recent call last):\n  File "/opt/x.py", line 1, in main\nValueError: unexpected\n'
    )

    assert ended(2, error(said)).message == "The engine failed: ValueError: unexpected '..' element in path."


def test_a_long_error_is_cut_to_a_short_sentence() -> None:
    message = ended(2, error("x" * 100_000, "Error")).message

    assert message is not None
    assert len(message) < 600


def test_the_last_line_of_a_long_traceback_is_kept() -> None:
    traceback = "Traceback (most recent call last):\n" + '  File "x", line 1\n' * 5_000 + "KeyError: 'gone'\n"

    assert ended(2, error(traceback)).message == "The engine failed: KeyError: 'gone'."


def test_a_verdict_after_thousands_of_problems_is_not_lost() -> None:
    problems = [error(f"problem {number}") for number in range(5_000)]

    outcome = ended(1, *problems, error("Archive consistency check complete, problems found."))

    assert (outcome.status, outcome.error_key) == ("failed", "engine.damaged")


def test_a_run_that_exits_with_0_after_errors_is_completed_with_warnings() -> None:
    outcome = ended(0, error("Data integrity error: bad segment"))

    assert (outcome.status, outcome.error_key) == ("completed_with_warnings", None)
    assert outcome.warnings == (outcomes.Warning(None, "Data integrity error: bad segment", None),)


def test_warnings_are_kept_up_to_a_limit_and_counted_beyond_it() -> None:
    outcome = ended(1, *(warning(f"/f{number}: open: [Errno 13] no") for number in range(MOST_WARNINGS + 500)))

    assert len(outcome.warnings) == MOST_WARNINGS
    assert outcome.warning_count == MOST_WARNINGS + 500


def test_the_memory_of_a_long_run_is_bounded() -> None:
    def feed(accumulator: Accumulator, first: int, last: int) -> None:
        for number in range(first, last):
            accumulator.add(warning(f"/f{number}: stat: [Errno 2] No such file or directory: {'x' * 2000}"))
            accumulator.add(error(f"error {number} {'y' * 2000}"))
            accumulator.add(PlainLine(f"plain {number} {'z' * 2000}"))

    accumulator = Accumulator()
    feed(accumulator, 0, 2_000)
    tracemalloc.start()
    feed(accumulator, 2_000, 4_000)
    growth, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert growth < 200_000
    assert accumulator.warning_count == accumulator.error_count == 4_000


def test_the_last_progress_is_kept() -> None:
    progress, percent = ArchiveProgress(nfiles=5), ProgressPercent(current=1, total=2)
    accumulator = Accumulator().add_all([ArchiveProgress(nfiles=4), progress, percent, ArchiveProgress(finished=True)])

    assert (accumulator.last_progress, accumulator.last_percent) == (progress, percent)


def test_cache_progress_is_not_a_warning() -> None:
    assert ended(1, LogMessage("WARNING", "borg.output.progress", None, "Saving cache")).warning_count == 0


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ("/a: b/c: open: [Errno 13] Permission denied: 'c'", "/a: b/c"),
        ("/gone: [Errno 2] No such file or directory: 'gone'", "/gone"),
        ("/a\nb: stat: [Errno 2] No such file or directory", "/a\nb"),
        ("/x: file changed while we backed it up", "/x"),
        ("Include pattern 'x' never matched.", None),
    ],
)
def test_a_warning_names_its_path(message: str, path: str | None) -> None:
    (found,) = ended(1, warning(message)).warnings

    assert found.path == path
    assert "\n" not in found.message


@pytest.mark.parametrize("source", ["/data", "/data/", "//data", "/data/.", "/x/../data"])
def test_a_missing_source_is_recognised_however_it_was_written(source: str) -> None:
    accumulator = Accumulator().add_all([warning("/data: stat: [Errno 2] No such file or directory: '/data'")])

    assert accumulator.all_sources_missing([source])
    assert not accumulator.all_sources_missing([source, "/other"])
    assert not accumulator.all_sources_missing([])


def test_an_unreadable_source_is_not_missing() -> None:
    accumulator = Accumulator().add_all([warning("/data: dir_open: [Errno 13] Permission denied: 'data'")])

    assert accumulator.missing_sources(["/data"]) == ()


def rclone_failed(why: str) -> LogMessage:
    """The error as engine 2 logs it."""
    said = '{\n\t"error": "' + why + '",\n\t"input": {"fs": "remote1:quota/"},\n\t"status": 500\n}'
    report = (
        f"\nError:\n\nBackendError: rclone rc command failed: error 500: {said}\n\nTraceback (most recent call last):\n"
    )
    return error(report + '  File "rclone.py", line 1, in open\n    EOF', "Exception")


@pytest.mark.parametrize(
    ("why", "key"),
    [
        ("read metadata failed: Unauthorized: 401 Unauthorized", "rclone.credentials_refused"),
        (r"Propfind \"http://127.0.0.1:1/a\": dial tcp 127.0.0.1:1: connect: connection refused", "rclone.unreachable"),
        ('failed to make Fs: didn\'t find backend called \\"x\\"', "rclone.configuration_refused"),
        ("mkdir: permission denied", "rclone.permission_denied"),
        ("something that nobody has heard of", "rclone.failed"),
    ],
)
def test_errors_of_the_engines_rclone_are_classified_like_those_of_any_rclone(why: str, key: str) -> None:
    found = ended(2, error("Local Exception", "Exception"), rclone_failed(why))

    assert (found.status, found.error_key, found.message) == ("failed", key, SENTENCES[key])


def test_an_rclone_ended_by_a_stop_is_not_a_failure() -> None:
    said = error("ConnectionError: HTTPConnectionPool(host='127.0.0.1', port=34659): Max retries exceeded", "Exception")

    assert ended(2, said).error_key == "rclone.failed"
    assert ended(2, error("ChunkedEncodingError: ('Connection broken', 10)")).error_key == "rclone.failed"
    assert ended(2, said, cancel_requested=True).status == "cancelled"
