"""Compare two archives by set algebra on their versions."""

import threading
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from backup_engine.frozen import frozen
from holdfast.history import bits, columns, cursor
from holdfast.history.answers import Change, ChangedBytes, ChangeGroup, ChangeKind, ChangePage, GroupPage
from holdfast.history.bits import Ids
from holdfast.history.columns import KeptColumns
from holdfast.history.folder_sizes import bytes_of
from holdfast.history.hardlinks import changed_behind_links, unchanged_behind_links
from holdfast.history.ingest import all_chunks
from holdfast.history.names import directory_of
from holdfast.history.page_room import FirstNames, PageRoom, text_of
from holdfast.history.presence import path_id
from holdfast.history.schema import DIRECTORY_ENTRY, DIRECTORY_PARENT, VERSION_TWIN
from holdfast.history.store import ArchiveRow, Snapshot

MOST_STORED_PATHS = 200_000
_KEPT_COMPARISONS = 8
_PACKING_LEVEL = 1
_NAMES_AT_ONCE = 1000
_ENTRIES_AT_ONCE = 50
_KEPT_PATHS = 200_000  # a larger comparison is recomputed for each page

T = TypeVar("T")


@frozen
class Comparison:
    """Paths that differ, in ascending order of their ids. Version 0 means that the path is missing on that side.

    If the version is the same on both sides, it is a hard link whose target has different content.
    """

    paths: Ids
    before: Ids
    after: Ids

    def restricted(self, mask: npt.NDArray[np.bool_]) -> "Comparison":
        return Comparison(self.paths[mask], self.before[mask], self.after[mask])

    def joined(self, paths: Ids, versions: Ids) -> "Comparison":
        """Return the comparison with further paths, whose version is the same on both sides."""
        if not len(paths):
            return self
        order = np.argsort(every := np.concatenate([self.paths, paths]))
        return Comparison(
            every[order],
            np.concatenate([self.before, versions])[order],
            np.concatenate([self.after, versions])[order],
        )

    def dump(self) -> bytes:
        """Return the stored form: differences are mostly small numbers, which compress well."""
        columns = [np.diff(column, prepend=np.uint32(0)) for column in (self.paths, self.before, self.after)]
        return zlib.compress(np.concatenate(columns).astype("<u4").tobytes(), _PACKING_LEVEL)

    @staticmethod
    def load(data: bytes) -> "Comparison":
        paths, before, after = np.frombuffer(zlib.decompress(data), "<u4").reshape(3, -1)
        return Comparison(*(np.cumsum(column, dtype=np.uint32) for column in (paths, before, after)))

    def totals(self) -> dict[ChangeKind, int]:
        return {kind: int(self.of_kind(kind).sum()) for kind in ChangeKind}

    def of_kinds(self, kinds: Collection[ChangeKind]) -> npt.NDArray[np.bool_]:
        """Return a mask of the changes of these kinds; of all changes if no kind is given."""
        if not kinds:
            return np.ones(len(self.paths), np.bool_)
        return np.asarray(np.logical_or.reduce([self.of_kind(kind) for kind in kinds]), np.bool_)

    def places_of(self, paths: list[int]) -> dict[int, int]:
        """Return the places of these paths among those that differ, without paths that do not differ."""
        if not len(self.paths) or not paths:
            return {}
        wanted = np.array(paths, np.uint32)
        places = np.minimum(np.searchsorted(self.paths, wanted), len(self.paths) - 1)
        found = self.paths[places] == wanted
        return dict(zip(wanted[found].tolist(), places[found].tolist(), strict=True))

    def of_kind(self, kind: ChangeKind) -> npt.NDArray[np.bool_]:
        lacked, lacks = np.equal(self.before, 0), np.equal(self.after, 0)
        mask = {ChangeKind.ADDED: lacked, ChangeKind.REMOVED: lacks, ChangeKind.MODIFIED: ~(lacked | lacks)}[kind]
        return np.asarray(mask, np.bool_)


