"""List one directory of one archive."""

import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from backup_engine.frozen import frozen
from holdfast.history import bits, cursor
from holdfast.history.answers import BrowsePage, BrowseSort, EntryFacts
from holdfast.history.bits import CHUNK_BITS, Ids
from holdfast.history.changes import Comparer
from holdfast.history.errors import InvalidCursor
from holdfast.history.folder_sizes import Folder, FolderSizes
from holdfast.history.names import ROOT, directory_of, folded
from holdfast.history.page_room import PageRoom, entries_with_room
from holdfast.history.presence import path_id
from holdfast.history.schema import ROOT_ID
from holdfast.history.store import ArchiveRow, Snapshot, VersionRow

_KEPT_LISTINGS = 4
_WORTH_KEEPING = 2_000

_MOST_NAME_BYTES = 4 * 1024 * 1024
_BESIDE_A_NAME = 64
_AT_ONCE = 1000
_MOST_RANK = 2**63 - 1

Folders = dict[int, Folder] | None

_BY_SIZE = (BrowseSort.SIZE, BrowseSort.SIZE_DOWN)
_DOWN = (BrowseSort.SIZE_DOWN, BrowseSort.MODIFIED_DOWN)


@frozen
class BrowseOptions:
    """Which entries of a directory to list, in which order, and which facts to add."""

    limit: int = 500
    cursor: str | None = None
    sort: BrowseSort = BrowseSort.NAME
    text: str = ""  # part of the name, case-insensitive
    without: Collection[bytes] = ()  # names to leave out
    sizes: bool = False

    @property
    def wants_sizes(self) -> bool:
        return self.sizes or self.sort in _BY_SIZE


class Browser:
    """Lists directories of one index. The last few large ones are remembered, so that paging through one reads it only
    once.
    """

    def __init__(self, sizes: FolderSizes, comparer: Comparer) -> None:
        self._sizes = sizes
        self._comparer = comparer
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[int, int, BrowseSort], _Listing] = OrderedDict()

    def page(
        self,
        snapshot: Snapshot,
        archive: ArchiveRow,
        directory: bytes,
        asked: BrowseOptions,
        before: ArchiveRow | None = None,
    ) -> BrowsePage:
        position = _position(asked) if asked.cursor else None
        wanted = directory_of(directory.removesuffix(b"/") or directory)
        number = snapshot.find_directories([wanted]).get(wanted)
        folders = self._sizes.in_directory(snapshot, archive, number) if number and asked.wants_sizes else None
        listing = self._listing(snapshot, archive, number, asked.sort, folders) if number is not None else _EMPTY
        if not len(listing.versions) and not _is_there(snapshot, archive, wanted):
            return BrowsePage(False, [], None)
        listing = _narrowed(snapshot, listing, wanted, asked)
        start = listing.start(snapshot, position, asked.sort) if position else 0
        page = listing.versions[start : start + asked.limit].tolist()
        rows = entries_with_room(snapshot, page, PageRoom())
        end = start + len(rows)
        more = _cursor(asked.sort, *listing.place(snapshot, end - 1)) if end < len(listing.versions) else None
        facts = self._facts(snapshot, archive, before, rows, folders)
        return BrowsePage(True, [row.entry for row in rows], more, len(listing.versions), facts)

    def _listing(
        self, snapshot: Snapshot, archive: ArchiveRow, directory: int, sort: BrowseSort, folders: Folders
    ) -> "_Listing":
        key = (archive.id, directory, sort)
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        if sort is BrowseSort.NAME:
            listing = _members(snapshot, archive, directory)
        elif sort is BrowseSort.NAME_DOWN:
            by_name = self._listing(snapshot, archive, directory, BrowseSort.NAME, None)
            listing = by_name.restricted(slice(None, None, -1))
        else:
            by_name = self._listing(snapshot, archive, directory, BrowseSort.NAME, None)
            listing = _ranked(snapshot, by_name, sort, folders)
        if len(listing.versions) >= _WORTH_KEEPING:
            with self._guard:
                self._kept[key] = listing
                while len(self._kept) > _KEPT_LISTINGS:
                    self._kept.popitem(last=False)
        return listing

    def _facts(
        self,
        snapshot: Snapshot,
        archive: ArchiveRow,
        before: ArchiveRow | None,
        rows: list[VersionRow],
        folders: Folders,
    ) -> dict[bytes, EntryFacts]:
        kinds = self._comparer.kinds_of(snapshot, before, archive, [row.path for row in rows]) if before else {}
        facts = {}
        for row in rows:
            folder = folders.get(row.path, Folder(0, 0)) if folders is not None and row.entry.is_directory else None
            facts[row.entry.path] = EntryFacts(
                compared=before is not None and not row.entry.is_implicit,
                change=None if row.entry.is_implicit else kinds.get(row.path),
                item_count=folder.entries if folder else None,
                subtree_size=folder.bytes if folder else None,
            )
        return facts


