"""Look up archived files in the index, and read their content by chunks."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from backup_engine.frozen import frozen
from backup_engine.outcome import Outcome
from holdfast.archives.content_tags import etag_of
from holdfast.archives.indexes import Indexes
from holdfast.downloads.engine_output import IncompleteOutput
from holdfast.downloads.opening import shared_depth
from holdfast.errors import Unavailable
from holdfast.history.chunks.file_chunks import Part
from holdfast.history.errors import ArchiveNotIndexed
from holdfast.reading.readers import NotReadable, Readers
from holdfast.reading.trees import MOST_ENTRIES, Tree
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.archived_paths import outermost
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import HiddenPaths

if TYPE_CHECKING:
    from holdfast.history.chunks.file_chunk import Chunk
    from holdfast.history.index import HistoryIndex, StoredFile
    from holdfast.history.tree import Branch

AT_ONCE_BYTES = 1 << 20
"""Bytes of small chunks that are requested together; a larger chunk is requested alone."""
AT_ONCE_CHUNKS = 256
LARGEST_CHUNK = 8 << 20
"""The engine's default for the largest chunk. Larger chunks are not read into memory."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class Contents:
    indexes: Indexes
    readers: Readers

    def find(self, repository: Repository, archive: Archive, path: bytes) -> Content | None:
        """Look up a path in the index. Return None if the archive is not indexed or does not contain the path."""

        def ask(index: HistoryIndex | None) -> StoredFile | None:
            try:
                return index.file(archive.engine_id, path) if index is not None else None
            except ArchiveNotIndexed:
                return None

        try:
            found = self.indexes.ask(repository.uuid, ask)
        except Unavailable:
            return None
        if found is None:
            return None
        is_readable = _fit(found.chunks) and self.readers.can_serve(repository)
        return Content(self.readers, repository, archive, found, is_readable)

    def tree(
        self,
        repository: Repository,
        archive: Archive,
        paths: Sequence[bytes],
        hidden: HiddenPaths,
        gone: threading.Event,
    ) -> Tree | None:
        """Return everything at and below these paths, read by chunks; None if only the engine can do that, or if there
        are too many entries.
        """
        if repository.engine_version != 1 or not self.readers.can_serve(repository):
            return None  # tar streams of engine 2 contain attributes that the index does not store
        roots = outermost(list(paths))
        without = {name for path in roots or (b"",) for name in hidden.below(path)}

        def ask(index: HistoryIndex | None) -> list[Branch] | None:
            try:
                found = index.tree(archive.engine_id, roots, without=without, most=MOST_ENTRIES) if index else None
            except ArchiveNotIndexed:
                return None
            return found

        def read(chunks: Sequence[Chunk]) -> Iterator[bytes]:
            has_begun = False
            for group in parts_of(chunks, 0, sum(chunk.size for chunk in chunks)):
                yield self.readers.read(repository, group, gone, has_begun=has_begun)
                has_begun = True

        try:
            branches = self.indexes.ask(repository.uuid, ask)
            if branches is None or not all(_fit(branch.chunks) for branch in branches):
                return None
            return Tree(branches, shared_depth(paths), read, gone)
        except (Unavailable, NotReadable):
            return None


@frozen
class Content:
    readers: Readers
    repository: Repository
    archive: Archive
    stored: StoredFile
    is_readable: bool
    """Whether parts of the content can be read without the rest, provided that the repository is in order."""

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.stored.entry.mode) and not self.stored.entry.is_hard_link

    @property
    def size(self) -> int:
        return self.stored.entry.size

    @property
    def etag(self) -> str:
        return etag_of(self.stored.entry, self.archive)

    @property
    def modified(self) -> datetime:
        return EPOCH + timedelta(microseconds=self.stored.entry.mtime)

    def blocks(self, start: int, end: int, gone: threading.Event) -> Iterable[bytes] | None:
        """Return the bytes from `start` to `end`: a list if they fit into one group, else an iterator.

        The first group is already read. Return None if the content cannot be read.
        """
        if not self.is_readable:
            return None
        groups = parts_of(self.stored.chunks or [], start, end)
        first = next(groups, None)
        if first is None:
            return []
        try:
            block = self.readers.read(self.repository, first, gone)
        except NotReadable:
            return None
        second = next(groups, None)
        return [block] if second is None else self._blocks(block, chain((second,), groups), gone)

    def _blocks(self, first: bytes, groups: Iterator[list[Part]], gone: threading.Event) -> Iterator[bytes]:
        yield first
        for group in groups:
            try:
                yield self.readers.read(self.repository, group, gone, has_begun=True)
            except NotReadable as error:
                raise IncompleteOutput(
                    Outcome("failed", "engine.failed", f"The content cannot be read: {error}.")
                ) from error


def _fit(chunks: Sequence[Chunk] | None) -> bool:
    return chunks is not None and all(chunk.size <= LARGEST_CHUNK for chunk in chunks)


def parts_of(chunks: Sequence[Chunk], start: int, end: int) -> Iterator[list[Part]]:
    """Yield the parts of chunks that make up the bytes from `start` to `end`, in groups that are requested together."""
    group: list[Part] = []
    size = at = 0
    for chunk in chunks:
        begin, until = max(start - at, 0), min(end - at, chunk.size)
        at += chunk.size
        if begin >= until:
            continue
        if group and (size + until - begin > AT_ONCE_BYTES or len(group) == AT_ONCE_CHUNKS):
            yield group
            group, size = [], 0
        group.append(Part(chunk.id, chunk.size, begin, until))
        size += until - begin
    if group:
        yield group
