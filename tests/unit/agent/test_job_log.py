"""The numbered lines of a job on disk."""

from pathlib import Path

import pytest

from backup_agent import job_log
from backup_agent.job_log import JobLog
from backup_protocol import LogStream

PLENTY = 10**9


def messages(log: JobLog, first: int = 1, most: int = 10_000, most_bytes: int = PLENTY) -> list[str]:
    return [entry.message for entry in log.entries(first, most, most_bytes)]


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "LINES_OF_SEGMENT", 10)


def test_lines_are_numbered_from_one_and_keep_their_stream(tmp_path: Path) -> None:
    log = JobLog(tmp_path)
    log.write(["one", "two"])
    log.write(["three"], LogStream.AGENT)

    found = log.entries(1, 10, PLENTY)
    assert [(entry.sequence, entry.stream, entry.message) for entry in found] == [
        (1, "stderr", "one"),
        (2, "stderr", "two"),
        (3, "agent", "three"),
    ]
    assert log.next_sequence == 4


def test_a_replay_after_a_restart_writes_only_what_is_new(tmp_path: Path) -> None:
    JobLog(tmp_path).write([f"line {number}" for number in range(1, 26)])

    again = JobLog(tmp_path)
    again.write([f"line {number}" for number in range(1, 31)])

    assert messages(again) == [f"line {number}" for number in range(1, 31)]


def test_a_line_cut_off_by_a_crash_is_written_again(tmp_path: Path) -> None:
    JobLog(tmp_path).write(["one", "two", "three"])
    segment = next(tmp_path.glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes()[:-4])

    again = JobLog(tmp_path)
    assert again.next_sequence == 3
    again.write(["one", "two", "three"])

    assert messages(again) == ["one", "two", "three"]


def test_acknowledged_lines_are_removed_but_their_numbers_are_not_reused(tmp_path: Path) -> None:
    log = JobLog(tmp_path)
    log.write([f"line {number}" for number in range(1, 31)])

    log.acknowledge(31)

    assert len(list(tmp_path.glob("*.jsonl"))) == 1
    assert JobLog(tmp_path).next_sequence == 31
    assert messages(log, 25) == [f"line {number}" for number in range(25, 31)]


def test_batches_are_limited_by_number_of_lines_and_by_size(tmp_path: Path) -> None:
    log = JobLog(tmp_path)
    log.write(["x" * 100] * 25)

    assert len(messages(log, 1, 7)) == 7
    assert len(messages(log, 8, 100)) == 18
    assert 1 <= len(messages(log, 1, 100, 500)) <= 4
    assert len(messages(log, 1, 100, 1)) == 1, "one line always fits"


def test_undecodable_bytes_are_replaced_and_long_lines_are_cut(tmp_path: Path) -> None:
    log = JobLog(tmp_path)
    log.write(["bad \udcff byte", "x" * 100_000])

    assert messages(log)[0] == "bad ? byte"
    assert len(messages(log)[1]) == job_log.LONGEST_LINE
