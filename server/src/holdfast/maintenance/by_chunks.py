"""Prove files of an archive by their chunks: the archive's metadata lists them, and each is read and verified.

Any irregularity raises `NotByChunks`. Then the engine does the check, and its findings are the ones reported.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from backup_engine.frozen import frozen
from holdfast.api.parts import Part
from holdfast.kit import clock, request_priority
from holdfast.maintenance.file_records import Extent, FileRecord, choose, extent_of, unsafe_paths
from holdfast.operations.context import Context
from holdfast.repositories.work import RepositoryWork

LARGEST_CANARY = 64 << 20
COURTESY_SECONDS = 0.02
FILES_BETWEEN = 1000
"""Number of entries between two pauses that let requests go first."""
LISTING_PERCENT, LISTING_PERCENT_OF_SAMPLE = 10.0, 50.0
"""Share of the progress for reading the metadata."""
MAY_BE_UNSAFE = re.compile(rb"/[./]|\A[./]|/\Z")


class NotByChunks(Exception):
    """The engine has to do the check; the message says why."""


@frozen
class ArchivedFile(FileRecord):
    """A file entry from the archive's metadata."""

    position: int
    """Its number in the archive."""
    exact: bytes
    chunks: bytes | None
    """The chunks of its content; None if the list is too long to be kept and is read again when needed."""


OnRead = Callable[[ArchivedFile, int], object]
"""Called often with the file being read and the number of bytes read since the last call.

Any exception it raises ends the reading.
"""


class OpenedArchive(Protocol):
    """An archive that a separate process reads. Every method raises NotByChunks."""

    @property
    def share_read(self) -> float:
        """The share of the metadata that has been read, from 0 to 1."""

    def listed(self, *, keeping: bool = False) -> Iterator[ArchivedFile]:
        """All entries in archive order, from its metadata. `keeping`: the caller keeps many of them."""

    def proven(self, files: Iterable[ArchivedFile], on_read: OnRead) -> Iterator[ArchivedFile]:
        """Read and verify every chunk of these files; yield each file once it is verified."""

    def content(self, file: ArchivedFile) -> Iterator[bytes]: ...


class ArchiveReaders(Protocol):
    def opened(self, work: RepositoryWork, archive_id: str) -> AbstractContextManager[OpenedArchive]:
        """Open an archive for a running operation that holds its repository's lane. Raise NotByChunks."""


ARCHIVE_READERS = Part[ArchiveReaders]("archive_readers")


@frozen
class CheckScope:
    """What to prove: exact `paths`; without them the whole archive, or a `sample` of its files."""

    paths: tuple[bytes, ...] = ()
    sample: int | None = None
    seed: str = ""
    is_canary: bool = False


def read_by_chunks(
    work: RepositoryWork, readers: ArchiveReaders, archive_id: str, wanted: CheckScope
) -> Mapping[str, Any]:
    """Return what was proven, or the `reason` why the engine has to check. Raise Cancelled, Stopping."""
    context = work.context
    try:
        if _are_nested(wanted.paths):
            raise NotByChunks("paths are given that lie within each other")
        with readers.opened(work, archive_id) as archive:
            return {**_Check(context, archive, wanted).run(), "at": clock.now().isoformat()}
    except NotByChunks as obstacle:
        context.require_going_on()
        return {"reason": str(obstacle)}


