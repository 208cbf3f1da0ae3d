"""Run the engine for one attempt at a job: start it under the shim, follow it, find it again after a restart."""

import json
import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from backup_engine.command import Command, Machine
from backup_engine.events import Event
from backup_engine.far.request import FarStop, ended_file, was_started_remotely
from backup_engine.outcome import Accumulator, Outcome
from backup_engine.process import Adopted, Child, ExitRecord, Spool, SpoolState, spools_below
from backup_engine.redact import Redactor
from backup_engine.stream_reader import Killer, PlainReader, StreamReader, display, engine_outcome
from backup_jobs.host import Cancelled, Host, Interrupted, ScriptEnd, Step, Stopping

ENDED_ELSEWHERE = ("code", "signal", "exec_error", "timed_out", "too_much_output")
LAUNCHES = 3
"""Maximum launches of a step that is cut off before its engine starts."""


class FollowAgain(Exception):
    """The process that followed an engine on another machine was killed; the engine still runs and can be followed
    again.
    """


class EngineHost(Host):
    """A host that runs engines on this machine, or follows them on other machines."""

    poll_seconds: ClassVar[float] = 0.1
    drain_seconds: ClassVar[float] = 0.0
    """Maximum delay before the engine's output is read."""
    syncs_lines: ClassVar[bool] = False
    """Whether log lines are synced: no line may survive a power cut that destroys the output it came from."""

    def __init__(
        self, folder: Path, stopping: threading.Event, cancelled: threading.Event, grace_seconds: float
    ) -> None:
        self.folder = folder
        self._stopping = stopping
        self._cancelled = cancelled
        self._grace_seconds = grace_seconds
        self._drained_at = 0.0
        self._last_end: tuple[float, float] | None = None
        """When the last engine run ended, by the clock of its record, and when the record was read, by the monotonic
        clock.
        """

    @abstractmethod
    def _write(self, lines: Sequence[str]) -> None:
        """Append the engine's lines to the log."""

    def _with_environment(self, command: Command) -> Command:
        """Return the command with the settings that apply to all runs of this job."""
        return command

    def _redactor(self, command: Command) -> Redactor:
        return Redactor(command.secret_values)

    # --- called by bodies -------------------------------------------------------------------------------------------

    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._stopping.wait(min(self.poll_seconds, left))
            self.require_going_on()

    def has_begun(self, name: str) -> bool:
        return Spool(self.folder / name).has_started()

    def once(self, name: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        kept = self.kept(name)
        if kept is None:
            write_durably(self.folder / f"{name}.json", make())
            kept = self.kept(name)
            assert kept is not None
        return kept

    def kept(self, name: str) -> Mapping[str, Any] | None:
        try:
            value: Mapping[str, Any] = json.loads((self.folder / f"{name}.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return value

    def ended_at(self) -> datetime:
        """Return when the work ended: the recorded end of the last engine run, plus the time that has passed since."""
        if self._last_end is None:
            return datetime.now(UTC)
        finished_at, read_at = self._last_end
        return datetime.fromtimestamp(finished_at + time.monotonic() - read_at, UTC)

    def step(
        self,
        name: str,
        command: Command,
        *,
        on_event: Callable[[Event], None] | None = None,
        despite_cancel: bool = False,
        quiet: bool = False,
    ) -> Step:
        spool = Spool(self.folder / name)
        command = self._with_environment(command)
        if not quiet:
            self.log(f"$ {display(command)}")
        write = None if quiet else self._write
        reader = StreamReader(spool.err, self._redactor(command), write, on_event, sync=self.syncs_lines)
        self._run_to_end(spool, command, reader.drain, despite_cancel=despite_cancel)
        reader.drain(to_the_end=True)
        record = self._exit_record(spool)
        if record is None:
            raise Interrupted(name, reader.accumulator)
        outcome = self._judged(name, record, reader.accumulator, may_be_cancelled=not despite_cancel)
        if outcome.status == "interrupted":
            raise Interrupted(name, reader.accumulator)
        return Step(record, outcome, reader.accumulator, spool.out, spool.err)

    def script_step(self, name: str, command: Command) -> ScriptEnd:
        spool = Spool(self.folder / name)
        self.log(f"$ {display(command)}")
        redactor = Redactor(command.secret_values)
        reader = PlainReader(spool.out, redactor, self._write, sync=self.syncs_lines, most=command.most_output)
        self._run_to_end(spool, command, reader.drain, despite_cancel=False)
        reader.drain(to_the_end=True)
        record = self._exit_record(spool)
        if record is None:
            raise Interrupted(name, Accumulator())
        was_cancelled = bool(self.once(f"{name}.judged", lambda: {"cancelled": self.is_cancelled()})["cancelled"])
        if not isinstance(command.machine, Machine):
            return ScriptEnd(record, was_cancelled)
        there = remote_end(spool, record)
        if there is None and was_started_remotely(spool.folder):
            raise Interrupted(name, Accumulator())
        return ScriptEnd(there or record, was_cancelled, was_reached=there is not None)

    def _judged(self, name: str, record: ExitRecord, accumulator: Accumulator, *, may_be_cancelled: bool) -> Outcome:
        """Decide, once, whether the run ended because of a cancel: a later cancel must not change the result of a
        replay.
        """
        unasked = engine_outcome(record, accumulator, cancel_requested=False)
        asked = engine_outcome(record, accumulator, cancel_requested=True)
        if not may_be_cancelled or asked == unasked:
            return unasked
        judged = self.once(f"{name}.judged", lambda: {"cancelled": self.is_cancelled()})
        return asked if judged["cancelled"] else unasked

    # --- one run ----------------------------------------------------------------------------------------------------

    def _exit_record(self, spool: Spool) -> ExitRecord | None:
        record = spool.exit_record()
        if record is not None:
            self._last_end = (record.finished_at, time.monotonic())
        return record

    def _run_to_end(self, spool: Spool, command: Command, drain: Callable[[], None], *, despite_cancel: bool) -> None:
        killer = None if despite_cancel else self._killer(spool, command)
        for _ in range(LAUNCHES):
            running = self._start_or_find(spool, command, despite_cancel=despite_cancel)
            if running is not None:
                self._follow(spool, running, drain, killer)
            if self._settled(spool) is not SpoolState.NEVER_STARTED:
                break
        if lost_track(spool, command):
            raise FollowAgain

    def _killer(self, spool: Spool, command: Command) -> Killer | FarStop:
        by_ssh = isinstance(command.machine, Machine)
        return FarStop(spool.folder) if by_ssh else Killer(spool, self._grace_seconds)

    def _start_or_find(self, spool: Spool, command: Command, *, despite_cancel: bool) -> Child | Adopted | None:
        state = spool.settle()
        if state is SpoolState.ALIVE:
            return Adopted(spool)
        found_again = lost_track(spool, command)
        if state is not SpoolState.NEVER_STARTED and not found_again:
            return None
        if self.is_cancelled() and not despite_cancel and not found_again:
            raise Cancelled
        if self.is_stopping():
            raise Stopping
        spool.remove()  # left by a launch that was cut off before its engine started
        return spool.launch(command)

    def _settled(self, spool: Spool) -> SpoolState:
        while (state := spool.settle()) is SpoolState.ALIVE:
            self._wait()
        return state

    def _follow(
        self, spool: Spool, running: Child | Adopted, drain: Callable[[], None], killer: Killer | FarStop | None
    ) -> None:
        while not running.wait(self.poll_seconds):
            self._look_after(drain, killer)
        while spool.is_alive():  # the shim may be gone while its engine, which shares the lock, still runs
            self._look_after(drain, killer)
            self._wait()

    def _look_after(self, drain: Callable[[], None], killer: Killer | FarStop | None) -> None:
        if time.monotonic() - self._drained_at >= self.drain_seconds:
            drain()
            self._drained_at = time.monotonic()
        if self.is_stopping():
            raise Stopping
        if killer is not None and self.is_cancelled():
            killer.act()

    def wait_for_engines(self) -> None:
        """Wait until the engines of all attempts have ended, so that no ending is reported before."""
        while any(spool.is_alive() for spool in spools_below(self.folder.parent)):
            self._wait()

    def _wait(self) -> None:
        if self._stopping.wait(self.poll_seconds):
            raise Stopping


def lost_track(spool: Spool, command: Command) -> bool:
    """Whether the process that followed an engine on another machine was killed or left no record.

    A run whose output was piped into another program ended with it: such a run cannot be replayed.
    """
    if not isinstance(command.machine, Machine) or command.machine.python is None or command.into:
        return False
    if not spool.has_started() or spool.is_alive():
        return False
    exit_record = spool.exit_record()
    return exit_record is None or exit_record.signal is not None


def remote_end(spool: Spool, record: ExitRecord) -> ExitRecord | None:
    """Return how a script on another machine ended; None if that is unknown."""
    try:
        reported = json.loads(ended_file(spool.folder).read_bytes())["exit"]
        return replace(record, **{name: reported[name] for name in ENDED_ELSEWHERE})
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_durably(file: Path, value: Mapping[str, Any]) -> None:
    """Write a value atomically and durably."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = file.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as stream:
        json.dump(value, stream)
        stream.flush()
        os.fsync(stream.fileno())
    part.rename(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
