"""The output of an engine as it is produced, for a request that passes it on: no intermediate file, constant memory."""

import os
import select
import time

import structlog

from backup_engine.command import Command
from backup_engine.outcome import INTERRUPTED_KEY, INTERRUPTED_SENTENCE, Accumulator
from backup_engine.outcome import Outcome as EngineOutcome
from backup_engine.process import Spool
from backup_engine.redact import Redactor
from backup_engine.stream_reader import StreamReader, engine_outcome

log = structlog.get_logger("holdfast.runner")

BLOCK = 256 * 1024
ENDING_SECONDS = 35.0
LOOK_SECONDS = 0.2


class EngineStream:
    """One engine run whose output is read directly. The engine never outlives its reader."""

    def __init__(self, spool: Spool, command: Command) -> None:
        self._spool = spool
        self._command = command
        self._child, self._descriptor = spool.launch_piped(command)
        self._is_open = True

    def wait_for_output(self, seconds: float) -> bool:
        """Wait up to the given time; return True once `read` would not block."""
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    def read(self, size: int = BLOCK) -> bytes:
        """Return the next bytes; empty at the end, when `outcome` shows whether the engine succeeded."""
        return os.read(self._descriptor, size)

    def outcome(self) -> EngineOutcome:
        """Return how the engine ended. Valid only at the end of the stream."""
        exit_record = self._spool.exit_record()
        if exit_record is None:
            log.warning("the engine of a stream left no exit record", folder=str(self._spool.folder))
            return EngineOutcome("interrupted", INTERRUPTED_KEY, INTERRUPTED_SENTENCE)
        outcome = engine_outcome(exit_record, messages_of(self._spool, self._command), cancel_requested=False)
        if outcome.status == "interrupted":
            log.warning("the engine of a stream was interrupted", code=exit_record.code, signal=exit_record.signal)
        return outcome

    def close(self) -> None:
        """Close the output, which stops a running engine, and wait until it has stopped."""
        if not self._is_open:
            return
        self._is_open = False
        os.close(self._descriptor)
        deadline = time.monotonic() + ENDING_SECONDS
        while not self._child.wait(LOOK_SECONDS) and time.monotonic() < deadline:
            continue


def messages_of(spool: Spool, command: Command) -> Accumulator:
    """Return the messages of an engine that has ended."""
    reader = StreamReader(spool.err, Redactor(command.secret_values))
    reader.drain(to_the_end=True)
    return reader.accumulator
