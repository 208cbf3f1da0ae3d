"""Reads the engine's error stream as it grows: events for the job, lines for its log."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from backup_agent.job_log import JobLog
from backup_engine.events import Event
from backup_engine.outcome import Accumulator
from backup_engine.parse import parse_line
from backup_engine.redact import Redactor
from backup_engine.render import log_line

BLOCK = 1 << 20
MAX_LINE = 1 << 20
"""A longer line is cut at fixed places, so that it gives the same log lines however it arrives."""


class StreamReader:
    def __init__(
        self,
        path: Path,
        redactor: Redactor,
        log: JobLog | None,
        on_event: Callable[[Event], None] | None,
    ) -> None:
        self.accumulator = Accumulator()
        self._path = path
        self._redactor = redactor
        self._log = log
        self._on_event = on_event
        self._offset = 0
        self._rest = b""

    def drain(self, *, to_the_end: bool = False) -> None:
        """Read all that the stream holds now; at the end, also a last line without its line end."""
        for lines in self._new_lines(to_the_end):
            rendered: list[str] = []
            for raw in lines:
                event = self._redactor.redact_event(parse_line(raw))
                self.accumulator.add(event)
                if self._on_event is not None:
                    self._on_event(event)
                rendered.extend(log_line(event))
            if self._log is not None and rendered:
                self._log.write(rendered)

    def _new_lines(self, to_the_end: bool) -> Iterator[list[bytes]]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            while block := os.pread(descriptor, BLOCK, self._offset):
                # A line of the log must not outlive what it was made from: a replay counts on finding it again.
                os.fsync(descriptor)
                self._offset += len(block)
                *lines, rest = (self._rest + block).split(b"\n")
                pieces, self._rest = _in_pieces(rest)
                yield [piece for line in lines for piece in _whole_in_pieces(line)] + pieces
        finally:
            os.close(descriptor)
        if to_the_end and self._rest:
            last, self._rest = self._rest, b""
            yield [last]


def _in_pieces(line: bytes) -> tuple[list[bytes], bytes]:
    whole = len(line) // MAX_LINE * MAX_LINE
    return [line[start : start + MAX_LINE] for start in range(0, whole, MAX_LINE)], line[whole:]


def _whole_in_pieces(line: bytes) -> list[bytes]:
    if len(line) < MAX_LINE:
        return [line]
    pieces, rest = _in_pieces(line)
    return [*pieces, rest]
