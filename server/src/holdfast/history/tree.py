"""Everything at and below some paths of an archive, with the chunks of its files, for the download of a folder."""

import stat
from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from holdfast.history import bits, columns
from holdfast.history.browse import in_archive
from holdfast.history.changes import directories_below
from holdfast.history.chunk_table import chunks_of_all
from holdfast.history.chunks.file_chunk import Chunk
from holdfast.history.entry import INEXACT, Entry
from holdfast.history.excludes import Excludes
from holdfast.history.hardlinks import behind_links
from holdfast.history.ingest import all_chunks
from holdfast.history.names import ROOT, directory_of
from holdfast.history.presence import path_id
from holdfast.history.schema import DIRECTORY_PARENT, PATH_DIRECTORY, VERSION_LINK
from holdfast.history.store import ArchiveRow, Snapshot, VersionRow

MOST_CHUNKS = 100_000
"""For all files together; 250 GB of large files. Each chunk takes about 150 bytes of memory."""
_MOST_PATHS = 100
_PATHS_OF_ALL_ARCHIVES = 5
"""Factor by which more paths may have been in these folders over time."""
_NOTHING_EXCLUDED = Excludes().fingerprint
_KINDS = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFIFO)


class Branch(NamedTuple):
    """An entry of a tree. If a file has several names, the first one has the content; the others refer to it."""

    entry: Entry  # with the size of its content, even for a hard link
    chunks: Sequence[Chunk] = ()
    same_as: bytes | None = None  # path of the name with the content


def tree(
    snapshot: Snapshot, archive: ArchiveRow, paths: Sequence[bytes], without: Collection[bytes], most: int
) -> list[Branch] | None:
    """Return the entries, folders before their content; without paths, the whole archive. Paths must not be nested.

    Return None unless everything is known exactly. The engine is needed if patterns are excluded, a path is missing,
    the chunks of a file are unknown, there is a device (its number is not stored), or there are more than `most`
    entries.
    """
    if archive.excludes != _NOTHING_EXCLUDED or len(paths) > _MOST_PATHS:
        return None
    versions = _versions(snapshot, archive, paths, most)
    if versions is None or len(versions) > most:
        return None
    rows = [row for row in snapshot.entries(versions) if not _is_at(row.entry.path.strip(b"/"), without)]
    if not all(_is_exact(row.entry) for row in rows):
        return None
    rows.sort(key=lambda row: _place(row.entry.path))
    places = [_place(row.entry.path) for row in rows]
    if not all(_is_there(places, path) for path in paths):
        return None
    return _with_chunks(snapshot, archive, rows)


def _versions(snapshot: Snapshot, archive: ArchiveRow, paths: Sequence[bytes], most: int) -> list[int] | None:
    """Return the archive's versions at and below these paths; None if a path was never indexed or there are far too
    many.
    """
    parent = columns.load(snapshot, DIRECTORY_PARENT)
    inside = np.zeros(len(parent), np.bool_)
    wanted: list[int] = []
    for path in paths or (ROOT,):
        number = snapshot.find_directories([directory_of(path)]).get(directory_of(path))
        own = path_id(snapshot, path) if path else 0
        if number is None and not own:
            return None
        wanted += [own] if own else []
        if number is not None:
            inside |= directories_below(number, parent)
    if inside.any():
        wanted += np.flatnonzero(columns.take(inside, columns.load(snapshot, PATH_DIRECTORY))).tolist()
    if len(wanted) > _PATHS_OF_ALL_ARCHIVES * most:
        return None
    versions = np.array([version for _, version in snapshot.versions_of_paths(set(wanted))], np.uint32)
    found: list[int] = versions[in_archive(snapshot, archive, versions)].tolist()
    return found


def _place(path: bytes) -> bytes:
    """Return a sort key that puts a folder right before its content."""
    return path.replace(b"/", b"\0")


def _is_there(places: list[bytes], path: bytes) -> bool:
    """Return whether one of the sorted places is at or below a path."""
    wanted = _place(path)
    at = bisect_left(places, wanted)
    if at < len(places) and places[at] == wanted:
        return True
    at = bisect_left(places, wanted + b"\0")
    return at < len(places) and places[at].startswith(wanted + b"\0")


def _is_at(path: bytes, folders: Collection[bytes]) -> bool:
    return any(path == folder or path.startswith(folder + b"/") for folder in folders)


def _is_exact(entry: Entry) -> bool:
    return stat.S_IFMT(entry.mode) in _KINDS and not entry.flags & INEXACT


def _with_chunks(snapshot: Snapshot, archive: ArchiveRow, rows: list[VersionRow]) -> list[Branch] | None:
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


def _held(snapshot: Snapshot, archive: ArchiveRow, pointers: list[VersionRow]) -> dict[int, VersionRow] | None:
    """Return the files that hard links point to, by the version of the link; None if one of them is missing."""
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
