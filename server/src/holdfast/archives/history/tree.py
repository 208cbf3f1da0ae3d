"""Everything at some paths of an archive and below them, with the chunks of its files: what a folder's download is made of."""

import stat
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from holdfast.archives.history import bits, columns
from holdfast.archives.history.browse import in_archive
from holdfast.archives.history.chunk_table import Chunk, chunks_of_all
from holdfast.archives.history.entry import INEXACT, Entry
from holdfast.archives.history.excludes import Excludes
from holdfast.archives.history.hardlinks import behind_links
from holdfast.archives.history.ingest import all_chunks
from holdfast.archives.history.names import ROOT, directory_of
from holdfast.archives.history.presence import path_id, version_in
from holdfast.archives.history.schema import DIRECTORY_ENTRY, DIRECTORY_PARENT, VERSION_LINK
from holdfast.archives.history.store import ArchiveRow, Found, Snapshot

MOST_CHUNKS = 100_000
"""Of all files together; 250 GB of large files. Each takes about 150 bytes of memory."""
_NOTHING_EXCLUDED = Excludes().fingerprint
_WITHOUT_CONTENT = (stat.S_IFDIR, stat.S_IFLNK, stat.S_IFIFO)


class Branch(NamedTuple):
    """An entry of a tree. Of the names of one file, the first carries the content; others only name it."""

    entry: Entry  # with the size of its content, also for a hard link
    chunks: Sequence[Chunk] = ()
    same_as: bytes | None = None  # path of the name that carries the content


def tree(
    snapshot: Snapshot, archive: ArchiveRow, paths: Sequence[bytes], without: Collection[bytes], most: int
) -> list[Branch] | None:
    """Folders before what is in them; without paths the whole archive. None of `paths` may be below another.

    None unless all of it is known exactly: patterns that are left out, a path that is not there, a file whose chunks are
    unknown, a device (its number is not kept), and more than `most` entries need the engine.
    """
    if archive.excludes != _NOTHING_EXCLUDED:
        return None
    rows: list[Found] = []
    for row in _Walk(snapshot, archive, frozenset(without)).rows(paths):
        if row is None or len(rows) == most or not _is_exact(row.entry):
            return None
        rows.append(row)
    return _with_chunks(snapshot, archive, rows)


def _is_exact(entry: Entry) -> bool:
    kind = stat.S_IFMT(entry.mode)
    return kind in _WITHOUT_CONTENT or (kind == stat.S_IFREG and not entry.flags & INEXACT)


class _Walk:
    def __init__(self, snapshot: Snapshot, archive: ArchiveRow, without: frozenset[bytes]) -> None:
        self._snapshot = snapshot
        self._archive = archive
        self._without = without
        parent = columns.load(snapshot, DIRECTORY_PARENT)
        self._own = columns.load(snapshot, DIRECTORY_ENTRY)
        self._by_parent = np.argsort(parent, kind="stable")
        self._parents = parent[self._by_parent]

    def rows(self, paths: Sequence[bytes]) -> Iterator[Found | None]:
        """Each entry of the archive; None for a path that is not there. Parents that it does not list are left out."""
        for path in paths or (ROOT,):
            number = self._snapshot.find_directories([directory_of(path)]).get(directory_of(path))
            own = self._entry(path) if path else None
            if own is not None:
                yield own
            elif path and number is None:
                yield None
            if number is not None:
                yield from self._below(number)

    def _entry(self, path: bytes) -> Found | None:
        return version_in(self._snapshot, self._archive.id, path_id(self._snapshot, path))

    def _below(self, directory: int) -> Iterator[Found]:
        waiting = [iter(self._in(directory))]
        while waiting:
            found, below = next(waiting[-1], (None, 0))
            if found is None:
                waiting.pop()
                continue
            if found.entry.path.strip(b"/") in self._without:
                continue
            if not found.entry.is_implicit:
                yield found
            if below:
                waiting.append(iter(self._in(below)))

    def _in(self, directory: int) -> Iterator[tuple[Found, int]]:
        """The entries of a directory by name, each with the directory that it is the entry of, 0 if it is none's."""
        rows = self._snapshot.versions_in_directory(directory)
        inside = in_archive(self._snapshot, self._archive, [version for _, version in rows])
        names = sorted(row for row, is_member in zip(rows, inside, strict=True) if is_member)
        found = {row.version: row for row in self._snapshot.entries(version for _, version in names)}
        first, end = np.searchsorted(self._parents, [directory, directory + 1])
        children = self._by_parent[first:end]
        own = dict(zip(columns.take(self._own, children).tolist(), children.tolist(), strict=True))
        for _, version in names:
            row = found[version]
            yield row, own.get(row.path, 0)


def _with_chunks(snapshot: Snapshot, archive: ArchiveRow, rows: list[Found]) -> list[Branch] | None:
    held = _held(snapshot, archive, [row for row in rows if row.entry.is_hard_link])
    if held is None:
        return None
    files = [held.get(row.version, row) for row in rows if stat.S_ISREG(row.entry.mode)]
    with_content = {file.version: file.entry.size for file in files if file.entry.size}
    chunks = chunks_of_all(snapshot, with_content, MOST_CHUNKS)
    if chunks is None:
        return None
    named: dict[int, bytes] = {}
    branches = []
    for row in rows:
        if not stat.S_ISREG(row.entry.mode):
            branches.append(Branch(row.entry))
            continue
        file = held.get(row.version, row)
        first = named.setdefault(file.version, row.entry.path)
        entry = row.entry._replace(size=file.entry.size, link=b"")
        if first == row.entry.path:
            branches.append(Branch(entry, chunks.get(file.version, ())))
        else:
            branches.append(Branch(entry, same_as=first))
    return branches


def _held(snapshot: Snapshot, archive: ArchiveRow, pointers: list[Found]) -> dict[int, Found] | None:
    """The names that hold the contents of hard links, by the version of the link; None if one of them is not there."""
    if not pointers:
        return {}
    versions = np.fromiter((row.version for row in pointers), np.uint32, len(pointers))
    members = bits.decode(snapshot.bits(archive.id, all_chunks(snapshot)))
    holders = behind_links(snapshot, versions, columns.load(snapshot, VERSION_LINK), members)
    found = {row.version: row for row in snapshot.entries(set(holders) - {0})}
    held = {row.version: found.get(holder) for row, holder in zip(pointers, holders, strict=True)}
    known = {version: row for version, row in held.items() if row is not None and _holds_content(row.entry)}
    return known if len(known) == len(held) else None


def _holds_content(entry: Entry) -> bool:
    return stat.S_ISREG(entry.mode) and not entry.is_hard_link and not entry.flags & INEXACT