@frozen
class _Listing:
    """The sorted entries of a directory. Their names are kept if they are short in total, otherwise read again."""

    versions: Ids
    ranks: npt.NDArray[np.int64] | None  # None: sorted by name only
    names: list[bytes] | None

    def restricted(self, chosen: Any) -> "_Listing":
        """Return the entries that a slice or an array of places selects, in its order."""
        places = np.arange(len(self.versions))[chosen].tolist() if self.names is not None else []
        ranks = self.ranks[chosen] if self.ranks is not None else None
        names = [self.names[place] for place in places] if self.names is not None else None
        return _Listing(self.versions[chosen], ranks, names)

    def place(self, snapshot: Snapshot, number: int) -> tuple[int, bytes]:
        """Return the rank and name of an entry."""
        rank = int(self.ranks[number]) if self.ranks is not None else 0
        if self.names is not None:
            return rank, self.names[number]
        version = int(self.versions[number])
        return rank, snapshot.names_of_versions([version])[version]

    def start(self, snapshot: Snapshot, position: tuple[int, bytes], sort: BrowseSort) -> int:
        """Return where the page begins: after a position, even if the entry there is gone."""

        def is_behind(number: int) -> bool:
            place = self.place(snapshot, number)
            return place < position if sort is BrowseSort.NAME_DOWN else place > position

        return bisect_left(range(len(self.versions)), True, key=is_behind)

    def names_in_turn(self, snapshot: Snapshot) -> Iterator[bytes]:
        if self.names is not None:
            yield from self.names
            return
        for first in range(0, len(self.versions), _AT_ONCE):
            some = self.versions[first : first + _AT_ONCE].tolist()
            found = snapshot.names_of_versions(some)
            yield from (found[version] for version in some)


_EMPTY = _Listing(np.zeros(0, np.uint32), None, [])


def _narrowed(snapshot: Snapshot, listing: _Listing, directory: bytes, asked: BrowseOptions) -> _Listing:
    if asked.without:
        paths = (path_id(snapshot, directory + name) for name in asked.without)
        hidden = [version for _, version in snapshot.versions_of_paths([path for path in paths if path])]
        listing = listing.restricted(~np.isin(listing.versions, np.array(hidden, np.uint32)))
    if asked.text:
        needle = asked.text.casefold()
        found = [needle in folded(name) for name in listing.names_in_turn(snapshot)]
        listing = listing.restricted(np.array(found, np.bool_))
    return listing


def _ranked(snapshot: Snapshot, by_name: _Listing, sort: BrowseSort, folders: Folders) -> _Listing:
    """Sort by size or time, then by name. The size of a folder is that of all files below it."""
    ranks = np.zeros(len(by_name.versions), np.int64)
    turn = -1 if sort in _DOWN else 1
    for first in range(0, len(ranks), _AT_ONCE):
        some = by_name.versions[first : first + _AT_ONCE].tolist()
        rank = {}
        for version, path, size, mtime in snapshot.sizes_and_times(some):
            below = folders.get(path) if folders is not None else None
            weight = min(size + (below.bytes if below else 0), _MOST_RANK)
            rank[version] = turn * (weight if sort in _BY_SIZE else max(mtime, -_MOST_RANK))
        ranks[first : first + len(some)] = [rank[version] for version in some]
    order = np.argsort(ranks, kind="stable")
    listing = by_name.restricted(order)
    return _Listing(listing.versions, ranks[order], listing.names)


def _cursor(sort: BrowseSort, rank: int, name: bytes) -> str:
    if sort is BrowseSort.NAME:
        return cursor.encode("browse", name.hex())
    return cursor.encode(f"browse {sort}", str(rank), name.hex())


def _position(asked: BrowseOptions) -> tuple[int, bytes]:
    """Return the rank and name of the previous page's last entry. Raise InvalidCursor."""
    assert asked.cursor is not None
    if asked.sort is BrowseSort.NAME:
        return 0, cursor.name_of(asked.cursor, "browse")
    rank, name = cursor.decode(asked.cursor, f"browse {asked.sort}", str, str)
    try:
        return int(rank), bytes.fromhex(str(name))
    except ValueError as error:
        raise InvalidCursor(asked.cursor) from error


def _members(snapshot: Snapshot, archive: ArchiveRow, directory: int) -> _Listing:
    is_root = directory == ROOT_ID and not snapshot.find_directories([b"./"])
    versions = array("I")
    names: list[bytes] | None = []
    name_bytes = 0
    for name, version in snapshot.versions_in_directory(directory):
        if is_root and name == b".":  # the entry of the root itself, in archives of "."
            continue
        versions.append(version)
        name_bytes += len(name) + _BESIDE_A_NAME
        if name_bytes > _MOST_NAME_BYTES:
            names = None
        if names is not None:
            names.append(name)
    every = _Listing(np.array(versions, np.uint32), None, names)
    return every.restricted(in_archive(snapshot, archive, every.versions))


def in_archive(snapshot: Snapshot, archive: ArchiveRow, versions: Ids) -> npt.NDArray[np.bool_]:
    chunks = np.unique(versions >> CHUNK_BITS).tolist()
    return bits.member_mask(bits.decode(snapshot.bits(archive.id, chunks)), versions)


def _is_there(snapshot: Snapshot, archive: ArchiveRow, directory: bytes) -> bool:
    """Return whether a directory without children has an entry in the archive; the root always exists."""
    if directory == ROOT:
        return True
    own = path_id(snapshot, directory[:-1] or directory)
    versions = np.array([version for _, version in snapshot.versions_of_paths([own])], np.uint32)
    members = versions[in_archive(snapshot, archive, versions)].tolist()
    return any(row.entry.is_directory for row in snapshot.entries(members))