class _Check:
    def __init__(self, context: Context, archive: OpenedArchive, wanted: CheckScope) -> None:
        self._context = context
        self._archive = archive
        self._wanted = wanted
        self._listing_percent = LISTING_PERCENT if wanted.sample is None else LISTING_PERCENT_OF_SAMPLE
        self._checked: Extent | None = None
        self._read_bytes = self._proven_files = self._proven_bytes = 0

    def run(self) -> Mapping[str, Any]:
        if self._wanted.is_canary:
            return self._canary()
        if self._wanted.sample is not None:
            checked, whole = self._sample(self._wanted.sample)
        else:
            checked = self._checked = extent_of(self._selected())
            self._prove(file for file in self._selected() if file.is_file)
            whole = checked
        if (self._proven_files, self._proven_bytes) != (checked.files, checked.bytes):
            raise NotByChunks("the archive's metadata is not the same when it is read again")
        return {
            "files": checked.files,
            "bytes": checked.bytes,
            "whole": None if self._wanted.paths else [whole.files, whole.bytes],
        }

    def _sample(self, number: int) -> tuple[Extent, Extent]:
        whole = _Count()
        chosen = choose(whole.counted(self._listed(keeping=True)), number, self._wanted.seed)
        checked = self._checked = extent_of(chosen)
        large = {file.position for file in chosen if file.chunks is None}
        self._prove(file for file in chosen if file.chunks is not None)
        if large:
            self._prove(file for file in self._listed() if file.position in large)
        return checked, Extent(whole.files, whole.bytes)

    def _prove(self, files: Iterable[ArchivedFile]) -> None:
        for file in self._archive.proven(files, self._note):
            self._proven_files += 1
            self._proven_bytes += file.size

    def _note(self, file: ArchivedFile, size: int) -> None:
        self._context.require_going_on()
        self._read_bytes += size
        total = self._checked.bytes if self._checked is not None else 0
        share = min(1.0, self._read_bytes / max(1, total))
        percent = self._listing_percent + (99 - self._listing_percent) * share
        self._report(percent, f"Reading {file.path}", current=self._read_bytes, total=total)

    def _canary(self) -> Mapping[str, Any]:
        found: list[ArchivedFile] = []
        hashed = hashlib.sha256()
        for record in self._selected():
            found.append(record)
            if len(found) > 1 or not record.is_file or record.size > LARGEST_CANARY:
                raise NotByChunks("it is not a small file")
            for block in self._archive.content(record):
                hashed.update(block)
                self._context.require_going_on()
        return {"sha256": hashed.hexdigest(), "size": found[0].size}

    def _selected(self) -> Iterator[ArchivedFile]:
        """Entries at and below the wanted paths. Raise NotByChunks if the archive lacks one of the paths."""
        missing = set(self._wanted.paths)
        wanted = frozenset(missing)
        for record in self._listed():
            if not wanted:
                yield record
            elif (path := _within(record.exact, wanted)) is not None:
                missing.discard(path)
                yield record
        if missing:
            raise NotByChunks("a path is not in the archive")

    def _listed(self, *, keeping: bool = False) -> Iterator[ArchivedFile]:
        for record in self._archive.listed(keeping=keeping):
            if MAY_BE_UNSAFE.search(record.exact) and any(unsafe_paths([record])):
                raise NotByChunks("the archive holds names that no restore writes")
            if record.position % FILES_BETWEEN == 0:
                self._between(record)
            yield record

    def _between(self, record: ArchivedFile) -> None:
        self._context.require_going_on()
        request_priority.give_way_for(COURTESY_SECONDS)
        if self._checked is None:
            self._report(self._listing_percent * self._archive.share_read, f"Looking at {record.path}")

    def _report(self, percent: float, message: str, **more: int) -> None:
        self._context.report(progress_percent=round(percent, 1), message=message, **more)


class _Count:
    """Counts the files that pass through it."""

    def __init__(self) -> None:
        self.files = self.bytes = 0

    def counted(self, records: Iterable[ArchivedFile]) -> Iterator[ArchivedFile]:
        for record in records:
            if record.is_file:
                self.files += 1
                self.bytes += record.size
            yield record


def exact_paths(paths: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(os.fsencode(path.strip("/")) for path in paths)


def _within(path: bytes, wanted: frozenset[bytes]) -> bytes | None:
    """The wanted path that equals this path or is a parent of it."""
    if path in wanted:
        return path
    at = path.rfind(b"/")
    while at > 0:
        if path[:at] in wanted:
            return path[:at]
        at = path.rfind(b"/", 0, at)
    return None


def _are_nested(paths: tuple[bytes, ...]) -> bool:
    wanted = frozenset(paths)
    return len(wanted) < len(paths) or any(_within(path.rpartition(b"/")[0], wanted) is not None for path in paths)
