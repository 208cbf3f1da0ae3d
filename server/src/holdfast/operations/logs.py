"""Operation logs: plain text files with a sparse line index, so that reading costs the same at any line.

`<name>.log` contains the lines. `<name>.idx` contains, for every 256th line, the byte offset at which it starts (8
bytes each, little endian; entry k is the offset of line 256·(k+1), counted from 0).

The size of a log is limited. An overlong line is cut. Of an overlong log, the beginning and the end are kept, with a
line between them that states how much was omitted; until the end is known, the last lines are kept in memory or in
`<name>.tail`.
"""

import contextlib
import os
import struct
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from backup_engine.frozen import frozen

LINES_PER_ENTRY = 256
ENTRY = struct.Struct("<Q")

LINE_BYTES_MOST = 64 * 1024
LOG_BYTES_MOST = 64 * 1024 * 1024
TAIL_BYTES = 256 * 1024
PAGE_BYTES_MOST = 1024 * 1024
"""Limit of one response; the rest comes in the next one."""
FIND_BYTES_MOST = 16 * 1024 * 1024
"""Limit of one search."""
FULL = (
    "[The log has reached its limit of {} bytes. Of what follows, only the last lines are kept, at the end of the log.]"
)
LEFT_OUT = "[{} lines with {} bytes were omitted here.]"


@frozen
class LogPage:
    lines: list[tuple[int, str]]
    position: int
    log_lines: int

    @property
    def has_more(self) -> bool:
        return self.position < self.log_lines


@frozen
class Found:
    line: int | None
    """The number of the line, counted from 1; None if there is no match."""
    position: int
    """The number of lines searched so far, counted from the start of the log."""


def index_path(log: Path) -> Path:
    return log.with_suffix(".idx")


def _appended(path: Path, opened: contextlib.ExitStack) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    opened.callback(os.close, descriptor)
    return descriptor


