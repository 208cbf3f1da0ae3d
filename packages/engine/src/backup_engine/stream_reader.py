"""Follow an engine's run: turn its output into events and log lines, its end into an outcome, and stop it on request.

The service's runner and the agent both use this module, so that they report the same for the same run.
"""

import errno
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from backup_engine.causes import SENTENCES
from backup_engine.command import LARGEST_STREAM, Command
from backup_engine.events import Event
from backup_engine.outcome import Accumulator, Outcome, conclude
from backup_engine.parse import parse_line
from backup_engine.process import ExitRecord, Spool
from backup_engine.redact import Redactor
from backup_engine.render import log_line

BLOCK = 1 << 20
MAX_LINE = 1 << 20
"""Longer lines are cut at fixed positions, so that they give the same log lines in whatever pieces they arrive."""
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
NOT_EXECUTABLE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ELOOP, errno.EISDIR})


class StreamReader:
    """Turns the growing error stream of an engine into events, log lines and the facts that decide its outcome."""

    def __init__(
        self,
        path: Path,
        redactor: Redactor,
        write: Callable[[Sequence[str]], None] | None = None,
        on_event: Callable[[Event], None] | None = None,
        *,
        sync: bool = False,
        most: int = LARGEST_STREAM * 2,
    ) -> None:
        """`write` receives the log lines. With `sync`, the stream is synced before its lines are written: no log line
        survives a power cut that destroys the output it came from.

        At most `most` bytes are read.
        """
        self.accumulator = Accumulator()
        self._path = path
        self._redactor = redactor
        self._write = write
        self._on_event = on_event
        self._sync = sync
        self._most = most
        self._offset = 0
        self._rest = b""

    def drain(self, *, to_the_end: bool = False) -> None:
        """Read all new output; with `to_the_end`, also a last line without a newline."""
        for lines in self._new_lines(to_the_end):
            rendered: list[str] = []
            for raw in lines:
                event = self._redactor.redact_event(parse_line(raw))
                self.accumulator.add(event)
                if self._on_event is not None:
                    self._on_event(event)
                rendered.extend(log_line(event))
            if self._write is not None and rendered:
                self._write(rendered)

    def _new_lines(self, to_the_end: bool) -> Iterator[list[bytes]]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            while block := os.pread(descriptor, min(BLOCK, self._most - self._offset), self._offset):
                if self._sync:
                    os.fsync(descriptor)
                self._offset += len(block)
                *lines, rest = (self._rest + block).split(b"\n")
                pieces, self._rest = _in_pieces(rest)
                if max(map(len, lines), default=0) >= MAX_LINE:
                    lines = [piece for line in lines for piece in _whole_in_pieces(line)]
                yield lines + pieces
        finally:
            os.close(descriptor)
        if to_the_end and self._rest:
            last, self._rest = self._rest, b""
            yield [last]


class PlainReader(StreamReader):
    """Turns the growing output of a script into log lines. Unprintable characters become escapes."""

    def drain(self, *, to_the_end: bool = False) -> None:
        for lines in self._new_lines(to_the_end):
            texts = [plain_line(self._redactor.redact(raw)) for raw in lines]
            if self._write is not None and texts:
                self._write(texts)


def plain_line(raw: bytes) -> str:
    text = raw.removesuffix(b"\r").decode("utf-8", "backslashreplace")
    return "\t".join(map(printable, text.split("\t")))


def _in_pieces(line: bytes) -> tuple[list[bytes], bytes]:
    whole = len(line) // MAX_LINE * MAX_LINE
    return [line[start : start + MAX_LINE] for start in range(0, whole, MAX_LINE)], line[whole:]


def _whole_in_pieces(line: bytes) -> list[bytes]:
    pieces, rest = _in_pieces(line)
    return [*pieces, rest]


class Killer:
    """Sends SIGTERM to the engine's process group, and SIGKILL after a grace period. To be called repeatedly."""

    def __init__(self, spool: Spool, grace_seconds: float) -> None:
        self._spool = spool
        self._grace_seconds = grace_seconds
        self._asked_at: float | None = None

    def act(self) -> None:
        if self._asked_at is None:
            if self._spool.signal_engine(signal.SIGTERM):
                self._asked_at = time.monotonic()
        elif time.monotonic() - self._asked_at > self._grace_seconds:
            self._spool.signal_engine(signal.SIGKILL)


def engine_outcome(record: ExitRecord, accumulator: Accumulator, *, cancel_requested: bool) -> Outcome:
    """Return the engine's outcome, given how its process ended and what it wrote."""
    if record.exec_error is not None:
        return _not_executed(record.exec_error)
    return conclude(record.code, record.signal, accumulator, cancel_requested)


def _not_executed(error: str) -> Outcome:
    """The outcome if the engine's program could not be executed. `error` begins with the system's error number."""
    number, _, reason = error.partition(" ")
    if int(number) in NO_SPACE:
        return Outcome("failed", "engine.disk_full", SENTENCES["engine.disk_full"])
    if int(number) in NOT_EXECUTABLE:
        return Outcome("failed", "engine.not_installed", SENTENCES["engine.not_installed"])
    return Outcome("failed", "engine.failed", f"The engine could not be started: {printable(reason)}")


def display(command: Command) -> str:
    """The command as a person would type it. It contains no secrets, as argv never does."""
    if command.shown is not None:
        return printable(command.shown)
    where = f"[{command.machine.name}] " if command.machine else ""
    return printable(where + " ".join(shlex.quote(argument) for argument in command.argv))


def printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )
