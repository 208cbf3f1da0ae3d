"""Makes tar and zip files from the entries of a tar stream, which the engine or a chunk reader produces."""

import posixpath
import stat
import tarfile
import time
from collections.abc import Iterator
from typing import Any, Protocol

from backup_engine.far.unpack import ROOT, BoundedTar, exact
from backup_engine.outcome import Outcome
from holdfast.downloads.engine_output import EngineOutput, IncompleteOutput
from holdfast.downloads.entry_filter import EntryFilter
from holdfast.downloads.zip_stream import Member, ZipStream
from holdfast.runner.engine_stream import BLOCK

TAR_BLOCK = tarfile.BLOCKSIZE
MANIFEST_MODE = 0o644
CUT_SHORT = Outcome("failed", "engine.failed", "The engine's output was cut short.")


class Entries(Protocol):
    """The entries of a download, one after the other."""

    def next(self) -> tarfile.TarInfo | None: ...
    def content(self, entry: tarfile.TarInfo) -> Iterator[bytes]:
        """The complete content of the entry read last, or IncompleteOutput."""

    def require_good_end(self) -> None:
        """Raise IncompleteOutput unless all entries have been read."""


class TarEntries:
    """The entries of a tar stream, one after the other. None are kept in memory."""

    def __init__(self, source: EngineOutput) -> None:
        self._source = source
        readable: Any = source  # a stream only needs to be readable
        self._tar = BoundedTar.open(
            fileobj=readable, mode="r|", bufsize=BLOCK, encoding="utf-8", errors="surrogateescape"
        )

    def next(self) -> tarfile.TarInfo | None:
        try:
            entry = self._tar.next()
        except (tarfile.TarError, ValueError, OverflowError) as error:
            raise IncompleteOutput(CUT_SHORT) from error
        self._tar.members.clear()  # type: ignore[attr-defined]  # it keeps them all, for seeking back
        return entry

    def content(self, entry: tarfile.TarInfo) -> Iterator[bytes]:
        """The complete content of the entry read last, or IncompleteOutput."""
        stream: Any = self._tar.fileobj  # positioned after the header read last
        remaining = entry.size
        while remaining:
            try:
                block = stream.read(min(BLOCK, remaining))
            except tarfile.TarError as error:
                raise IncompleteOutput(CUT_SHORT) from error
            if not block:
                raise IncompleteOutput(CUT_SHORT)
            remaining -= len(block)
            yield block

    def require_good_end(self) -> None:
        while self._source.read():
            continue
        self._source.require_good_end()


def zip_blocks(entries: Entries, first: tarfile.TarInfo | None) -> Iterator[bytes]:
    """The entries as a zip file. Its end is written only if the entries are known to be complete."""
    return _gathered(_zip_pieces(entries, first))


def tar_blocks(entries: Entries, first: tarfile.TarInfo | None) -> Iterator[bytes]:
    """The entries as a tar file. Headers are rewritten, so that they contain nothing that was not checked here."""
    return _gathered(_tar_pieces(entries, first))


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Combine the pieces into fewer blocks, because each block sent costs a thread switch."""
    waiting, size = [], 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= BLOCK:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _zip_pieces(entries: Entries, first: tarfile.TarInfo | None) -> Iterator[bytes]:
    entry_filter = EntryFilter()
    with ZipStream() as writer:
        for entry in _passing(entries, first, entry_filter):
            yield from _member(writer, entries, entry)
        entries.require_good_end()
        if entry_filter.count:
            member = Member(entry_filter.manifest_name.encode(), stat.S_IFREG | MANIFEST_MODE, time.time())
            yield from writer.short(member, entry_filter.manifest())
        yield from writer.end()


def _tar_pieces(entries: Entries, first: tarfile.TarInfo | None) -> Iterator[bytes]:
    entry_filter = EntryFilter()
    size = 0
    for entry in _passing(entries, first, entry_filter):
        header = _header(entry)
        size += len(header)
        yield header
        if entry.isreg():
            padding = -entry.size % TAR_BLOCK
            size += entry.size + padding
            yield from entries.content(entry)
            yield bytes(padding)
    entries.require_good_end()
    if entry_filter.count:
        manifest = _manifest_in_tar(entry_filter)
        size += len(manifest)
        yield manifest
    yield bytes(2 * TAR_BLOCK + -(size + 2 * TAR_BLOCK) % tarfile.RECORDSIZE)


def _passing(entries: Entries, first: tarfile.TarInfo | None, entry_filter: EntryFilter) -> Iterator[tarfile.TarInfo]:
    entry = first
    while entry is not None:
        if entry_filter.passes(entry):
            yield entry
        entry = entries.next()


def _header(entry: tarfile.TarInfo) -> bytes:
    """The entry's header with all its known fields, in the format of the source: engine 1 writes the older one."""
    is_older = not entry.pax_headers
    entry.pax_headers = {name: value for name, value in entry.pax_headers.items() if _is_kept(name)}
    return entry.tobuf(tarfile.GNU_FORMAT if is_older else tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _is_kept(name: str) -> bool:
    """Whether to keep a header field: times and attributes only, as a name or size would override the checked one."""
    return name in ("mtime", "atime", "ctime") or name.startswith("SCHILY.")


def _manifest_in_tar(entry_filter: EntryFilter) -> bytes:
    content = entry_filter.manifest()
    entry = tarfile.TarInfo(entry_filter.manifest_name)
    entry.size, entry.mode, entry.mtime = len(content), MANIFEST_MODE, int(time.time())
    return entry.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % TAR_BLOCK)


def _member(writer: ZipStream, entries: Entries, entry: tarfile.TarInfo) -> Iterator[bytes]:
    name = exact(entry.name)
    if name == ROOT:
        return
    if entry.isdir():
        yield from writer.short(Member(name + b"/", stat.S_IFDIR | entry.mode, entry.mtime))
    elif entry.issym():
        yield from writer.short(Member(name, stat.S_IFLNK | 0o777, entry.mtime), exact(entry.linkname))
    elif entry.islnk():
        # Zip files have no hard links, and the content was sent with the first name.
        beside = posixpath.relpath(entry.linkname, posixpath.dirname(entry.name) or ".")
        yield from writer.short(Member(name, stat.S_IFLNK | 0o777, entry.mtime), exact(beside))
    elif entry.isreg():
        member = Member(name, stat.S_IFREG | entry.mode, entry.mtime, entry.size)
        yield from writer.streamed(member, entries.content(entry))
