"""Prove archives by their chunks: each check has its own process, and runs in its lane and under its lock.

The index is not used. The chunks of a file are read from the archive's metadata, whose own chunks are verified by their
ids, starting from the id of the archive. So a wrong index cannot make a check claim more than is true.
"""

import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]

from backup_engine.command import CalledAgent
from backup_engine.frozen import frozen
from holdfast.archives.archive_reader import open_helper
from holdfast.archives.repository_not_opened import RepositoryNotOpened
from holdfast.history.chunks.file_chunk import Chunk, unpacked
from holdfast.history.chunks.items import ItemParser, LongList
from holdfast.history.chunks.route import RouteChooser
from holdfast.history.entry import Entry, flaw_of, printable
from holdfast.history.errors import HistoryError
from holdfast.maintenance.by_chunks import ArchivedFile, NotByChunks, OnRead
from holdfast.repositories.work import RepositoryWork

if TYPE_CHECKING:
    from holdfast.history.chunks.archive_chunks import ArchiveChunks

AT_ONCE_BYTES = 4 << 20
AT_ONCE_CHUNKS = 256
FILES_AT_ONCE = 1000
MOST_REMEMBERED = 100_000
"""Number of proven chunks that are remembered, so that they are not read again for other files; about 20 MB.

When it is exceeded, chunks are read again, which is only slower.
"""
KEPT_BYTES = 32 << 10
"""Longest chunk list that is kept for a file, in bytes: some 800 chunks, 2 GB of content."""
REPAIRED = b"chunks_healthy"
"""Part of the item of a file that lost content in a repair. If it occurs in a file name, the engine does the check."""


class _Unknown:
    pass


_TEXT, _NUMBER, _TIME = (bytes, NoneType), (int, NoneType), (int, bytes, msgpack.Timestamp)
_TYPES: dict[bytes, Any] = {
    **dict.fromkeys((b"path", b"source", b"target", b"hlid"), bytes),
    **dict.fromkeys((b"acl_access", b"acl_default", b"acl_extended", b"acl_nfs4"), bytes),
    **dict.fromkeys((b"user", b"group"), _TEXT),
    **dict.fromkeys((b"uid", b"gid"), _NUMBER),
    **dict.fromkeys((b"mode", b"size", b"rdev", b"bsdflags", b"inode", b"nlink"), int),
    **dict.fromkeys((b"mtime", b"atime", b"ctime", b"birthtime"), _TIME),
    b"chunks": (list, LongList),
    b"xattrs": dict,
    b"hardlink_master": bool,
}
"""The fields of items, and the types that the engines store in them."""


@frozen
class ArchiveReaders:
    chooser: RouteChooser

    @contextmanager
    def opened(self, work: RepositoryWork, archive_id: str) -> Iterator["OpenedArchive"]:
        try:
            with ExitStack() as stack:
                yield OpenedArchive(self._helper(work, stack), archive_id)
        except RepositoryNotOpened as refused:
            raise NotByChunks(refused.outcome.message or "the engine refuses") from refused
        except HistoryError as error:
            raise NotByChunks(str(error)) from error

    def _helper(self, work: RepositoryWork, stack: ExitStack) -> "ArchiveChunks":
        location = work.location
        if isinstance(location.machine, CalledAgent):
            raise NotByChunks("an agent opens the repository")
        if location.rclone is not None or (work.engine.program.major != 1 and not location.path.startswith("/")):
            raise NotByChunks("the repository is not on the engine's machine")
        # The engine has just listed the archives, and the identity of the repository was compared then.
        chunks, reason = open_helper(work, self.chooser, stack, partial(_helper_of, work), make_sure=_nothing)
        if chunks is None:
            raise NotByChunks(reason)
        if location.engine_id not in (None, chunks.repository_id):
            raise NotByChunks("another repository is in its place")
        return chunks


def _nothing() -> None:
    pass


