"""Run every background loop of the service: log failures, retry with back-off, and report failing loops."""

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Literal

import structlog

from backup_engine.frozen import frozen
from holdfast.errors import Unavailable
from holdfast.kit import clock

log = structlog.get_logger("holdfast.loops")

State = Literal["running", "failing"]
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 30.0
PROOF_SECONDS = 60.0
"""A restarted loop that does not report steps counts as running again after this long without a failure."""
LONGEST_ERROR = 300


@frozen
class LoopReport:
    name: str
    state: State
    restarts: int
    """Failures since the service started; each was retried."""
    failures_in_a_row: int
    last_error: str | None
    last_error_at: datetime | None


class _Loop:
    """State of one loop, or of one step of a loop."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.restarts = 0
        self.failures = 0
        self.last_error: str | None = None
        self.last_error_at: datetime | None = None
        self.not_before = float("-inf")

    def succeeded(self) -> None:
        if self.failures:
            log.info("a background loop works again", loop=self.name)
        self.failures = 0

    def failed(self, error: BaseException) -> float:
        """Record and log a failure; return how long to wait before the next try."""
        self.restarts += 1
        self.failures += 1
        self.last_error = _first_line(error)
        self.last_error_at = clock.now()
        delay = self._delay(error)
        self.not_before = time.monotonic() + delay
        if isinstance(error, Unavailable):
            log.warning("a background loop could not work", loop=self.name, reason=str(error.__cause__ or error))
        else:
            log.error("a background loop failed", loop=self.name, retry_in=delay, exc_info=error)
        return delay

    def _delay(self, error: BaseException) -> float:
        if isinstance(error, Unavailable):
            return FIRST_DELAY_SECONDS  # the store is expected back, and the loops should notice soon
        return float(min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2 ** min(self.failures - 1, 10)))

    def report(self) -> LoopReport:
        return LoopReport(
            name=self.name,
            state="failing" if self.failures else "running",
            restarts=self.restarts,
            failures_in_a_row=self.failures,
            last_error=self.last_error,
            last_error_at=self.last_error_at,
        )


class Supervisor:
    """Runs loops in threads. No exception ends a loop before the service stops."""

    def __init__(self, stopping: threading.Event | None = None) -> None:
        self.stopping = stopping if stopping is not None else threading.Event()
        self._guard = threading.Lock()
        self._loops: dict[str, _Loop] = {}

    def keep_running(self, name: str, loop: Callable[[], None]) -> threading.Thread:
        """Run a loop in a thread until the service stops; restart it whenever it raises or returns."""
        return self._start(name, lambda: self._keep_running(name, loop))

    def every(self, name: str, seconds: float, step: Callable[[], object]) -> threading.Thread:
        """Run a step at an interval, first after one interval. A failed step is retried sooner."""
        return self._start(name, lambda: self._every(name, seconds, step))

    def run_until_done(self, name: str, task: Callable[[], None]) -> threading.Thread:
        """Run a task in a thread until it returns; restart it whenever it raises."""
        return self._start(name, lambda: self._run_until_done(name, task))

    def attempt(self, name: str, step: Callable[[], object]) -> bool:
        """Run one step of a loop unless it failed a moment ago. A failure is recorded, never raised."""
        loop = self._of(name)
        if time.monotonic() < loop.not_before and not self.stopping.is_set():
            return False
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - no class of exception may end a loop
            loop.failed(error)
            return False
        loop.succeeded()
        return True

    def record_working(self, name: str) -> None:
        """Record that a loop without steps is working, before its current round has ended."""
        self._of(name).succeeded()

    def reports(self) -> list[LoopReport]:
        with self._guard:
            loops = sorted(self._loops.values(), key=lambda loop: loop.name)
        return [loop.report() for loop in loops]

    def failing(self) -> list[LoopReport]:
        return [report for report in self.reports() if report.state == "failing"]

    def stop(self) -> None:
        self.stopping.set()

    def _start(self, name: str, target: Callable[[], None]) -> threading.Thread:
        self._of(name)
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def _of(self, name: str) -> _Loop:
        loop = self._loops.get(name)
        if loop is None:
            with self._guard:
                loop = self._loops.setdefault(name, _Loop(name))
        return loop

    def _keep_running(self, name: str, loop: Callable[[], None]) -> None:
        while not self.stopping.is_set():
            if self._run(name, loop) is None and not self.stopping.is_set():
                self.stopping.wait(self._of(name).failed(LoopEnded("the loop returned before the service stopped")))

    def _run_until_done(self, name: str, task: Callable[[], None]) -> None:
        while self._run(name, task) is not None:
            if self.stopping.is_set():
                return
        with self._guard:
            self._loops.pop(name, None)

    def _run(self, name: str, loop: Callable[[], None]) -> BaseException | None:
        """Run a loop once. Return the exception it raised, after waiting for the next try; None if it returned."""
        state = self._of(name)
        proof = threading.Timer(PROOF_SECONDS, state.succeeded) if state.failures else None
        if proof is not None:
            proof.daemon = True
            proof.start()
        try:
            loop()
        except BaseException as error:  # noqa: BLE001 - no class of exception may end a loop
            self.stopping.wait(state.failed(error))
            return error
        finally:
            if proof is not None:
                proof.cancel()
        return None

    def _every(self, name: str, seconds: float, step: Callable[[], object]) -> None:
        delay = seconds
        while not self.stopping.wait(delay):
            is_done = self.attempt(name, step)
            remaining = self._of(name).not_before - time.monotonic()
            delay = seconds if is_done else min(seconds, max(remaining, 0.0))


class LoopEnded(Exception):
    """A loop that should run until the service stops has returned."""


def _first_line(error: BaseException) -> str:
    """The error as text for administrators. Only the first line: later ones may contain a statement's values."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:LONGEST_ERROR]
