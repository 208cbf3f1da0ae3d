"""One attempt of one operation: start its engine runs, follow them, find them again."""

import errno
import json
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from backup_engine.command import Command
from backup_engine.events import Event
from backup_engine.outcome import SENTENCES, Accumulator, conclude
from backup_engine.outcome import Outcome as EngineOutcome
from backup_engine.parse import parse_line
from backup_engine.process import Adopted, Child, ExitRecord, Spool, SpoolState, spools_below
from backup_engine.redact import Redactor
from backup_engine.render import log_line
from holdfast.operations.context import Cancelled, Context, Interrupted, PlainResult, StepResult
from holdfast.operations.logs import LogWriter
from holdfast.operations.models import Operation
from holdfast.operations.stream_lines import Stream
from holdfast.runner.plain import PlainReader
from holdfast.runner.progress import ProgressBoard
from holdfast.storage.session import Database

POLL_SECONDS = 0.1
BLOCK = 1 << 20
MAX_LINE = 1 << 20
LAUNCHES = 3
"""How often a step is launched that is cut off before its engine has started."""
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
NOT_EXECUTABLE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ELOOP, errno.EISDIR})


class Stopping(Exception):
    """The service stops; the engine goes on under its shim and is found again at the next start."""


class Attempt(Context):
    """The surroundings of a kind while a runner executes it. See `Context` for the rules of being called again."""

    def __init__(
        self,
        operation: Operation,
        params: BaseModel,
        database: Database,
        logs: Path,
        board: ProgressBoard,
        stopping: threading.Event,
        grace_seconds: float,
    ) -> None:
        assert operation.spool is not None
        assert operation.log_file is not None
        self.operation = operation
        self.params = params
        self.database = database
        self.folder = Path(operation.spool) / str(operation.attempt)
        self.log_path = logs / operation.log_file
        self._writer = LogWriter(self.log_path, operation.log_base_line)
        self._board = board
        self._stopping = stopping
        self._grace_seconds = grace_seconds
        self._cancel = threading.Event()
        if operation.cancel_requested_at is not None:
            self._cancel.set()

    @property
    def log_lines(self) -> int:
        return self._writer.lines

    def close(self) -> None:
        self._writer.close()

    def cancel(self) -> None:
        self._cancel.set()

    def is_cancelled(self) -> bool:
        return self._cancel.is_set()

    def log(self, *lines: str) -> None:
        self._writer.write(lines)

    def report(self, **progress: Any) -> None:
        self._board.put(self.operation.id, self.operation.attempt, progress)

    def has_begun(self, name: str) -> bool:
        return Spool(self.folder / name).has_started()

    def once(self, name: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        kept = self.kept(name)
        if kept is None:
            keep(self.folder / f"{name}.json", make())
            kept = self.kept(name)
            assert kept is not None
        return kept

    def kept(self, name: str) -> Mapping[str, Any] | None:
        try:
            value: Mapping[str, Any] = json.loads((self.folder / f"{name}.json").read_bytes())
        except FileNotFoundError:
            return None
        return value

    def step(
        self,
        name: str,
        command: Command,
        *,
        on_event: Callable[[Event], None] | None = None,
        despite_cancel: bool = False,
        quiet: bool = False,
    ) -> StepResult:
        spool = Spool(self.folder / name)
        if not quiet:
            self.log(f"$ {display(command)}")
        reader = _Reader(spool, Redactor(command.secret_values), None if quiet else self._writer, on_event)
        self._run_to_end(spool, command, reader.drain, despite_cancel=despite_cancel)
        reader.drain(to_the_end=True)
        exit_record = spool.exit_record()
        if exit_record is None:
            raise Interrupted(name, reader.accumulator)
        cancelled = self.is_cancelled() and not despite_cancel
        outcome = engine_outcome(exit_record, reader.accumulator, cancel_requested=cancelled)
        if outcome.status == "interrupted":
            raise Interrupted(name, reader.accumulator)
        return StepResult(exit_record, outcome, reader.accumulator, spool.out, spool.err)

    def plain_step(self, name: str, command: Command) -> PlainResult:
        spool = Spool(self.folder / name)
        self.log(f"$ {display(command)}")
        output = PlainReader(spool.out, Stream.OUTPUT, self._writer)
        self._run_to_end(spool, command, output.drain, despite_cancel=False)
        output.drain(to_the_end=True)
        PlainReader(spool.err, Stream.ERRORS, self._writer).drain(to_the_end=True)
        exit_record = spool.exit_record()
        if exit_record is None or (exit_record.signal is not None and not self.is_cancelled()):
            raise Interrupted(name, Accumulator())
        return PlainResult(exit_record, self.is_cancelled())

    def _run_to_end(self, spool: Spool, command: Command, drain: Callable[[], None], *, despite_cancel: bool) -> None:
        killer = _Killer(spool, self._grace_seconds, despite_cancel=despite_cancel)
        for _ in range(LAUNCHES):
            running = self._start_or_find(spool, command, despite_cancel=despite_cancel)
            if running is not None:
                self._follow(spool, running, drain, killer)
            if self._settled(spool) is not SpoolState.NEVER_STARTED:
                break

    def _start_or_find(self, spool: Spool, command: Command, *, despite_cancel: bool) -> Child | Adopted | None:
        state = spool.settle()
        if state is SpoolState.ALIVE:
            return Adopted(spool)
        if state is not SpoolState.NEVER_STARTED:
            return None
        if self.is_cancelled() and not despite_cancel:
            raise Cancelled
        if self._stopping.is_set():
            raise Stopping
        spool.remove()  # what a launch left that was cut off before its engine started
        return spool.launch(command)

    def _settled(self, spool: Spool) -> SpoolState:
        while (state := spool.settle()) is SpoolState.ALIVE:
            self._pause()
        return state

    def _follow(self, spool: Spool, running: Child | Adopted, drain: Callable[[], None], killer: "_Killer") -> None:
        while not running.wait(POLL_SECONDS):
            drain()
            self._stop_if_asked(killer)
        while spool.is_alive():  # the shim may be gone while its engine, which holds the lock too, still runs
            drain()
            self._stop_if_asked(killer)
            self._pause()

    def _stop_if_asked(self, killer: "_Killer") -> None:
        if self._stopping.is_set():
            raise Stopping
        if self.is_cancelled():
            killer.act()

    def wait_until_nothing_lives(self) -> None:
        """Wait for the engines of this attempt: nothing may be said to have ended before they have."""
        while any(spool.is_alive() for spool in spools_below(self.folder)):
            self._pause()

    def _pause(self) -> None:
        if self._stopping.wait(POLL_SECONDS):
            raise Stopping


def keep(file: Path, value: Mapping[str, Any]) -> None:
    """Write a value so that it is there whole or not at all, also after a power cut."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = file.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as stream:
        json.dump(value, stream)
        stream.flush()
        os.fsync(stream.fileno())
    part.rename(file)


def display(command: Command) -> str:
    """The command as a person would type it. Secrets are not in it: they never are in argv."""
    return printable(" ".join(shlex.quote(argument) for argument in command.argv))


def printable(text: str) -> str:
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def engine_outcome(exit_record: ExitRecord, accumulator: Accumulator, *, cancel_requested: bool) -> EngineOutcome:
    """Given how a process ended and what it said, return the engine's outcome."""
    if exit_record.exec_error is not None:
        return _not_executed(exit_record.exec_error)
    return conclude(exit_record.code, exit_record.signal, accumulator, cancel_requested)


def _not_executed(error: str) -> EngineOutcome:
    """The engine's program was never reached; `error` begins with the number of the system's error."""
    number, _, words = error.partition(" ")
    if int(number) in NO_SPACE:
        return EngineOutcome("failed", "engine.disk_full", SENTENCES["engine.disk_full"])
    if int(number) in NOT_EXECUTABLE:
        return EngineOutcome("failed", "engine.not_installed", SENTENCES["engine.not_installed"])
    return EngineOutcome("failed", "engine.failed", f"The engine could not be started: {printable(words)}")


class _Killer:
    """SIGTERM to the engine's process group, and SIGKILL when the grace is over."""

    def __init__(self, spool: Spool, grace_seconds: float, *, despite_cancel: bool) -> None:
        self._spool = spool
        self._grace_seconds = grace_seconds
        self._spared = despite_cancel
        self._asked_at: float | None = None

    def act(self) -> None:
        if self._spared:
            return
        if self._asked_at is None:
            if self._spool.signal_engine(signal.SIGTERM):
                self._asked_at = time.monotonic()
        elif time.monotonic() - self._asked_at > self._grace_seconds:
            self._spool.signal_engine(signal.SIGKILL)


class _Reader:
    """Turns the engine's error stream into log lines, progress and the facts that decide its outcome."""

    def __init__(
        self,
        spool: Spool,
        redactor: Redactor,
        writer: LogWriter | None,
        on_event: Callable[[Event], None] | None,
    ) -> None:
        self.accumulator = Accumulator()
        self._path = spool.err
        self._redactor = redactor
        self._writer = writer
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
            if self._writer is not None:
                self._writer.write(rendered)

    def _new_lines(self, to_the_end: bool) -> Iterator[list[bytes]]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            while block := os.pread(descriptor, BLOCK, self._offset):
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


def _in_pieces(line: bytes) -> tuple[list[bytes], bytes]:
    """Cut an endless line at fixed places, so that it gives the same log lines however it arrives; return the rest."""
    whole = len(line) // MAX_LINE * MAX_LINE
    return [line[start : start + MAX_LINE] for start in range(0, whole, MAX_LINE)], line[whole:]


def _whole_in_pieces(line: bytes) -> list[bytes]:
    pieces, rest = _in_pieces(line)
    return [*pieces, rest]