def _helper_of(work: RepositoryWork, *arguments: object, **named: object) -> "ArchiveChunks":
    from holdfast.history.chunks.archive_chunks import ArchiveChunks  # loads numpy, which an idle service does without

    chunks = ArchiveChunks(*arguments, **named)  # type: ignore[arg-type] # those of any helper
    chunks.is_abandoned = lambda: work.context.is_cancelled() or work.context.is_stopping()
    return chunks


class _StrictParser(ItemParser):
    """Rejects items on which a restore by the engine might fail, even if an index could ignore the flaw."""

    def _entry(self, item: dict[bytes, Any]) -> Entry:
        for name, value in item.items():
            if not isinstance(value, _TYPES.get(name, _Unknown)):
                raise TypeError(f"a field is not one that the engine writes: {name!r}")
        if not all(isinstance(part, bytes | None) for pair in item.get(b"xattrs", {}).items() for part in pair):
            raise TypeError("an extended attribute is not bytes")
        entry = super()._entry(item)
        # The engine reads the chunks of any kind of item, and compares their size.
        if b"chunks" in item and not entry.chunks and (item[b"chunks"] or item.get(b"size")):
            raise TypeError("there are chunks that do not make up the content of a file")
        return entry


class OpenedArchive:
    def __init__(self, chunks: "ArchiveChunks", archive_id: str) -> None:
        self._chunks = chunks
        self._archive_id = archive_id
        self._parser = _StrictParser(_no_content, chunks.latest_nanoseconds, chunks.major)
        self._known: set[Chunk] = set()

    @property
    def share_read(self) -> float:
        return self._chunks.share_read

    def listed(self, *, keeping: bool = False) -> Iterator[ArchivedFile]:
        for position, item in enumerate(self._chunks.items(self._archive_id)):
            if REPAIRED in item:
                raise NotByChunks("a repair may have replaced content of a file")
            entry = self._parser.parse(item)
            if entry is not None:
                if (flaw := flaw_of(entry)) is not None:
                    raise NotByChunks(flaw)
                yield _archived_file(position, entry, KEPT_BYTES if keeping else None)

    def proven(self, files: Iterable[ArchivedFile], on_read: OnRead) -> Iterator[ArchivedFile]:
        whole: list[ArchivedFile] = []
        group: list[Chunk] = []
        size = 0
        for file in files:
            for chunk in _chunks_of(file):
                if size + chunk.size > AT_ONCE_BYTES or len(group) == AT_ONCE_CHUNKS:
                    self._prove(group)
                    on_read(file, size)
                    yield from whole
                    whole, group, size = [], [], 0
                size += chunk.size
                if chunk not in self._known:
                    group.append(chunk)
            whole.append(file)
            if len(whole) == FILES_AT_ONCE:
                self._prove(group)
                on_read(file, size)
                yield from whole
                whole, group, size = [], [], 0
        self._prove(group)
        if whole:
            on_read(whole[-1], size)
        yield from whole

    def content(self, file: ArchivedFile) -> Iterator[bytes]:
        return (self._chunks.content([chunk]) for chunk in _chunks_of(file))

    def _prove(self, group: list[Chunk]) -> None:
        if not group:
            return
        self._chunks.prove(group)
        if len(self._known) > MOST_REMEMBERED:
            self._known.clear()
        self._known.update(group)


def _archived_file(position: int, entry: Entry, most: int | None) -> ArchivedFile:
    path, chunks = entry.path, entry.chunks
    if entry.size and not chunks and stat.S_ISREG(entry.mode) and not entry.link:
        raise NotByChunks("the sizes of the chunks of a file do not make up its size")
    letter = "h" if entry.is_hard_link else stat.filemode(entry.mode)[0]
    kept = chunks if most is None or len(chunks) <= most else None
    return ArchivedFile(letter, entry.size, printable(path).decode(), position, path, kept)


def _chunks_of(file: ArchivedFile) -> Iterator[Chunk]:
    assert file.chunks is not None
    return unpacked(file.chunks)


def _no_content(_ids: Iterable[bytes]) -> int:
    """Return a constant: the content's name is not needed here."""
    return 0