class Comparer:
    """Compares archives of one index. The last few results are remembered, since indexed archives never change."""

    def __init__(self, kept_columns: KeptColumns | None = None) -> None:
        self._columns = kept_columns or KeptColumns()
        self._implicit: tuple[tuple[bytes, bytes], Ids] | None = None
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], Comparison] = OrderedDict()

    def page(
        self,
        snapshot: Snapshot,
        before: ArchiveRow,
        after: ArchiveRow,
        prefix: bytes,
        kinds: Collection[ChangeKind],
        limit: int,
        after_cursor: str | None,
    ) -> ChangePage:
        position = int(cursor.decode(after_cursor, "changes", int)[0]) if after_cursor else 0
        comparison = self._under(snapshot, self.compare(snapshot, before, after), prefix)
        wanted = (comparison.paths > position) & comparison.of_kinds(kinds)
        places = np.flatnonzero(wanted)[: limit + 1]
        rows = _rows(snapshot, comparison.restricted(places[:limit]))  # type: ignore[arg-type]
        more = None
        if len(rows) < len(places):
            more = cursor.encode("changes", int(comparison.paths[places[len(rows) - 1]]))
        return ChangePage(rows, comparison.totals(), more, _changed_bytes(self._growth(snapshot, comparison)))

    def groups(
        self,
        snapshot: Snapshot,
        before: ArchiveRow,
        after: ArchiveRow,
        folder: bytes,
        kinds: Collection[ChangeKind],
        limit: int,
        after_cursor: str | None,
    ) -> GroupPage:
        """Return the changes below a folder, added up for each of its entries."""
        position = cursor.name_of(after_cursor, "change groups") if after_cursor else None
        folder = folder.removesuffix(b"/") or folder
        comparison = self._under(snapshot, self.compare(snapshot, before, after), folder)
        growth = self._growth(snapshot, comparison)
        place = np.flatnonzero(comparison.of_kinds(kinds))
        child = self._child(snapshot, comparison.paths[place], folder)
        place, child = place[child != 0], child[child != 0]
        children, group = np.unique(child, return_inverse=True)
        above = directory_of(folder)
        first = FirstNames[int](limit, lambda name, _: len(above) + len(name))
        for name, one in _names(snapshot, children.tolist()):
            if (position is None or name > position) and first.wants(name):
                first.put(name, one)
        shown, has_more = first.page()
        sums = _Sums(comparison.restricted(place), growth[place] if growth is not None else None, group)
        types = _types(snapshot, comparison, [one for _, one in shown])
        number = {path: at for at, path in enumerate(children.tolist())}
        return GroupPage(
            [
                ChangeGroup(above + name, types[one], sums.counts(number[one]), sums.bytes(number[one]))
                for name, one in shown
            ],
            comparison.totals(),
            cursor.encode("change groups", shown[-1][0].hex()) if has_more else None,
            _changed_bytes(growth),
        )

    def kinds_of(
        self, snapshot: Snapshot, before: ArchiveRow, after: ArchiveRow, paths: Collection[int]
    ) -> dict[int, ChangeKind]:
        """Return how each of these paths of the later archive has changed, without unchanged paths."""
        comparison = self.compare(snapshot, before, after)
        places = comparison.places_of(list(paths))
        return {
            path: ChangeKind.ADDED if not comparison.before[place] else ChangeKind.MODIFIED
            for path, place in places.items()
            if comparison.after[place]
        }

    def _growth(self, snapshot: Snapshot, comparison: Comparison) -> npt.NDArray[np.int64] | None:
        """Return the bytes by which the file at each path has grown; None if the index does not have sizes."""
        after = bytes_of(snapshot, self._columns, comparison.after)
        before = bytes_of(snapshot, self._columns, comparison.before)
        return after - before if after is not None and before is not None else None

    def _child(self, snapshot: Snapshot, paths: Ids, folder: bytes) -> Ids:
        """For each path, return the path id of the folder's entry at or above it; 0 if the path is not below the
        folder.
        """
        stored = directory_of(folder)
        top = snapshot.find_directories([stored]).get(stored)
        if top is None or not len(paths):
            return np.zeros(len(paths), np.uint32)
        parent, entry = columns.load(snapshot, DIRECTORY_PARENT), columns.load(snapshot, DIRECTORY_ENTRY)
        above = self._columns.path_directory.take(snapshot, snapshot.meta().get("epoch", b""), paths)
        directories, place = np.unique(above, return_inverse=True)
        while True:
            upper = columns.take(parent, directories)
            climbing = (directories != 0) & (directories != top) & (upper != top)
            if not climbing.any():
                break
            directories = np.where(climbing, upper, directories)
        child = np.where(directories == 0, 0, columns.take(entry, directories))[place]
        return np.asarray(np.where(directories[place] == top, paths, child), np.uint32)

    def compare(self, snapshot: Snapshot, before: ArchiveRow, after: ArchiveRow) -> Comparison:
        key = (before.id, after.id)
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        comparison = self._stored(snapshot, before, after) or self.computed(snapshot, before, after)
        if len(comparison.paths) <= _KEPT_PATHS:
            with self._guard:
                self._kept[key] = comparison
                while len(self._kept) > _KEPT_COMPARISONS:
                    self._kept.popitem(last=False)
        return comparison

    def _stored(self, snapshot: Snapshot, before: ArchiveRow, after: ArchiveRow) -> Comparison | None:
        if is_mixed(snapshot.meta()):  # what one side could not show may be known by now
            return None
        data = snapshot.comparison(before.id, after.id)
        return Comparison.load(data) if data is not None else None

    def computed(self, snapshot: Snapshot, before: ArchiveRow, after: ArchiveRow) -> Comparison:
        chunks = all_chunks(snapshot)
        old = bits.decode(snapshot.bits(before.id, chunks))
        new = bits.decode(snapshot.bits(after.id, chunks))
        gone, come = bits.unpack(bits.without(old, new)), bits.unpack(bits.without(new, old))
        meta = snapshot.meta()
        epoch = meta.get("epoch", b"")
        implicit = self._implicit_versions(snapshot, (epoch, meta.get("implicit", b"")))
        gone, come = _without(gone, implicit), _without(come, implicit)
        comparison = _paired(
            self._columns.version_path.take(snapshot, epoch, gone),
            gone,
            self._columns.version_path.take(snapshot, epoch, come),
            come,
        )
        if is_mixed(meta):
            comparison = _without_twins(snapshot, comparison)
        pointers = changed_behind_links(snapshot, comparison.paths, comparison.before, comparison.after, old, new)
        same = unchanged_behind_links(snapshot, comparison.before, comparison.after, old, new)
        return comparison.restricted(~same).joined(self._columns.version_path.take(snapshot, epoch, pointers), pointers)

    def _implicit_versions(self, snapshot: Snapshot, state: tuple[bytes, bytes]) -> Ids:
        """Return the implicit versions in ascending order; they are read again only after one was added."""
        kept = self._implicit
        if kept is None or kept[0] != state:
            kept = self._implicit = state, np.sort(np.array(snapshot.implicit_versions(), np.uint32))
        return kept[1]

    def _under(self, snapshot: Snapshot, comparison: Comparison, prefix: bytes) -> Comparison:
        """Keep the prefix itself and everything below it; `a/b` is not a prefix of `a/bc`."""
        wanted = prefix.removesuffix(b"/") or prefix
        if not wanted or not len(comparison.paths):
            return comparison
        inside = comparison.paths == path_id(snapshot, wanted)
        found = snapshot.find_directories([directory_of(wanted)])
        if found:
            below = directories_below(found[directory_of(wanted)], columns.load(snapshot, DIRECTORY_PARENT))
            epoch = snapshot.meta().get("epoch", b"")
            inside |= below[self._columns.path_directory.take(snapshot, epoch, comparison.paths)]
        return comparison.restricted(inside)


