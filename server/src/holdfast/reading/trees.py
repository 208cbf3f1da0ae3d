"""Folders of archives, looked up in the index and read by chunks: the entries of a download, with many small files per
read.
"""

from __future__ import annotations

import stat
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from backup_engine.outcome import Outcome
from holdfast.downloads.engine_output import ClientGone, IncompleteOutput
from holdfast.reading.readers import NotReadable

if TYPE_CHECKING:
    from holdfast.history.chunks.file_chunk import Chunk
    from holdfast.history.entry import Entry
    from holdfast.history.tree import Branch

MOST_ENTRIES = 20_000
"""Entries are kept in memory during a download, about 600 bytes each."""
CHANGED = Outcome("failed", "engine.failed", "The content of a file is not as long as the index says.")
TYPES = {stat.S_IFDIR: tarfile.DIRTYPE, stat.S_IFLNK: tarfile.SYMTYPE, stat.S_IFIFO: tarfile.FIFOTYPE}

ReadChunks = Callable[[Sequence["Chunk"]], Iterator[bytes]]
"""Given the chunks of consecutive files, yield their content in blocks of any size. Raise NotReadable, ClientGone."""


class Tree:
    """The entries of a download, as in the engine's tar stream. The first bytes are read before anything is sent."""

    def __init__(self, branches: list[Branch], depth: int, read: ReadChunks, gone: threading.Event) -> None:
        """Drop the first `depth` components of each name. Raise NotReadable."""
        self._branches = iter(branches)
        self._depth = depth
        self._gone = gone
        blocks = read([chunk for branch in branches for chunk in branch.chunks])
        self._stream = _Stream(blocks)
        self._unread = 0

    def next(self) -> tarfile.TarInfo | None:
        if self._gone.is_set():
            raise ClientGone
        for _ in self._stream.take(self._unread):  # content of an entry that was left out
            continue
        self._unread = 0
        for branch in self._branches:
            name = _cut(branch.entry.path, self._depth)
            if name:
                entry = _tar_entry(branch, name, self._depth)
                self._unread = entry.size
                return entry
        return None

    def content(self, entry: tarfile.TarInfo) -> Iterator[bytes]:
        """Yield the whole content of the entry just returned, or raise IncompleteOutput."""
        size, self._unread = entry.size, 0
        return self._stream.take(size)

    def require_good_end(self) -> None:
        """Do nothing: every entry was delivered in full, since a missing byte would have ended the download earlier."""


class _Stream:
    """The contents of all files, one after another."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._block = memoryview(next(blocks, b""))

    def take(self, size: int) -> Iterator[bytes]:
        while size:
            if not self._block:
                self._block = memoryview(self._next())
            piece = self._block[:size]
            self._block = self._block[size:]
            size -= len(piece)
            yield bytes(piece)

    def _next(self) -> bytes:
        try:
            block = next(self._blocks, None)
        except NotReadable as error:
            raise IncompleteOutput(
                Outcome("failed", "engine.failed", f"The content cannot be read: {error}.")
            ) from error
        if block is None:
            raise IncompleteOutput(CHANGED)
        return block


def _tar_entry(branch: Branch, name: bytes, depth: int) -> tarfile.TarInfo:
    entry: Entry = branch.entry
    made = tarfile.TarInfo(_text(name))
    made.mode = stat.S_IMODE(entry.mode)
    made.uid, made.gid = entry.uid, entry.gid
    made.uname, made.gname = entry.user or "", entry.group or ""
    made.mtime = entry.mtime // 1_000_000
    if branch.same_as is not None:
        made.type, made.linkname = tarfile.LNKTYPE, _text(_cut(branch.same_as, depth))
    elif stat.S_ISREG(entry.mode):
        made.size = entry.size
    else:
        made.type = TYPES[stat.S_IFMT(entry.mode)]
        made.linkname = _text(entry.link) if stat.S_ISLNK(entry.mode) else ""
    return made


def _cut(path: bytes, depth: int) -> bytes:
    return b"/".join(path.split(b"/")[depth:])


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
