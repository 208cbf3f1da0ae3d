"""The engine's runs of one job: start them under the shim, follow them, find them again after a restart.

A job's work may be done again from the beginning at any time: a run that has ended is answered from its spool, a living one
is followed on, what was found out between runs is read again, and log lines that are there already are passed over.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from backup_agent import private_files
from backup_agent.job_folder import JobFolder
from backup_engine.command import Command, Secret
from backup_engine.events import Event
from backup_engine.following import Killer, StreamReader, display, engine_outcome
from backup_engine.outcome import Accumulator, Outcome
from backup_engine.process import Adopted, Child, ExitRecord, Spool, SpoolState, spools_below
from backup_engine.redact import Redactor
from backup_protocol import LogStream, Progress

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
DRAIN_SECONDS = 0.5
PROGRESS_SECONDS = 1.0
LAUNCHES = 3
SUCCEEDED = frozenset({"completed", "completed_with_warnings"})


class Stopping(Exception):
    """The agent stops; the engine goes on under its shim and is found again at the next start."""


class Cancelled(Exception):
    """The job was asked to stop before its next run of the engine."""


class Interrupted(Exception):
    """A run of the engine ended and left no record of how."""

    def __init__(self, step: str, accumulator: Accumulator) -> None:
        super().__init__(step)
        self.step = step
        self.accumulator = accumulator

    def sentence(self) -> str:
        return "The engine was killed or the machine went down before it could say how it ended."


@dataclass(frozen=True, slots=True)
class Step:
    """One run of the engine that has ended."""

    exit: ExitRecord
    outcome: Outcome
    accumulator: Accumulator
    stdout: Path

    @property
    def succeeded(self) -> bool:
        return self.outcome.status in SUCCEEDED


@dataclass(frozen=True, slots=True, repr=False)
class Surroundings:
    """Variables of the payload that reach every run, and what takes all secrets of the job out of its words."""

    redactor: Redactor
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)

    def around(self, command: Command) -> Command:
        if not self.variables and not self.secrets:
            return command
        return replace(
            command,
            environment={**command.environment, **self.variables},
            secrets={**command.secrets, **self.secrets},
        )


class Steps:
    """One attempt at a job."""

    def __init__(
        self,
        job: JobFolder,
        attempt: int,
        surroundings: "Surroundings",
        stopping: threading.Event,
        grace_seconds: float,
    ) -> None:
        self.attempt = attempt
        self._job = job
        self._folder = job.folder / "steps" / str(attempt)
        self._surroundings = surroundings
        self._redactor = surroundings.redactor
        self._stopping = stopping
        self._grace_seconds = grace_seconds
        self._reported_at = 0.0
        self._drained_at = 0.0

    def is_cancelled(self) -> bool:
        return self._job.cancelled.is_set()

    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def require_going_on(self) -> None:
        """Raise Stopping or Cancelled if the work is to end here."""
        if self.is_stopping():
            raise Stopping
        if self.is_cancelled():
            raise Cancelled

    def pause(self, seconds: float) -> None:
        """Wait for something that is not of this machine. Raise Stopping or Cancelled as soon as one is asked for."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._stopping.wait(min(POLL_SECONDS, left))
            self.require_going_on()

    def say(self, *lines: str) -> None:
        """Add the agent's own words to the log."""
        self._job.log.write(map(self._redactor.redact, lines), LogStream.AGENT)

    def report(self, progress: Progress) -> None:
        """Tell how far the job has come, at most once a second."""
        if time.monotonic() - self._reported_at >= PROGRESS_SECONDS:
            self._reported_at = time.monotonic()
            self._job.note_progress(progress)

    def has_begun(self, name: str) -> bool:
        return Spool(self._folder / name).has_started()

    def once(self, name: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """What `make` returns, made once in this attempt: after a restart it is what was made before."""
        file = self._folder / f"{name}.json"
        kept: Mapping[str, Any] | None = private_files.read_json(file)
        if kept is None:
            private_files.make_folder(self._folder)
            private_files.write_json(file, make())
            kept = private_files.read_json(file)
            assert kept is not None
        return kept

    def run(
        self,
        name: str,
        command: Command,
        *,
        on_event: Callable[[Event], None] | None = None,
        despite_cancel: bool = False,
        quiet: bool = False,
    ) -> Step:
        """Run the engine, or find its run again. Raise Interrupted if nobody knows how it ended.

        Raise Cancelled if the job was to stop before the run began, unless it is one that finds out the truth and must
        run `despite_cancel`. A `quiet` run leaves no lines in the log.
        """
        spool = Spool(self._folder / name)
        command = self._surroundings.around(command)
        if not quiet:
            self.say(f"$ {display(command)}")
        write = None if quiet else self._job.log.write
        reader = StreamReader(spool.err, self._redactor, write, on_event, sync=True)
        self._run_to_end(spool, command, reader, despite_cancel=despite_cancel)
        reader.drain(to_the_end=True)
        record = spool.exit_record()
        if record is None:
            raise Interrupted(name, reader.accumulator)
        # Judged once: a cancel that comes after the end must not change, at a replay, what was decided before it.
        judged = self.once(f"{name}.judged", lambda: {"cancelled": self.is_cancelled() and not despite_cancel})
        outcome = engine_outcome(record, reader.accumulator, cancel_requested=bool(judged["cancelled"]))
        if outcome.status == "interrupted":
            raise Interrupted(name, reader.accumulator)
        return Step(record, outcome, reader.accumulator, spool.out)

    # --- one run ----------------------------------------------------------------------------------------------------

    def _run_to_end(self, spool: Spool, command: Command, reader: StreamReader, *, despite_cancel: bool) -> None:
        killer = Killer(spool, self._grace_seconds)
        for _ in range(LAUNCHES):
            running = self._start_or_find(spool, command, despite_cancel=despite_cancel)
            if running is not None:
                self._follow(spool, running, reader, None if despite_cancel else killer)
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

    def _follow(self, spool: Spool, running: Child | Adopted, reader: StreamReader, killer: Killer | None) -> None:
        while not running.wait(POLL_SECONDS):
            self._look_after(reader, killer)
        while spool.is_alive():  # the shim may be gone while its engine, which holds the lock too, still runs
            self._look_after(reader, killer)
            self._pause()

    def _look_after(self, reader: StreamReader, killer: Killer | None) -> None:
        if time.monotonic() - self._drained_at >= DRAIN_SECONDS:
            reader.drain()
            self._drained_at = time.monotonic()
        if self._stopping.is_set():
            raise Stopping
        if killer is not None and self.is_cancelled():
            killer.act()

    def wait_until_nothing_lives(self) -> None:
        """Nothing may be said to have ended before its engines have."""
        while any(spool.is_alive() for spool in spools_below(self._job.folder / "steps")):
            self._pause()

    def _pause(self) -> None:
        if self._stopping.wait(POLL_SECONDS):
            raise Stopping