class LogWriter:
    """Appends the lines of one attempt, skipping those already in the log from before a restart.

    The lines of an attempt depend only on what its engine wrote. After a restart they are produced again from the first
    one, and only those not yet in the file are appended: none is lost and none appears twice.
    """

    def __init__(self, path: Path, base_line: int, most_bytes: int = LOG_BYTES_MOST) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.ExitStack() as opened:
            self._file = _appended(path, opened)
            self._index = _appended(index_path(path), opened)
            self.lines, self._bytes = self._mend()
            opened.pop_all()
        self._next = base_line
        self._most_bytes = most_bytes
        self._tail = _Tail(tail_path(path))

    def _mend(self) -> tuple[int, int]:
        """Cut off a torn last line and torn or wrong index entries; return the number of lines and bytes in the log."""
        entries = os.fstat(self._index).st_size // ENTRY.size
        size = os.fstat(self._file).st_size
        while entries and _entry(self._index, entries - 1) > size:
            entries -= 1
        os.ftruncate(self._index, entries * ENTRY.size)
        lines = entries * LINES_PER_ENTRY
        offset = _entry(self._index, entries - 1) if entries else 0
        position = offset
        for block in _blocks(self._file, offset):
            start = 0
            while (end := block.find(b"\n", start)) >= 0:
                start = end + 1
                lines += 1
                if lines % LINES_PER_ENTRY == 0:
                    os.write(self._index, ENTRY.pack(position + start))
            position += len(block)
            offset = position - len(block) + start if start else offset
        os.ftruncate(self._file, offset)
        return lines, offset

    def write(self, lines: Iterable[str]) -> None:
        """Append lines in a single write, skipping those that are already in the log.

        A text that contains line ends counts as several lines, because the next writer counts the lines in the file.
        """
        buffer: list[bytes] = []
        entries: list[bytes] = []
        for line in (line for text in lines for line in text.split("\n")):
            self._next += 1
            if self._next <= self.lines:
                continue
            encoded = _bounded(line.encode("utf-8", "replace")) + b"\n"
            if self._bytes >= self._most_bytes:
                self._tail.add(encoded)
                continue
            self._count(encoded, buffer, entries)
            if self._bytes >= self._most_bytes:
                self._count(FULL.format(self._most_bytes).encode() + b"\n", buffer, entries)
        self._append(buffer, entries)

    def keep_tail(self) -> None:
        """Store the lines held back for the end of the log, so that the next writer finds them."""
        self._tail.save()

    def finish(self) -> None:
        """Append the end of an overlong log; no more lines follow."""
        buffer: list[bytes] = []
        entries: list[bytes] = []
        for line in self._tail.taken():
            self._count(line, buffer, entries)
        self._append(buffer, entries)
        self._next = max(self._next, self.lines)

    def _count(self, encoded: bytes, buffer: list[bytes], entries: list[bytes]) -> None:
        buffer.append(encoded)
        self.lines += 1
        self._bytes += len(encoded)
        if self.lines % LINES_PER_ENTRY == 0:
            entries.append(ENTRY.pack(self._bytes))

    def _append(self, buffer: list[bytes], entries: list[bytes]) -> None:
        if buffer:
            _write_all(self._file, b"".join(buffer))
        if entries:
            _write_all(self._index, b"".join(entries))

    def sync(self) -> None:
        """Wait until everything written is on the disk."""
        os.fdatasync(self._file)

    def cut(self) -> None:
        """Remove all lines of this attempt, and close the files."""
        if self._next < self.lines:
            os.ftruncate(self._index, self._next // LINES_PER_ENTRY * ENTRY.size)
            os.ftruncate(self._file, _offset_of(self._file, self._index, self._next))
        self.close()

    def close(self) -> None:
        os.close(self._file)
        os.close(self._index)


class _Tail:
    """The last lines of an overlong log, and how many before them were omitted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: deque[bytes] = deque()
        self._bytes = self._left_lines = self._left_bytes = 0

    def add(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line)
        while self._bytes > TAIL_BYTES:
            left = self._lines.popleft()
            self._bytes -= len(left)
            self._left_lines += 1
            self._left_bytes += len(left)

    def save(self) -> None:
        if self._lines:
            self._load()
            head = b"%d %d\n" % (self._left_lines, self._left_bytes)
            new = self._path.with_suffix(".tail-new")
            new.write_bytes(head + b"".join(self._lines))
            new.replace(self._path)
            self._lines.clear()

    def taken(self) -> list[bytes]:
        """Remove and return all lines, preceded by a line that states how much was omitted."""
        self._load()
        self._path.unlink(missing_ok=True)
        head = [LEFT_OUT.format(self._left_lines, self._left_bytes).encode() + b"\n"] if self._left_lines else []
        lines = [*head, *self._lines]
        self._lines.clear()
        self._bytes = self._left_lines = self._left_bytes = 0
        return lines

    def _load(self) -> None:
        """Put the lines of an earlier writer before this writer's own."""
        try:
            head, *lines = self._path.read_bytes().splitlines(keepends=True)
            left_lines, left_bytes = (int(number) for number in head.split())
        except (FileNotFoundError, ValueError):
            return
        own, self._lines, self._bytes = list(self._lines), deque(), 0
        self._left_lines += left_lines
        self._left_bytes += left_bytes
        for line in (*lines, *own):
            self.add(line)


def tail_path(log: Path) -> Path:
    return log.with_suffix(".tail")


def _bounded(line: bytes) -> bytes:
    """Return the line, cut and marked if it is too long."""
    if len(line) <= LINE_BYTES_MOST:
        return line
    kept = line[:LINE_BYTES_MOST].decode("utf-8", "ignore").encode()
    return kept + b" [%d bytes of this line were left out]" % (len(line) - len(kept))


def read_page(path: Path, offset: int, limit: int, most_bytes: int = PAGE_BYTES_MOST) -> LogPage | None:
    """Given a log and the number of lines already read, return up to `limit` more lines; None if there is no log.

    The page ends early where its lines would exceed `most_bytes`, but has at least one line.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _read_page(file, index_path(path), offset, limit, most_bytes)
    finally:
        os.close(file)


def count_lines(path: Path) -> int:
    page = read_page(path, 0, 0)
    return page.log_lines if page else 0


def tail(path: Path, lines: int) -> list[str]:
    total = count_lines(path)
    page = read_page(path, max(0, total - lines), lines)
    return [content for _, content in page.lines] if page else []


def find(path: Path, text: str, offset: int, most_bytes: int = FIND_BYTES_MOST) -> Found:
    """Find the first line after `offset` lines that contains a text, ignoring case.

    The search covers at most `most_bytes`, and at least one line.
    """
    wanted, looked_at, position = text.casefold(), 0, offset
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Found(None, offset)
    try:
        for line in _lines_from(file, _start_of(file, index_path(path), offset)):
            position += 1
            if wanted in line.decode("utf-8", "replace").casefold():
                return Found(position, position)
            looked_at += len(line) + 1
            if looked_at >= most_bytes:
                break
    finally:
        os.close(file)
    return Found(None, position)


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    index_path(path).unlink(missing_ok=True)
    tail_path(path).unlink(missing_ok=True)


def _read_page(file: int, index_file: Path, offset: int, limit: int, most_bytes: int) -> LogPage:
    size = os.fstat(file).st_size
    try:
        index = os.open(index_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        index = None
    try:
        entries = os.fstat(index).st_size // ENTRY.size if index is not None else 0
        while index is not None and entries and _entry(index, entries - 1) > size:
            entries -= 1
        total = entries * LINES_PER_ENTRY + _count_from(
            file, _entry(index, entries - 1) if index is not None and entries else 0
        )
        wanted = max(0, min(limit, total - offset))
        if wanted == 0:
            return LogPage([], offset, total)
        nearest = min(offset // LINES_PER_ENTRY, entries)
        start = _entry(index, nearest - 1) if index is not None and nearest else 0
        lines = _take(file, start, offset - nearest * LINES_PER_ENTRY, wanted, most_bytes)
    finally:
        if index is not None:
            os.close(index)
    numbered = [(offset + number, text) for number, text in enumerate(lines, 1)]
    return LogPage(numbered, offset + len(numbered), total)


def _start_of(file: int, index_file: Path, line: int) -> int:
    """Return the byte offset at which a line starts (counted from 0); the end of the log if it has fewer lines."""
    try:
        index = os.open(index_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return _skipped(file, 0, line)
    try:
        entries = os.fstat(index).st_size // ENTRY.size
        size = os.fstat(file).st_size
        nearest = min(line // LINES_PER_ENTRY, entries)
        while nearest and _entry(index, nearest - 1) > size:
            nearest -= 1
        return _skipped(file, _entry(index, nearest - 1) if nearest else 0, line - nearest * LINES_PER_ENTRY)
    finally:
        os.close(index)


def _skipped(file: int, offset: int, lines: int) -> int:
    for block in _blocks(file, offset):
        start = 0
        while lines and (end := block.find(b"\n", start)) >= 0:
            start, lines = end + 1, lines - 1
        offset += start if not lines else len(block)
        if not lines:
            break
    return offset


def _offset_of(file: int, index: int, line: int) -> int:
    """Return the byte offset at which a line starts (counted from 0)."""
    nearest = line // LINES_PER_ENTRY
    offset = _entry(index, nearest - 1) if nearest else 0
    missing = line - nearest * LINES_PER_ENTRY
    for block in _blocks(file, offset):
        start = 0
        while missing and (end := block.find(b"\n", start)) >= 0:
            start = end + 1
            missing -= 1
        offset += start if not missing else len(block)
        if not missing:
            break
    return offset


def _take(file: int, start: int, skip: int, wanted: int, most_bytes: int) -> list[str]:
    """Read from a byte offset, skip some lines and return the following ones, as many as fit."""
    taken: list[bytes] = []
    size = 0
    for line in _lines_from(file, start):
        if skip:
            skip -= 1
            continue
        size += len(line)
        if len(taken) == wanted or (taken and size > most_bytes):
            break
        taken.append(line)
    return [_bounded(line).decode("utf-8", "replace") for line in taken]


def _lines_from(file: int, start: int) -> Iterable[bytes]:
    """Yield the complete lines from a byte offset on. Of overlong ones (in older logs), yield only the beginning."""
    rest = b""
    for block in _blocks(file, start):
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
        rest = rest[: 2 * LINE_BYTES_MOST]


def _entry(index: int, number: int) -> int:
    value: int = ENTRY.unpack(os.pread(index, ENTRY.size, number * ENTRY.size))[0]
    return value


def _count_from(file: int, offset: int) -> int:
    return sum(block.count(b"\n") for block in _blocks(file, offset))


def _blocks(file: int, offset: int) -> Iterable[bytes]:
    while block := os.pread(file, 65536, offset):
        yield block
        offset += len(block)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
