"""One directory of one archive."""

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Collection

import numpy as np

from backup_engine.frozen import frozen
from holdfast.history import bits, cursor
from holdfast.history.answers import BrowsePage, BrowseSort, EntryFacts
from holdfast.history.bits import CHUNK_BITS
from holdfast.history.changes import Comparer
from holdfast.history.errors import InvalidCursor
from holdfast.history.folder_sizes import Folder, FolderSizes
from holdfast.history.names import ROOT, directory_of, folded
from holdfast.history.presence import path_id
from holdfast.history.schema import ROOT_ID
from holdfast.history.store import ArchiveRow, Found, Snapshot

_KEPT_LISTINGS = 4
_WORTH_KEEPING = 2_000

Listing = list[tuple[int, bytes, int]]  # rank, name and version, ordered by the first two; by name alone: all of rank 0
Folders = dict[int, Folder] | None

_BY_SIZE = (BrowseSort.SIZE, BrowseSort.SIZE_DOWN)
_DOWN = (BrowseSort.SIZE_DOWN, BrowseSort.MODIFIED_DOWN)


@frozen
class Asked:
    """Which entries of a directory, in which order, and what to find out about each."""

    limit: int = 500
    cursor: str | None = None
    sort: BrowseSort = BrowseSort.NAME
    text: str = ""  # in the name, in whatever case
    without: Collection[bytes] = ()  # names
    sizes: bool = False

    @property
    def wants_sizes(self) -> bool:
        return self.sizes or self.sort in _BY_SIZE


class Browser:
    """Lists directories of one index and remembers the last few large ones, so that paging through one reads it
    once.
    """

    def __init__(self, sizes: FolderSizes, comparer: Comparer) -> None:
        self._sizes = sizes
        self._comparer = comparer
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[int, int, BrowseSort], Listing] = OrderedDict()

    def page(
        self, snapshot: Snapshot, archive: ArchiveRow, directory: bytes, asked: Asked, before: ArchiveRow | None = None
    ) -> BrowsePage:
        position = _position(asked) if asked.cursor else None
        wanted = directory_of(directory.removesuffix(b"/") or directory)
        number = snapshot.find_directories([wanted]).get(wanted)
        folders = self._sizes.in_directory(snapshot, archive, number) if number and asked.wants_sizes else None
        listing = self._listing(snapshot, archive, number, asked.sort, folders) if number is not None else []
        if not listing and not _is_there(snapshot, archive, wanted):
            return BrowsePage(False, [], None)
        listing = _narrowed(listing, asked)
        start = _start(listing, asked.sort, position) if position else 0
        page = listing[start : start + asked.limit]
        found = {row.version: row for row in snapshot.entries(version for _, _, version in page)}
        rows = [found[version] for _, _, version in page]
        more = _cursor(asked.sort, *page[-1][:2]) if start + asked.limit < len(listing) else None
        facts = self._facts(snapshot, archive, before, rows, folders)
        return BrowsePage(True, [row.entry for row in rows], more, len(listing), facts)

    def _listing(
        self, snapshot: Snapshot, archive: ArchiveRow, directory: int, sort: BrowseSort, folders: Folders
    ) -> Listing:
        key = (archive.id, directory, sort)
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        if sort is BrowseSort.NAME:
            listing = _members(snapshot, archive, directory)
        elif sort is BrowseSort.NAME_DOWN:
            listing = self._listing(snapshot, archive, directory, BrowseSort.NAME, None)[::-1]
        else:
            by_name = self._listing(snapshot, archive, directory, BrowseSort.NAME, None)
            listing = _ranked(snapshot, by_name, sort, folders)
        if len(listing) >= _WORTH_KEEPING:
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
        rows: list[Found],
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


def _narrowed(listing: Listing, asked: Asked) -> Listing:
    if asked.without:
        listing = [row for row in listing if row[1] not in asked.without]
    if asked.text:
        needle = asked.text.casefold()
        listing = [row for row in listing if needle in folded(row[1])]
    return listing


def _ranked(snapshot: Snapshot, listing: Listing, sort: BrowseSort, folders: Folders) -> Listing:
    """Ordered by size or time, and then by name. A folder is as large as the files below it."""
    rank: dict[int, int] = {}
    for version, path, size, mtime in snapshot.sizes_and_times(version for _, _, version in listing):
        below = folders.get(path) if folders is not None else None
        rank[version] = size + (below.bytes if below else 0) if sort in _BY_SIZE else mtime
    turn = -1 if sort in _DOWN else 1
    return sorted((turn * rank[version], name, version) for _, name, version in listing)


def _cursor(sort: BrowseSort, rank: int, name: bytes) -> str:
    if sort is BrowseSort.NAME:
        return cursor.encode("browse", name.hex())
    return cursor.encode(f"browse {sort}", str(rank), name.hex())


def _position(asked: Asked) -> tuple[int, bytes]:
    """Rank and name of the last entry of the page before. Raise InvalidCursor."""
    assert asked.cursor is not None
    if asked.sort is BrowseSort.NAME:
        return 0, cursor.name_of(asked.cursor, "browse")
    rank, name = cursor.decode(asked.cursor, f"browse {asked.sort}", str, str)
    try:
        return int(rank), bytes.fromhex(str(name))
    except ValueError as error:
        raise InvalidCursor(asked.cursor) from error


def _start(listing: Listing, sort: BrowseSort, position: tuple[int, bytes]) -> int:
    """Where the page begins: behind a position, whether or not that entry is still there."""
    if sort is BrowseSort.NAME_DOWN:
        return len(listing) - bisect_left(listing[::-1], position[1], key=lambda row: row[1])
    return bisect_right(listing, position, key=lambda row: row[:2])


def _members(snapshot: Snapshot, archive: ArchiveRow, directory: int) -> Listing:
    rows = snapshot.versions_in_directory(directory)
    inside = in_archive(snapshot, archive, [version for _, version in rows])
    listing = [(0, *row) for row, is_member in zip(rows, inside, strict=True) if is_member]
    listing.sort()
    if directory == ROOT_ID and not snapshot.find_directories([b"./"]):
        return [row for row in listing if row[1] != b"."]  # the entry of the root itself, in archives made of "."
    return listing


def in_archive(snapshot: Snapshot, archive: ArchiveRow, versions: list[int]) -> list[bool]:
    if not versions:
        return []
    ids = np.array(versions, np.uint32)
    chunks = np.unique(ids >> CHUNK_BITS).tolist()
    mask: list[bool] = bits.member_mask(bits.decode(snapshot.bits(archive.id, chunks)), ids).tolist()
    return mask


def _is_there(snapshot: Snapshot, archive: ArchiveRow, directory: bytes) -> bool:
    """Tell whether a directory without children has an entry in the archive; the root always is there."""
    if directory == ROOT:
        return True
    own = path_id(snapshot, directory[:-1] or directory)
    versions = [version for _, version in snapshot.versions_of_paths([own])]
    members = [one for one, inside in zip(versions, in_archive(snapshot, archive, versions), strict=True) if inside]
    return any(row.entry.is_directory for row in snapshot.entries(members))
