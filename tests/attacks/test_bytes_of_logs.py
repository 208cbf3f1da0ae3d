"""However much an engine or an agent writes, its log stays bounded, and so does each response that reads it."""

from pathlib import Path

import pytest

from backup_agent import job_log
from backup_agent.job_log import JobLog
from holdfast.agents import job_logs
from holdfast.operations.logs import (
    LINE_BYTES_MOST,
    PAGE_BYTES_MOST,
    TAIL_BYTES,
    LogWriter,
    count_lines,
    read_page,
    tail,
)

MIB = 1024 * 1024


def test_a_log_that_is_too_large_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    writer = LogWriter(log, 0, most_bytes=MIB)
    for number in range(100):
        writer.write([f"{number:03}-{line:04} " + "x" * 1000 for line in range(100)])
    writer.finish()
    writer.close()
    assert log.stat().st_size < MIB + TAIL_BYTES + 10_000
    first = read_page(log, 0, 1)
    assert first is not None
    assert first.lines[0][1].startswith("000-0000")
    assert tail(log, 1)[0].startswith("099-0099")
    content = log.read_text()
    assert "has reached its limit" in content
    assert "lines with" in content
    assert "omitted here" in content


def test_a_shortened_log_is_the_same_after_a_restart(tmp_path: Path) -> None:
    """The lines are produced again from the first one; lines that the log already contains are not written twice."""
    lines = [f"{number:06} " + "x" * 100 for number in range(20_000)]
    whole, restarted = tmp_path / "whole.log", tmp_path / "restarted.log"
    for log, stops in ((whole, [20_000]), (restarted, [3_000, 15_000, 20_000])):
        for stop in stops:
            writer = LogWriter(log, 0, most_bytes=MIB)
            writer.write(lines[:stop])
            if stop == stops[-1]:
                writer.finish()
            writer.close()
    kept = [line for line in restarted.read_text().splitlines() if not line.startswith("[")]
    assert kept == [line for line in whole.read_text().splitlines() if not line.startswith("[")]


def test_the_log_of_an_agent_that_never_stops_writing_stays_bounded(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    lines = 0
    for batch in range(60):
        lines = job_logs.append(log, lines, [f"{batch:03} " + "y" * 1000] * 100, MIB)
    assert log.stat().st_size < MIB + 10_000
    assert (tmp_path / "job.tail").stat().st_size < TAIL_BYTES + 10_000
    assert job_logs.append(log, lines, ["the end"], MIB, is_end=True) == count_lines(log)
    assert tail(log, 2) == ["059 " + "y" * 1000, "the end"]
    assert not (tmp_path / "job.tail").exists()


def test_an_endless_line_is_cut_and_marked(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    writer = LogWriter(log, 0)
    writer.write(["é" * 5 * MIB, "next"])
    writer.close()
    found = read_page(log, 0, 10)
    assert found is not None
    assert len(found.lines[0][1].encode()) < LINE_BYTES_MOST + 100
    assert found.lines[0][1].endswith("bytes of this line were left out]")
    assert found.lines[1][1] == "next"


@pytest.mark.parametrize("length", [10, 50_000])
def test_a_page_of_a_log_is_limited_in_bytes_and_the_next_one_continues_there(tmp_path: Path, length: int) -> None:
    log = tmp_path / "one.log"
    writer = LogWriter(log, 0)
    writer.write([f"{number:05}".ljust(length, "z") for number in range(200)])
    writer.close()
    seen: list[str] = []
    while True:
        page = read_page(log, len(seen), 5000)
        assert page is not None
        assert sum(len(text) for _, text in page.lines) <= PAGE_BYTES_MOST
        seen += [text[:5] for _, text in page.lines]
        assert page.position == len(seen)
        if not page.has_more:
            break
    assert seen == [f"{number:05}" for number in range(200)]


# --- the agent's own disk --------------------------------------------------------------------------------------------


@pytest.fixture
def small_spool(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MOST_BYTES", MIB), ("MOST_BYTES_IN_ALL", 2 * MIB), ("LEAST_BYTES", MIB // 4)):
        monkeypatch.setattr(job_log, name, value)
    monkeypatch.setattr(job_log, "BYTES_OF_SEGMENT", MIB // 16)


def on_disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.jsonl"))


def delivered(log: JobLog, first: int = 1) -> list[tuple[int, str]]:
    """The entries the service would receive, batch by batch."""
    found: list[tuple[int, str]] = []
    while batch := log.entries(first, 1000, MIB):
        found += [(entry.sequence, entry.message) for entry in batch]
        first = batch[-1].sequence + 1
    return found


@pytest.mark.usefixtures("small_spool")
def test_an_agent_that_cannot_deliver_keeps_the_end_of_a_log_and_counts_the_omitted_lines(tmp_path: Path) -> None:
    log = JobLog(tmp_path / "1" / "log")
    for first in range(1, 20_001, 50):
        log.write([f"{number:06} " + "x" * 1000 for number in range(first, first + 50)])
        assert on_disk(tmp_path) < MIB + MIB // 8
    found = delivered(log)
    assert found[0][0] == 1
    missing = int(found[0][1].split()[0].lstrip("["))
    assert found[1][0] == 1 + missing
    assert [number for number, _ in found[1:]] == list(range(1 + missing, 20_001))
    assert found[-1][1].startswith("020000 ")


@pytest.mark.usefixtures("small_spool")
def test_a_partly_omitted_log_continues_after_a_restart_of_the_agent(tmp_path: Path) -> None:
    lines = [f"{number:06} " + "x" * 1000 for number in range(1, 5_001)]
    JobLog(tmp_path / "1" / "log").write(lines[:4_000])
    again = JobLog(tmp_path / "1" / "log")
    again.acknowledge(3_900)
    again.write(lines)
    assert again.next_sequence == 5_001
    assert delivered(again, 3_900)[-1] == (5_000, lines[-1])
    assert "were omitted here" in delivered(again, 3_900)[0][1]


@pytest.mark.usefixtures("small_spool")
def test_the_logs_of_many_jobs_are_bounded_together(tmp_path: Path) -> None:
    logs = [JobLog(tmp_path / str(number) / "log") for number in range(8)]
    for first in range(1, 2_001, 20):
        for log in logs:
            log.write([f"{number:06} " + "x" * 1000 for number in range(first, first + 20)])
    assert on_disk(tmp_path) < 2 * MIB + 8 * (MIB // 4)
    assert all(delivered(log)[-1][1].startswith("002000 ") for log in logs)


def test_acknowledged_lines_are_never_reported_as_omitted(tmp_path: Path) -> None:
    log = JobLog(tmp_path / "1" / "log")
    for first in range(1, 5_001, 10):
        log.write([f"{number:06} " + "x" * 1000 for number in range(first, first + 10)])
        log.acknowledge(first + 9)
    assert [message[:6] for _, message in delivered(log, 4_999)] == ["004999", "005000"]
    assert on_disk(tmp_path) < 3 * job_log.BYTES_OF_SEGMENT
