"""One attempt of one operation: start its engine runs, follow them, find them again."""

import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from backup_engine.command import Command, Machine
from backup_engine.events import Event
from backup_engine.far.request import FarStop
from backup_engine.following import Killer, StreamReader, display, engine_outcome
from backup_engine.outcome import Accumulator
from backup_engine.process import Adopted, Child, Spool, SpoolState, spools_below
from backup_engine.redact import Redactor
from holdfast.operations.context import Cancelled, Context, Hear, Interrupted, PlainResult, ProgramResult, StepResult
from holdfast.operations.logs import LogWriter
from holdfast.operations.models import Operation
from holdfast.operations.stream_lines import Stream
from holdfast.runner.listening import LineReader
from holdfast.runner.plain import PlainReader
from holdfast.runner.progress import ProgressBoard
from holdfast.storage.session import Database

POLL_SECONDS = 0.1
LAUNCHES = 3
"""How often a step is launched that is cut off before its engine has started."""


class Stopping(Exception):
    """The service stops; the engine goes on under its shim and is found again at the next start."""


class FollowAgain(Exception):
    """What followed an engine on another machine was killed; the engine was not, and can be followed from its beginning."""


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
        reader = StreamReader(
            spool.err, Redactor(command.secret_values), None if quiet else self._writer.write, on_event
        )
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

    def program_step(self, name: str, command: Command, hear: Hear) -> ProgramResult:
        spool = Spool(self.folder / name)
        self.log(f"$ {display(command)}")
        reader = LineReader(spool.err, hear, self._writer)
        self._run_to_end(spool, command, reader.drain, despite_cancel=False)
        reader.drain(to_the_end=True)
        exit_record = spool.exit_record()
        if exit_record is None or (exit_record.signal is not None and not self.is_cancelled()):
            raise Interrupted(name, Accumulator())
        return ProgramResult(exit_record, self.is_cancelled(), spool.out)

    def pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise Stopping
        if self.is_cancelled():
            raise Cancelled

    def _run_to_end(self, spool: Spool, command: Command, drain: Callable[[], None], *, despite_cancel: bool) -> None:
        killer = None if despite_cancel else self._killer(spool, command)
        for _ in range(LAUNCHES):
            running = self._start_or_find(spool, command, despite_cancel=despite_cancel)
            if running is not None:
                self._follow(spool, running, drain, killer)
            if self._settled(spool) is not SpoolState.NEVER_STARTED:
                break
        if lost_sight(spool, command):
            raise FollowAgain

    def _killer(self, spool: Spool, command: Command) -> Killer | FarStop:
        by_ssh = isinstance(command.machine, Machine)
        return FarStop(spool.folder) if by_ssh else Killer(spool, self._grace_seconds)

    def _start_or_find(self, spool: Spool, command: Command, *, despite_cancel: bool) -> Child | Adopted | None:
        state = spool.settle()
        if state is SpoolState.ALIVE:
            return Adopted(spool)
        found_again = lost_sight(spool, command)
        if state is not SpoolState.NEVER_STARTED and not found_again:
            return None
        if self.is_cancelled() and not despite_cancel and not found_again:
            raise Cancelled
        if self._stopping.is_set():
            raise Stopping
        spool.remove()  # what a launch left that was cut off before its engine started
        return spool.launch(command)

    def _settled(self, spool: Spool) -> SpoolState:
        while (state := spool.settle()) is SpoolState.ALIVE:
            self._pause()
        return state

    def _follow(
        self, spool: Spool, running: Child | Adopted, drain: Callable[[], None], killer: Killer | FarStop | None
    ) -> None:
        while not running.wait(POLL_SECONDS):
            drain()
            self._stop_if_asked(killer)
        while spool.is_alive():  # the shim may be gone while its engine, which holds the lock too, still runs
            drain()
            self._stop_if_asked(killer)
            self._pause()

    def _stop_if_asked(self, killer: Killer | FarStop | None) -> None:
        if self._stopping.is_set():
            raise Stopping
        if killer is not None and self.is_cancelled():
            killer.act()

    def wait_until_nothing_lives(self) -> None:
        """Wait for the engines of this attempt: nothing may be said to have ended before they have."""
        while any(spool.is_alive() for spool in spools_below(self.folder)):
            self._pause()

    def _pause(self) -> None:
        if self._stopping.wait(POLL_SECONDS):
            raise Stopping


def lost_sight(spool: Spool, command: Command) -> bool:
    """True when what followed an engine on another machine has ended by a signal, or nobody knows how.

    One whose output was poured into another program has ended with it: what was poured cannot be told again.
    """
    if not isinstance(command.machine, Machine) or command.machine.python is None or command.into:
        return False
    if not spool.has_started() or spool.is_alive():
        return False
    exit_record = spool.exit_record()
    return exit_record is None or exit_record.signal is not None


def keep(file: Path, value: Mapping[str, Any]) -> None:
    """Write a value so that it is there whole or not at all, also after a power cut."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = file.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as stream:
        json.dump(value, stream)
        stream.flush()
        os.fsync(stream.fileno())
    part.rename(file)