def is_mixed(meta: dict[str, bytes]) -> bool:
    """Return whether the index contains archives of both routes, of which one shows less than the other."""
    return "format_1" in meta and "format_2" in meta


def _without(versions: Ids, sorted_others: Ids) -> Ids:
    if not len(sorted_others):
        return versions
    places = np.minimum(np.searchsorted(sorted_others, versions), len(sorted_others) - 1)
    return np.asarray(versions[sorted_others[places] != versions], np.uint32)


def directories_below(directory: int, parent: Ids) -> npt.NDArray[np.bool_]:
    """Given a directory, return for every directory id whether it is that one or is below it."""
    inside = np.zeros(max(len(parent), directory + 1), np.bool_)
    inside[directory] = True
    while True:
        grown = inside.copy()
        grown[: len(parent)] |= inside[parent]
        if np.array_equal(grown, inside):
            return inside
        inside = grown


def _paired(gone_paths: Ids, gone: Ids, come_paths: Ids, come: Ids) -> Comparison:
    """Join removed and added versions by path."""
    top = int(max(gone_paths.max(initial=0), come_paths.max(initial=0)))
    before, after = np.zeros(top + 1, np.uint32), np.zeros(top + 1, np.uint32)  # path ids are dense
    before[gone_paths] = gone
    after[come_paths] = come
    paths = np.flatnonzero(before | after).astype(np.uint32)
    return Comparison(paths, before[paths], after[paths])


