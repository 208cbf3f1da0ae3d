"""The log lines of a job on disk, numbered, until the service has them.

Lines are kept in segments named after the number of their first line. A segment whose lines the service has acknowledged is
removed, the last one excepted: it tells the next number.

A job is replayed from the beginning after a restart, and every line is a function of what the engine has said. So the lines
that a replay writes again are passed over by counting.
"""

import contextlib
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from backup_agent import private_files
from backup_agent.machine import now
from backup_protocol import FIRST_SEQUENCE, LogEntry, LogStream

LINES_OF_SEGMENT = 2000
LONGEST_LINE = 16_384


class JobLog:
    """Written by the thread that works on the job, read by the one that uploads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._file: int | None = None
        private_files.make_folder(folder)
        self._next = self._mended()
        self._position = FIRST_SEQUENCE

    @property
    def next_sequence(self) -> int:
        """Every line below this number is safe on disk."""
        return self._next

    def begin_replay(self) -> None:
        self._position = FIRST_SEQUENCE

    def write(self, lines: Iterable[str], stream: LogStream = LogStream.STDERR) -> None:
        """Append lines, and return when they would survive a power cut. Lines of an earlier run are passed over."""
        fresh: list[str] = []
        for line in lines:
            if self._position >= self._next + len(fresh):
                fresh.append(line)
            self._position += 1
        while fresh:
            room = self._room()
            self._append(fresh[:room], stream)
            fresh = fresh[room:]

    def entries(self, first: int, most: int, most_bytes: int) -> list[LogEntry]:
        """The lines from a number on, as many as fit."""
        found: list[LogEntry] = []
        size = 0
        for segment in self._segments():
            start = int(segment.stem)
            if start + LINES_OF_SEGMENT <= first:
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
        """Remove the segments of which the service has every line."""
        for segment in self._segments()[:-1]:
            if int(segment.stem) + LINES_OF_SEGMENT <= below:
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
        """Cut off what a crash left of a last line; return the number of the next one."""
        segments = self._segments()
        if not segments:
            return FIRST_SEQUENCE
        last = segments[-1]
        content = last.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            with last.open("r+b") as file:
                file.truncate(len(whole))
        return int(last.stem) + whole.count(b"\n")

    def _room(self) -> int:
        """How many lines the current segment still takes."""
        return LINES_OF_SEGMENT - (self._next - FIRST_SEQUENCE) % LINES_OF_SEGMENT

    def _append(self, lines: list[str], stream: LogStream) -> None:
        created_at = now()
        content = "".join(json.dumps([stream, created_at, _storable(line)]) + "\n" for line in lines)
        with self._lock:
            if self._room() == LINES_OF_SEGMENT and self._file is not None:
                os.close(self._file)
                self._file = None
            if self._file is None:
                self._file = self._open()
            _write_whole(self._file, content.encode())
            self._next += len(lines)

    def _open(self) -> int:
        first = self._next - (self._next - FIRST_SEQUENCE) % LINES_OF_SEGMENT
        path = self._folder / f"{first:012}.jsonl"
        is_new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, private_files.FILE_MODE)
        if is_new:
            private_files.sync_folder(self._folder)
        return descriptor


def _write_whole(descriptor: int, content: bytes) -> None:
    """Write all of it or nothing: a full disk must not leave lines that nobody has counted."""
    before = os.fstat(descriptor).st_size
    try:
        while content:
            content = content[os.write(descriptor, content) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def _storable(line: str) -> str:
    """Text that every side can store: what is no character becomes a replacement."""
    return line[:LONGEST_LINE].encode("utf-8", "replace").decode()
