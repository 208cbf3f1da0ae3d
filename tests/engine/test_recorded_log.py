"""Real output of both series of engine 1, as shown in the log of an operation."""

import re

import pytest

from backup_engine.render import UNPRINTABLE
from tests.engine.recordings import VERSIONS, cases, recording

pytestmark = pytest.mark.parametrize("version", VERSIONS)

SOURCE = "/tmp/holdfast-fixtures/source"


def test_no_recording_shows_json_or_a_control_character(version: str) -> None:
    lines = [line for case in sorted(cases(version)) for line in recording(version, case).log]

    assert len(lines) > 100
    assert [line for line in lines if '{"' in line or UNPRINTABLE.search(line) or not line.strip()] == []


def test_a_quiet_backup_has_an_empty_log(version: str) -> None:
    assert recording(version, "create").log == ()


def test_a_backup_with_unreadable_files_lists_them(version: str) -> None:
    assert recording(version, "create_unreadable").log == (
        f"WARNING: {SOURCE}/documents: dir_open: [Errno 13] Permission denied: 'documents'",
        f"E {SOURCE}/documents",
        f"WARNING: {SOURCE}/notes.txt: open: [Errno 13] Permission denied: 'notes.txt'",
        f"E {SOURCE}/notes.txt",
        f"A {SOURCE}/random.bin",
    )


def test_a_stopped_backup_shows_the_signal(version: str) -> None:
    assert recording(version, "create_sigterm").log == ("ERROR: Received SIGTERM",)


def test_a_prompt_is_shown_with_its_answer(version: str) -> None:
    moved, before = "/tmp/holdfast-fixtures/moved", "/tmp/holdfast-fixtures/repository"
    assert recording(version, "relocated").log == (
        f"Warning: The repository at location {moved} was previously located at {before}",
        "Do you want to continue? [yN]",
        "no (from BORG_RELOCATED_REPO_ACCESS_IS_OK)",
        "Aborting.",
        "ERROR: Repository access aborted",
    )


def test_a_prune_shows_its_decisions_but_no_cache_progress(version: str) -> None:
    log = recording(version, "prune").log

    decisions = [re.sub(r":\s+(day-\d).*", r": \1", line) for line in log if "day-" in line]
    assert decisions == [
        "Keeping archive (rule: secondly #1): day-4",
        "Keeping archive (rule: daily #1): day-3",
        "Keeping archive (rule: daily #2): day-2",
        "Pruning archive (1/1): day-1",
    ]
    assert not any("cache" in line for line in log)


def test_a_usage_error_is_shown_as_the_engine_wrote_it(version: str) -> None:
    assert recording(version, "usage_error").log[-1] == "borg: error: unrecognized arguments: --no-such-option"


def test_a_traceback_is_split_into_lines(version: str) -> None:
    log = recording(version, "create_disk_full").log

    assert "ERROR: OSError: [Errno 28] No space left on device" in log
    assert not any("\n" in line for line in log)
