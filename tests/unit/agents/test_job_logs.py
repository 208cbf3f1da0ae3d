"""Each log line is stored once, whatever is sent again and whenever the service is killed."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backup_engine.redact import Redactor
from holdfast.agents import job_logs
from holdfast.agents.models import AgentJob
from holdfast.agents.schemas import LogEntryBody
from holdfast.errors import Conflict
from holdfast.operations.logs import tail

MOST_BYTES = 1 << 20
PLAIN = Redactor([])


def entries(*numbers: int) -> list[LogEntryBody]:
    return [LogEntryBody(sequence=number, message=f"line {number}") for number in numbers]


def a_job() -> AgentJob:
    return AgentJob(operation_id=1, log_ranges=[], log_lines=0)


def lines(file: Path) -> list[str]:
    return tail(file, 100_000)


def test_lines_that_a_kill_left_in_the_file_but_not_in_the_row_are_not_duplicated(tmp_path: Path) -> None:
    file = tmp_path / "1.log"
    job = a_job()
    job_logs.keep(job, file, entries(1, 2), PLAIN, MOST_BYTES)
    ranges, count = job.log_ranges, job.log_lines
    job_logs.keep(job, file, entries(3, 4), PLAIN, MOST_BYTES)  # this transaction is never committed
    job.log_ranges, job.log_lines = ranges, count

    assert job_logs.keep(job, file, entries(2, 3, 4, 5), PLAIN, MOST_BYTES) == (3, 1)
    assert lines(file) == ["line 1", "line 2", "line 3", "line 4", "line 5"]


def test_a_line_cut_off_by_a_kill_is_written_again_in_full(tmp_path: Path) -> None:
    file = tmp_path / "1.log"
    job = a_job()
    job_logs.keep(job, file, entries(1), PLAIN, MOST_BYTES)
    with file.open("ab") as torn:
        torn.write(b"line 2 is to")

    job_logs.keep(job, file, entries(2), PLAIN, MOST_BYTES)

    assert lines(file) == ["line 1", "line 2"]


@settings(max_examples=40)  # each batch waits for the disk
@given(
    batches=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=12), max_size=12),
    killed=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_every_acknowledged_line_is_stored_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], killed: list[bool]
) -> None:
    file = tmp_path_factory.mktemp("log") / "1.log"
    job = a_job()
    acknowledged: set[int] = set()
    for batch, is_killed in zip(batches, killed, strict=False):
        before = (job.log_ranges, job.log_lines)
        accepted, duplicate = job_logs.keep(job, file, entries(*batch), PLAIN, MOST_BYTES)
        assert accepted == len(set(batch) - acknowledged)
        assert accepted + duplicate == len(batch)
        if is_killed:
            job.log_ranges, job.log_lines = before
        else:
            acknowledged |= set(batch)
    stored = lines(file)[: job.log_lines] if file.exists() else []
    assert sorted(stored) == sorted(f"line {number}" for number in acknowledged)
    first_missing = next(number for number in range(1, 100) if number not in acknowledged)
    assert job_logs.next_sequence(job.log_ranges, 1) == first_missing


def test_secrets_are_redacted_before_a_line_is_written(tmp_path: Path) -> None:
    file = tmp_path / "1.log"
    job_logs.keep(
        a_job(), file, [LogEntryBody(sequence=1, message="with hunter2, I say")], Redactor(["hunter2"]), MOST_BYTES
    )

    assert lines(file) == ["with ***, I say"]


def test_sequence_numbers_with_a_thousand_gaps_are_refused(tmp_path: Path) -> None:
    job = a_job()
    job_logs.keep(job, tmp_path / "1.log", entries(*range(0, 2000, 2)), PLAIN, MOST_BYTES)

    with pytest.raises(Conflict):
        job_logs.keep(job, tmp_path / "1.log", entries(5000), PLAIN, MOST_BYTES)
