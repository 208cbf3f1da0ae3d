"""One directory of one archive."""

import threading
from bisect import bisect_right
from collections import OrderedDict

import numpy as np

from holdfast.archives.history import bits, cursor
from holdfast.archives.history.answers import BrowsePage
from holdfast.archives.history.bits import CHUNK_BITS
from holdfast.archives.history.names import ROOT, directory_of
from holdfast.archives.history.presence import path_id
from holdfast.archives.history.schema import ROOT_ID
from holdfast.archives.history.store import ArchiveRow, Snapshot

_KEPT_LISTINGS = 4
_WORTH_KEEPING = 2_000

Listing = list[tuple[bytes, int]]  # name and version, ordered by name


class Browser:
    """Lists directories of one index and remembers the last few large ones, so that paging through one reads it once."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], Listing] = OrderedDict()

    def page(
        self, snapshot: Snapshot, archive: ArchiveRow, directory: bytes, limit: int, after_cursor: str | None
    ) -> BrowsePage:
        wanted = directory_of(directory.removesuffix(b"/") or directory)
        number = snapshot.find_directories([wanted]).get(wanted)
        listing = self._listing(snapshot, archive, number) if number is not None else []
        if not listing and not _is_there(snapshot, archive, wanted):
            return BrowsePage(False, [], None)
        start = 0
        if after_cursor:
            name = bytes.fromhex(str(cursor.decode(after_cursor, "browse", str)[0]))
            start = bisect_right(listing, name, key=lambda row: row[0])
        page = listing[start : start + limit]
        found = {row.version: row.entry for row in snapshot.entries(version for _, version in page)}
        more = cursor.encode("browse", page[-1][0].hex()) if start + limit < len(listing) else None
        return BrowsePage(True, [found[version] for _, version in page], more)

    def _listing(self, snapshot: Snapshot, archive: ArchiveRow, directory: int) -> Listing:
        key = (archive.id, directory)
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        listing = _members(snapshot, archive, directory)
        if len(listing) >= _WORTH_KEEPING:
            with self._guard:
                self._kept[key] = listing
                while len(self._kept) > _KEPT_LISTINGS:
                    self._kept.popitem(last=False)
        return listing


def _members(snapshot: Snapshot, archive: ArchiveRow, directory: int) -> Listing:
    rows = snapshot.versions_in_directory(directory)
    inside = _in_archive(snapshot, archive, [version for _, version in rows])
    listing = [row for row, is_member in zip(rows, inside, strict=True) if is_member]
    listing.sort()
    if directory == ROOT_ID and not snapshot.find_directories([b"./"]):
        return [row for row in listing if row[0] != b"."]  # the entry of the root itself, in archives made of "."
    return listing


def _in_archive(snapshot: Snapshot, archive: ArchiveRow, versions: list[int]) -> list[bool]:
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
    members = [one for one, inside in zip(versions, _in_archive(snapshot, archive, versions), strict=True) if inside]
    return any(row.entry.is_directory for row in snapshot.entries(members))
