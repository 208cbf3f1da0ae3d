"""Numbered log lines of a job, kept on disk until the service has acknowledged them.

Lines are stored in segments, each named after the number of its first line. A segment whose lines are all acknowledged
is removed, except the last one, from which the next number is computed. The size of unacknowledged lines is limited,
per job and in total: beyond the limit the oldest segments are replaced by one line with the number of omitted lines.

After a restart a job is replayed from the beginning. Because every line is a function of the engine's output, lines
that a replay produces again are recognised by counting and skipped.
"""

import contextlib
import json
import os
import threading
from collections.abc import Iterable
from itertools import pairwise, zip_longest
from pathlib import Path

from backup_agent import private_files
from backup_agent.machine import now
from backup_protocol import FIRST_SEQUENCE, LogEntry, LogStream

LINES_OF_SEGMENT = 2000
BYTES_OF_SEGMENT = 1 << 20
LONGEST_LINE = 16_384
MOST_BYTES = 64 << 20
"""Limit for the unacknowledged lines of one job."""
MOST_BYTES_IN_ALL = 256 << 20
"""Limit for the lines of all jobs together. Beyond it, the job that is writing shortens its own log."""
LEAST_BYTES = 4 << 20
"""No log is shortened below this size, so that its end is never lost."""
LEFT_OUT = "[{} lines were omitted here: they could not be sent, and the agent stores only a limited amount]"


class JobLog:
    """Written by the thread that works on the job, read by the thread that uploads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._file: int | None = None
        self._acknowledged = FIRST_SEQUENCE
        private_files.make_folder(folder)
        self._next = self._mended()
        self._position = FIRST_SEQUENCE

    @property
    def next_sequence(self) -> int:
        """Every line below this number is safely on disk."""
        return self._next

    def begin_replay(self) -> None:
        self._position = FIRST_SEQUENCE

    def write(self, lines: Iterable[str], stream: LogStream = LogStream.STDERR) -> None:
        """Append lines durably: on return they would survive a power cut. Lines of an earlier run are skipped."""
        fresh: list[str] = []
        for line in lines:
            if self._position >= self._next + len(fresh):
                fresh.append(line)
            self._position += 1
        while fresh:
            fresh = fresh[self._append(fresh, stream) :]

    def entries(self, first: int, most: int, most_bytes: int) -> list[LogEntry]:
        """The lines from number `first` on, as many as fit the limits."""
        found: list[LogEntry] = []
        size = 0
        segments = self._segments()
        for segment, following in zip_longest(segments, segments[1:]):
            start = int(segment.stem)
            if following is not None and int(following.stem) <= first:
                continue
            with contextlib.suppress(FileNotFoundError):
                for number, raw in enumerate(segment.read_bytes().split(b"\n")[:-1], start):
                    if number < first:
                        continue
                    size += len(raw) + 20
                    if number >= self._next or len(found) == most or (found and size > most_bytes):
                        return found
                    stream, created_at, message = json.loads(raw)
                    found.append(LogEntry(number, stream, message, created_at))
        return found

    def acknowledge(self, below: int) -> None:
        """Remove segments in which every line is acknowledged."""
        self._acknowledged = max(self._acknowledged, below)
        for segment, following in pairwise(self._segments()):
            if int(following.stem) <= below:
                segment.unlink(missing_ok=True)

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    # --- segments ---------------------------------------------------------------------------------------------------

    def _segments(self) -> list[Path]:
        return sorted(self._folder.glob("*.jsonl"))

    def _mended(self) -> int:
        """Truncate an incomplete last line after a crash; return the number of the next line."""
        segments = self._segments()
        self._first = int(segments[-1].stem) if segments else FIRST_SEQUENCE
        if not segments:
            return FIRST_SEQUENCE
        last = segments[-1]
        content = last.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            with last.open("r+b") as file:
                file.truncate(len(whole))
        lines = whole.count(b"\n")
        if len(whole) > BYTES_OF_SEGMENT or lines >= LINES_OF_SEGMENT:
            self._first += lines
        return int(last.stem) + lines

    def _append(self, lines: list[str], stream: LogStream) -> int:
        """Append as many lines as fit into the current segment; return their number."""
        with self._lock:
            if self._file is None:
                self._file = self._open()
            size = os.fstat(self._file).st_size
            created_at, content = now(), []
            for line in lines[: LINES_OF_SEGMENT - (self._next - self._first)]:
                content.append(json.dumps([stream, created_at, _storable(line)]).encode() + b"\n")
                size += len(content[-1])
                if size > BYTES_OF_SEGMENT:
                    break
            _write_whole(self._file, b"".join(content))
            self._next += len(content)
            if size > BYTES_OF_SEGMENT or self._next - self._first >= LINES_OF_SEGMENT:
                os.close(self._file)
                self._file = None
                self._first = self._next
                self._make_room()
            return len(content)

    def _open(self) -> int:
        path = self._folder / f"{self._first:012}.jsonl"
        is_new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, private_files.FILE_MODE)
        if is_new:
            private_files.sync_folder(self._folder)
        return descriptor

    # --- size limits ------------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Remove the oldest half of this job's lines if the limits are exceeded."""
        segments = self._segments()
        sizes = list(map(_size, segments))
        own = sum(sizes)
        if own <= LEAST_BYTES or (own <= MOST_BYTES and self._in_all() <= MOST_BYTES_IN_ALL):
            return
        going = 0
        while sum(sizes[going:]) > max(own // 2, LEAST_BYTES // 2) and going < len(segments) - 1:
            going += 1
        if going:
            self._leave_out(segments[:going], int(segments[going].stem))

    def _in_all(self) -> int:
        """Total size of the lines of all jobs, whose folders are siblings of this one."""
        return sum(map(_size, self._folder.parent.parent.glob(f"*/{self._folder.name}/*.jsonl")))

    def _leave_out(self, segments: list[Path], end: int) -> None:
        """Replace all unacknowledged lines below number `end` with one line."""
        first = max(int(segments[0].stem), self._acknowledged)
        if first < end:
            mark = json.dumps([LogStream.AGENT, now(), LEFT_OUT.format(end - first)]).encode() + b"\n"
            private_files.write(self._folder / f"{first:012}.jsonl", mark)
        for segment in segments:
            if int(segment.stem) != first:
                segment.unlink(missing_ok=True)


def _write_whole(descriptor: int, content: bytes) -> None:
    """Write all of the content or none of it: a full disk must not leave lines that were not counted."""
    before = os.fstat(descriptor).st_size
    try:
        while content:
            content = content[os.write(descriptor, content) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def _size(segment: Path) -> int:
    try:
        return segment.stat().st_size
    except FileNotFoundError:
        return 0


def _storable(line: str) -> str:
    """Text that every side can store: unpaired surrogates become question marks."""
    return line[:LONGEST_LINE].encode("utf-8", "replace").decode()
