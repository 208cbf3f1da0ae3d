"""What a running kind works with: its operation, the database, and ways to run programs."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel

from backup_engine.command import Command
from backup_engine.frozen import frozen
from backup_engine.process import ExitRecord
from backup_jobs.host import Host
from holdfast.operations.models import Operation
from holdfast.storage.session import Database


@frozen
class PlainResult:
    """A finished run of a program that is not an engine."""

    exit: ExitRecord
    was_cancelled: bool


@frozen
class ProgramResult:
    """A finished run of a program whose standard error was read line by line."""

    exit: ExitRecord
    was_cancelled: bool
    stdout: Path


OnLine = Callable[[bytes], Sequence[str]]
"""Given a line of a program's standard error, return the lines for the log."""


class Context(Host):
    """The context of one attempt at an operation. The rules of `Host` for repeated calls apply here too."""

    operation: Operation
    params: BaseModel
    database: Database

    @abstractmethod
    def plain_step(self, name: str, command: Command) -> PlainResult:
        """Run any program under the shim, or find it again. Both of its streams go to the log, each line marked.

        Standard output is logged as it arrives, standard error after it, so that the log comes out the same when it is
        written again. Raise Interrupted and Cancelled as `step` does.
        """

    @abstractmethod
    def program_step(self, name: str, command: Command, on_line: OnLine) -> ProgramResult:
        """Run any program under the shim, or find it again, and pass on its standard error line by line.

        `on_line` must keep secrets out of the lines that it returns. Raise Interrupted and Cancelled as `step` does.
        """

    @abstractmethod
    def ended_at(self) -> datetime:
        """Return when the work so far ended: the recorded end of the last engine run, plus the time since then."""
