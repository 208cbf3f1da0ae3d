"""One attempt at an operation, with the runner as the host of its kind's work."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from backup_engine.command import Command
from backup_engine.outcome import Accumulator
from backup_engine.process import Spool
from backup_engine.stream_reader import display
from backup_jobs.engine_host import EngineHost
from backup_jobs.host import Interrupted
from holdfast.operations.context import Context, OnLine, PlainResult, ProgramResult
from holdfast.operations.logs import LOG_BYTES_MOST, LogWriter
from holdfast.operations.models import Operation
from holdfast.operations.two_stream_log import Stream
from holdfast.runner.line_reader import LineReader
from holdfast.runner.plain_reader import PlainReader
from holdfast.runner.progress import ProgressCache
from holdfast.storage.session import Database


class Attempt(EngineHost, Context):
    """The context of a kind while a runner executes it. See `Host` for the rules of repeated calls."""

    def __init__(
        self,
        operation: Operation,
        params: BaseModel,
        database: Database,
        logs: Path,
        progress_cache: ProgressCache,
        stopping: threading.Event,
        grace_seconds: float,
        most_log_bytes: int = LOG_BYTES_MOST,
    ) -> None:
        assert operation.spool is not None
        assert operation.log_file is not None
        super().__init__(Path(operation.spool) / str(operation.attempt), stopping, threading.Event(), grace_seconds)
        self.operation = operation
        self.params = params
        self.database = database
        self.log_path = logs / operation.log_file
        self._writer = LogWriter(self.log_path, operation.log_base_line, most_log_bytes)
        self._progress_cache = progress_cache
        if operation.cancel_requested_at is not None:
            self.cancel()

    @property
    def attempt(self) -> int:
        return self.operation.attempt

    @property
    def earlier(self) -> Mapping[str, Any]:
        return self.operation.result or {}

    @property
    def log_lines(self) -> int:
        """Return the number of lines in the log, now that the attempt is over."""
        self._writer.finish()
        return self._writer.lines

    def close(self) -> None:
        self._writer.close()

    def cancel(self) -> None:
        self._cancelled.set()

    def log(self, *lines: str) -> None:
        self._writer.write(lines)

    def _write(self, lines: Sequence[str]) -> None:
        self._writer.write(lines)

    def report(self, **progress: Any) -> None:
        self._progress_cache.put(self.operation.id, self.operation.attempt, progress)

    def plain_step(self, name: str, command: Command) -> PlainResult:
        spool = Spool(self.folder / name)
        self.log(f"$ {display(command)}")
        output = PlainReader(spool.out, Stream.OUTPUT, self._writer)
        self._run_to_end(spool, command, output.drain, despite_cancel=False)
        output.drain(to_the_end=True)
        PlainReader(spool.err, Stream.ERRORS, self._writer).drain(to_the_end=True)
        exit_record = self._exit_record(spool)
        if exit_record is None or (exit_record.signal is not None and not self.is_cancelled()):
            raise Interrupted(name, Accumulator())
        return PlainResult(exit_record, self.is_cancelled())

    def program_step(self, name: str, command: Command, on_line: OnLine) -> ProgramResult:
        spool = Spool(self.folder / name)
        self.log(f"$ {display(command)}")
        reader = LineReader(spool.err, on_line, self._writer)
        self._run_to_end(spool, command, reader.drain, despite_cancel=False)
        reader.drain(to_the_end=True)
        exit_record = self._exit_record(spool)
        if exit_record is None or (exit_record.signal is not None and not self.is_cancelled()):
            raise Interrupted(name, Accumulator())
        return ProgramResult(exit_record, self.is_cancelled(), spool.out)