def _without_twins(snapshot: Snapshot, comparison: Comparison) -> Comparison:
    """Drop pairs with one side from the CLI listing that shows nothing the exact side contradicts."""
    twin = columns.load(snapshot, VERSION_TWIN)
    before, after = comparison.before, comparison.after
    both = (before != 0) & (after != 0)
    same = (columns.take(twin, before) == after) | (columns.take(twin, after) == before)
    return comparison.restricted(~(both & same))


class _Sums:
    """The sums of changes, each of which belongs to one group."""

    def __init__(
        self, comparison: Comparison, growth: npt.NDArray[np.int64] | None, group: npt.NDArray[np.int64]
    ) -> None:
        self._counts = {kind: np.bincount(group, comparison.of_kind(kind)) for kind in ChangeKind}
        self._more = np.bincount(group, np.maximum(growth, 0)) if growth is not None else None
        self._less = np.bincount(group, np.maximum(-growth, 0)) if growth is not None else None

    def counts(self, group: int) -> dict[ChangeKind, int]:
        return {kind: int(counts[group]) for kind, counts in self._counts.items()}

    def bytes(self, group: int) -> ChangedBytes | None:
        if self._more is None or self._less is None:
            return None
        return ChangedBytes(int(self._more[group]), int(self._less[group]))


def _changed_bytes(growth: npt.NDArray[np.int64] | None) -> ChangedBytes | None:
    if growth is None:
        return None
    grown, shrunk = growth[growth > 0], growth[growth < 0]  # summed as floating point, so that no sum overflows
    return ChangedBytes(int(grown.sum(dtype=np.float64)), int(-shrunk.sum(dtype=np.float64)))


def _names(snapshot: Snapshot, paths: list[int]) -> Iterator[tuple[bytes, int]]:
    for first in range(0, len(paths), _NAMES_AT_ONCE):
        for path, name in snapshot.names_of_paths(paths[first : first + _NAMES_AT_ONCE]).items():
            yield name, path


def _types(snapshot: Snapshot, comparison: Comparison, paths: list[int]) -> dict[int, str]:
    """Return each path's type, in the later archive if possible. A path that has not itself changed is a folder."""
    places = comparison.places_of(paths)
    version = {path: int(comparison.after[place] or comparison.before[place]) for path, place in places.items()}
    found: dict[int, str] = {}
    for some in _parts(list(version.values())):
        found |= {row.version: row.entry.type for row in snapshot.entries(some)}
    return {path: found[version[path]] if path in version else "d" for path in paths}


def _rows(snapshot: Snapshot, comparison: Comparison) -> list[Change]:
    """Return the changes of a page, as far as there is room."""
    changes: list[Change] = []
    room = PageRoom()
    for pairs in _parts(list(zip(comparison.before.tolist(), comparison.after.tolist(), strict=True))):
        versions = {version for pair in pairs for version in pair if version}
        found = {row.version: row.entry for row in snapshot.entries(versions)}
        for before, after in pairs:
            old, new = found.get(before), found.get(after)
            kind = ChangeKind.ADDED if old is None else ChangeKind.REMOVED if new is None else ChangeKind.MODIFIED
            some = new or old
            assert some is not None
            if not room.take(sum(text_of(entry) for entry in (old, new) if entry is not None)):
                return changes
            changes.append(Change(some.path, kind, old, new))
    return changes


def _parts(whole: list[T]) -> Iterator[list[T]]:
    return (whole[first : first + _ENTRIES_AT_ONCE] for first in range(0, len(whole), _ENTRIES_AT_ONCE))
