"""Files and zip files made of the tar stream that the engine writes."""

import posixpath
import stat
import tarfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from backup_engine.outcome import Outcome
from holdfast.restore.download.zip_stream import Member, ZipStream
from holdfast.restore.source import BrokenOff, Source
from holdfast.runner.stream import BLOCK

CUT_SHORT = Outcome("failed", "engine.failed", "The engine's output was cut short.")


class TarEntries:
    """The entries of a tar stream, one after the other, none remembered."""

    def __init__(self, source: Source) -> None:
        readable: Any = source  # reading is all that a stream needs
        self._tar = tarfile.open(  # noqa: SIM115 -- it lives as long as its source
            fileobj=readable, mode="r|", bufsize=BLOCK, encoding="utf-8", errors="surrogateescape"
        )

    def next(self) -> tarfile.TarInfo | None:
        try:
            entry = self._tar.next()
        except tarfile.TarError as error:
            raise BrokenOff(CUT_SHORT) from error
        self._tar.members.clear()  # type: ignore[attr-defined]  # it keeps them all, for those who want to go back
        return entry

    def content(self, entry: tarfile.TarInfo) -> Iterator[bytes]:
        """The whole content of the entry just read, or BrokenOff."""
        file = self._tar.extractfile(entry)
        if file is None:
            return
        remaining = entry.size
        with closing(file):
            while remaining:
                try:
                    block = file.read(min(BLOCK, remaining))
                except tarfile.TarError as error:
                    raise BrokenOff(CUT_SHORT) from error
                if not block:
                    raise BrokenOff(CUT_SHORT)
                remaining -= len(block)
                yield block


def zip_blocks(source: Source, entries: TarEntries, first: tarfile.TarInfo | None) -> Iterator[bytes]:
    """The entries as a zip file; its end is only written when the engine says that it has written all."""
    return _gathered(_zip_pieces(source, entries, first))


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer blocks: each that is sent costs a change of threads."""
    waiting, size = [], 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= BLOCK:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _zip_pieces(source: Source, entries: TarEntries, first: tarfile.TarInfo | None) -> Iterator[bytes]:
    with ZipStream() as writer:
        entry = first
        while entry is not None:
            yield from _member(writer, entries, entry)
            entry = entries.next()
        while source.read():
            continue
        source.require_good_end()
        yield from writer.end()


def _member(writer: ZipStream, entries: TarEntries, entry: tarfile.TarInfo) -> Iterator[bytes]:
    name = entry.name.encode("utf-8", "surrogateescape")
    if entry.isdir():
        yield from writer.short(Member(name + b"/", stat.S_IFDIR | entry.mode, entry.mtime))
    elif entry.issym():
        target = entry.linkname.encode("utf-8", "surrogateescape")
        yield from writer.short(Member(name, stat.S_IFLNK | 0o777, entry.mtime), target)
    elif entry.islnk():
        # A zip file knows no hard links, and the content went by with the first name.
        beside = posixpath.relpath(entry.linkname, posixpath.dirname(entry.name) or ".")
        target = beside.encode("utf-8", "surrogateescape")
        yield from writer.short(Member(name, stat.S_IFLNK | 0o777, entry.mtime), target)
    elif entry.isreg():
        member = Member(name, stat.S_IFREG | entry.mode, entry.mtime, entry.size)
        yield from writer.streamed(member, entries.content(entry))
