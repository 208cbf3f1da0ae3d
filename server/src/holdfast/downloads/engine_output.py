"""An engine's output for a request, read until it ends, a time limit is reached, or the client leaves."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from backup_engine.causes import ARCHIVE_MISSING, SENTENCES
from backup_engine.command import Command
from backup_engine.outcome import Outcome
from holdfast.errors import HoldfastError, NotFound, Unavailable
from holdfast.operations.queue import lane_of
from holdfast.repositories import errors as repository_errors
from holdfast.repositories import store as repositories
from holdfast.repositories.models import Repository
from holdfast.runner.engine_stream import BLOCK, EngineStream
from holdfast.runner.inline import InlineCalls

LOOK_SECONDS = 0.2
SILENT_SECONDS = 600.0


class ClientGone(Exception):
    """The client has disconnected."""


class IncompleteOutput(Exception):
    """The engine did not complete its output, so the data already passed on is incomplete."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message or outcome.status)


class EngineOutput:
    """The output of one engine command, run in the repository's lane. Reads like a file; any thread may close it."""

    def __init__(
        self,
        inline: InlineCalls,
        repository: Repository,
        command: Command,
        gone: threading.Event,
        *,
        job_id: int | None = None,
    ) -> None:
        """`job_id` is the agent's job that already holds the lane, if there is one."""
        self._gone = gone
        self._is_in_the_way = partial(inline.is_waited_for, lane_of(repository.id))
        self._closed = threading.Event()
        self._guard = threading.Lock()
        self._stack = ExitStack()
        try:
            hold = self._stack.enter_context(
                inline.in_lane_of(job_id)
                if job_id is not None
                else inline.hold(lane_of(repository.id), subject=repositories.subject(repository))
            )
            self._stream: EngineStream = self._stack.enter_context(hold.stream(command))
        except BaseException:
            self._stack.close()
            raise

    def read(self, size: int = BLOCK) -> bytes:
        """The next bytes, empty at the end. Raise ClientGone, or Unavailable if the engine is silent for too long."""
        with self._guard:
            deadline = time.monotonic() + SILENT_SECONDS
            while not self._stream.wait_for_output(LOOK_SECONDS):
                self._require_a_reader()
                if time.monotonic() > deadline:
                    raise Unavailable(
                        "engine.silent", "The engine produced no output for too long; try again.", retry_after=60
                    )
            self._require_a_reader()
            return self._stream.read(size)

    def _require_a_reader(self) -> None:
        if self._gone.is_set() or self._closed.is_set():
            raise ClientGone

    def blocks(self) -> Iterator[bytes]:
        """All blocks. Raise IncompleteOutput at the end unless the engine reports success."""
        while block := self.read():
            yield block
        self.require_good_end()

    def require_good_end(self) -> None:
        outcome = self._stream.outcome()
        if outcome.status != "completed":
            raise IncompleteOutput(outcome)

    def outcome(self) -> Outcome:
        """How the engine ended. Valid only after the end of its output."""
        return self._stream.outcome()

    def refusal(self) -> HoldfastError:
        """Why the engine produced nothing, as an error for the request."""
        outcome = self._stream.outcome()
        if outcome.reason == ARCHIVE_MISSING:
            return NotFound("archives.not_found", SENTENCES[ARCHIVE_MISSING])
        if outcome.status == "interrupted":
            return Unavailable("engine.interrupted", "The engine was interrupted; try again.", retry_after=5)
        return repository_errors.refused_by_engine(outcome)

    def is_in_the_way(self) -> bool:
        """Whether work that needs the repository exclusively is waiting."""
        return self._is_in_the_way()

    def close(self) -> None:
        """Stop the engine, wait for it to end, and release the lane."""
        self._closed.set()
        with self._guard:
            self._stack.close()
