"""Derives which files of an archive are proven from the engine's messages during a dry-run extraction.

The engine reads each chunk of a file, authenticates or hashes it, and compares the total length with the size in the
archive's own record. It names each entry before reading it and warns about unreadable ones. So an entry is proven when
the next one is named, or the run has succeeded, without a warning about it in between.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from backup_engine.events import Event, LogMessage
from backup_jobs.work import readable
from holdfast.maintenance.file_records import FileRecord

LIST_LOGGER = "borg.output.list"
READ = "+ "
NEVER_MATCHED = re.compile(r"Include pattern '(?P<pattern>.*)' never matched\.", re.DOTALL)
TRACEBACK = "Traceback"
TROUBLE = frozenset({"WARNING", "ERROR", "CRITICAL"})
MOST_PROBLEMS = 1000


class Proof:
    """Follows the engine through the entries that it should read, in archive order."""

    def __init__(self, expected: Iterable[FileRecord], *, marked: bool = False) -> None:
        """With `marked`, the engine names all entries of the archive and marks those that it reads with a plus sign."""
        self._marked = marked
        self._expected: Iterator[FileRecord] = iter(expected)
        self._present: FileRecord | None = None
        self._blamed = False
        self._in_step = True
        self.files = 0
        self.bytes = 0
        self.entries = 0
        self.problems: list[dict[str, Any]] = []
        self.problem_count = 0
        self.never_matched: list[str] = []

    def on_event(self, event: Event) -> None:
        if not isinstance(event, LogMessage):
            return
        if event.name == LIST_LOGGER:
            self._name(readable(event.message))
        elif event.level in TROUBLE and event.message.strip():
            self._blame(event)

    def end(self, *, well: bool) -> None:
        """End the proof. Unless the run succeeded, the last entry may not have been read completely."""
        if well:
            self._settle()
            if self._in_step and (missing := next(self._expected, None)) is not None:
                self._add_problem(missing.path, "The engine did not read it, although it is in the archive.")
        self._present = None

    def _name(self, line: str) -> None:
        if not self._marked:
            self._begin(line)
        elif line.startswith(READ):
            self._begin(line.removeprefix(READ))
        else:
            self._settle()

    def _begin(self, path: str) -> None:
        self._settle()
        self._present = next(self._expected, None) if self._in_step else None
        self._blamed = False
        if self._in_step and (self._present is None or self._present.path != path):
            self._in_step = False
            self._present = None
            self._add_problem(path, "The engine read it, but the archive's listing has a different entry.")

    def _settle(self) -> None:
        if self._present is None or self._blamed:
            return
        self.entries += 1
        if self._present.is_file:
            self.files += 1
            self.bytes += self._present.size
        self._present = None

    def _blame(self, event: LogMessage) -> None:
        if match := NEVER_MATCHED.fullmatch(event.message):
            self.never_matched.append(readable(match["pattern"]))
            return
        self._blamed = True
        message = readable(event.message).strip()
        if message.startswith(TRACEBACK):  # details of an error that was already logged
            return
        path = self._present.path if self._present else None
        self._add_problem(path, message.removeprefix(f"{path}: ").splitlines()[0])

    def _add_problem(self, path: str | None, message: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append({"path": path, "message": message})
