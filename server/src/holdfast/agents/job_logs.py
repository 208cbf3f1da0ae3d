"""Stores each log line of a job exactly once, despite repeated uploads and crashes.

Lines are first appended to the file; then the row is updated with the sequence numbers and the number of lines in the
file. Further lines in the file were never acknowledged: they are cut off before the next lines are written, and the
agent sends them again. The row is locked meanwhile, so each operation has one writer at a time.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from backup_engine.redact import Redactor
from holdfast.agents.models import AgentJob
from holdfast.agents.schemas import LogEntryBody
from holdfast.errors import Conflict
from holdfast.kit import clock
from holdfast.kit.text import storable
from holdfast.operations.logs import LogWriter

Range = tuple[int, int]
MOST_RANGES = 1000
"""An agent numbers its lines without gaps; a few gaps arise when messages overtake each other."""


def keep(
    job: AgentJob, file: Path, entries: Sequence[LogEntryBody], redactor: Redactor, most_bytes: int
) -> tuple[int, int]:
    """Append the lines that are not stored yet. Return the number of new lines and of known ones.

    Raise Conflict if the sequence numbers have more gaps than an agent ever leaves.
    """
    new = unknown(entries, job.log_ranges)
    if new:
        ranges = merged(job.log_ranges, (entry.sequence for entry in new))
        if len(ranges) > MOST_RANGES:
            raise Conflict(
                "agents.log_gaps", "The numbering of the log lines has too many gaps.", job_id=job.operation_id
            )
        lines = [line for entry in new for line in lines_of(redactor.redact(entry.message))]
        job.log_lines = append(file, job.log_lines, lines, most_bytes)
        job.log_ranges = [list(span) for span in ranges]
        job.updated_at = clock.now()
    return len(new), len(entries) - len(new)


def next_sequence(ranges: Iterable[Sequence[int]], first: int) -> int:
    """The first sequence number that is not stored."""
    expected = first
    for low, high in sorted((span[0], span[1]) for span in ranges):
        if low > expected:
            break
        expected = max(expected, high + 1)
    return expected


def append(file: Path, base_line: int, lines: list[str], most_bytes: int, *, is_end: bool = False) -> int:
    """Append lines and return the new number of lines. At the job's end, also complete a log that was too large."""
    writer = LogWriter(file, base_line, most_bytes)
    if writer.lines > base_line:
        writer.cut()
        writer = LogWriter(file, base_line, most_bytes)
    try:
        writer.write(lines)
        if is_end:
            writer.finish()
        else:
            writer.keep_tail()
        writer.sync()
        return writer.lines
    finally:
        writer.close()


def unknown(entries: Sequence[LogEntryBody], ranges: Sequence[Sequence[int]]) -> list[LogEntryBody]:
    """The entries whose sequence number is not stored yet, in order and without duplicates."""
    by_number = {entry.sequence: entry for entry in reversed(entries)}
    return [by_number[number] for number in sorted(by_number) if not any(low <= number <= high for low, high in ranges)]


def merged(ranges: Iterable[Sequence[int]], numbers: Iterable[int]) -> list[Range]:
    """Add numbers to the ranges, joining ranges that touch."""
    spans = sorted([*((span[0], span[1]) for span in ranges), *((number, number) for number in numbers)])
    joined: list[Range] = []
    for low, high in spans:
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def lines_of(message: str) -> list[str]:
    return [storable(line) for line in message.rstrip("\n").replace("\r\n", "\n").split("\n")]
