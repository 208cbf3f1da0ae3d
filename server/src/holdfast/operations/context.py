"""The surroundings of a running kind."""

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
    """One run of a program that is not an engine."""

    exit: ExitRecord
    was_cancelled: bool


@frozen
class ProgramResult:
    """One run of a program whose error stream was read line by line."""

    exit: ExitRecord
    was_cancelled: bool
    stdout: Path


OnLine = Callable[[bytes], Sequence[str]]
"""Given a line of a program's error stream, return the lines for the log."""


class Context(Host):
    """The surroundings of one attempt at an operation. The rules of `Host` for repeated calls apply here too."""

    operation: Operation
    params: BaseModel
    database: Database

    @abstractmethod
    def plain_step(self, name: str, command: Command) -> PlainResult:
        """Run any program under the shim, or find it again; both of its streams go to the log, each line marked.

        Its standard output follows as it comes, its standard error after it: the log must come out the same when it is
        written again. Raise Interrupted and Cancelled as `step` does.
        """

    @abstractmethod
    def program_step(self, name: str, command: Command, on_line: OnLine) -> ProgramResult:
        """Run any program under the shim, or find it again, and pass its error stream on line by line.

        `on_line` keeps secrets out of what it returns. Raise Interrupted and Cancelled as `step` does.
        """

    @abstractmethod
    def ended_at(self) -> datetime:
        """When the work done so far ended: the end of the last engine run by its own record, plus the time spent
        since.
        """
