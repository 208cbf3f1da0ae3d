"""What differs between two archives: set algebra on their versions."""

import threading
import zlib
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.archives.history import bits, columns, cursor
from holdfast.archives.history.answers import Change, ChangeKind, ChangePage
from holdfast.archives.history.bits import Ids
from holdfast.archives.history.columns import CachedColumn
from holdfast.archives.history.hardlinks import changed_behind_links, unchanged_behind_links
from holdfast.archives.history.ingest import all_chunks
from holdfast.archives.history.names import directory_of
from holdfast.archives.history.presence import path_id
from holdfast.archives.history.schema import DIRECTORY_PARENT, PATH_DIRECTORY, VERSION_PATH, VERSION_TWIN
from holdfast.archives.history.store import ArchiveRow, Snapshot

MOST_STORED_PATHS = 200_000
_KEPT_COMPARISONS = 8
_PACKING_LEVEL = 1
_KEPT_PATHS = 200_000  # a larger comparison is computed again for each page


@dataclass(frozen=True)
class Comparison:
    """Paths that differ, in ascending order of their id; version 0 where a side lacks the path.

    The same version on both sides is a hard link that points to another content than before.
    """

    paths: Ids
    before: Ids
    after: Ids

    def restricted(self, mask: npt.NDArray[np.bool_]) -> "Comparison":
        return Comparison(self.paths[mask], self.before[mask], self.after[mask])

    def joined(self, paths: Ids, versions: Ids) -> "Comparison":
        """With further paths, whose version is the same on both sides."""
        if not len(paths):
            return self
        order = np.argsort(every := np.concatenate([self.paths, paths]))
        return Comparison(
            every[order],
            np.concatenate([self.before, versions])[order],
            np.concatenate([self.after, versions])[order],
        )

    def dump(self) -> bytes:
        """As it is stored: mostly small steps, which pack well."""
        columns = [np.diff(column, prepend=np.uint32(0)) for column in (self.paths, self.before, self.after)]
        return zlib.compress(np.concatenate(columns).astype("<u4").tobytes(), _PACKING_LEVEL)

    @staticmethod
    def load(data: bytes) -> "Comparison":
        paths, before, after = np.frombuffer(zlib.decompress(data), "<u4").reshape(3, -1)
        return Comparison(*(np.cumsum(column, dtype=np.uint32) for column in (paths, before, after)))

    def of_kind(self, kind: ChangeKind) -> npt.NDArray[np.bool_]:
        lacked, lacks = np.equal(self.before, 0), np.equal(self.after, 0)
        mask = {ChangeKind.ADDED: lacked, ChangeKind.REMOVED: lacks, ChangeKind.MODIFIED: ~(lacked | lacks)}[kind]
        return np.asarray(mask, np.bool_)


class Comparer:
    """Compares archives of one index and remembers the last few results: an archive never changes once it is there."""

    def __init__(self) -> None:
        self._version_path = CachedColumn(VERSION_PATH)
        self._path_directory = CachedColumn(PATH_DIRECTORY)
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
        totals = {kind: int(comparison.of_kind(kind).sum()) for kind in ChangeKind}
        wanted = comparison.paths > position
        if kinds:
            wanted &= np.logical_or.reduce([comparison.of_kind(kind) for kind in kinds])
        places = np.flatnonzero(wanted)[: limit + 1]
        shown = comparison.restricted(places[:limit])  # type: ignore[arg-type]
        more = cursor.encode("changes", int(shown.paths[-1])) if len(places) > limit else None
        return ChangePage(_rows(snapshot, shown), totals, more)

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
        if is_mixed(snapshot.meta()):  # what one side could not show may have become known since
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
            self._version_path.take(snapshot, epoch, gone), gone, self._version_path.take(snapshot, epoch, come), come
        )
        if is_mixed(meta):
            comparison = _without_twins(snapshot, comparison)
        pointers = changed_behind_links(snapshot, comparison.paths, comparison.before, comparison.after, old, new)
        same = unchanged_behind_links(snapshot, comparison.before, comparison.after, old, new)
        return comparison.restricted(~same).joined(self._version_path.take(snapshot, epoch, pointers), pointers)

    def _implicit_versions(self, snapshot: Snapshot, state: tuple[bytes, bytes]) -> Ids:
        """Ascending, and read again only when there are others."""
        kept = self._implicit
        if kept is None or kept[0] != state:
            kept = self._implicit = state, np.sort(np.array(snapshot.implicit_versions(), np.uint32))
        return kept[1]

    def _under(self, snapshot: Snapshot, comparison: Comparison, prefix: bytes) -> Comparison:
        """Keep what is the prefix itself or is below it; `a/b` is not a prefix of `a/bc`."""
        wanted = prefix.removesuffix(b"/") or prefix
        if not wanted or not len(comparison.paths):
            return comparison
        inside = comparison.paths == path_id(snapshot, wanted)
        found = snapshot.find_directories([directory_of(wanted)])
        if found:
            below = directories_below(found[directory_of(wanted)], columns.load(snapshot, DIRECTORY_PARENT))
            epoch = snapshot.meta().get("epoch", b"")
            inside |= below[self._path_directory.take(snapshot, epoch, comparison.paths)]
        return comparison.restricted(inside)


def is_mixed(meta: dict[str, bytes]) -> bool:
    """Whether the index holds archives of both routes, of which one shows less than the other."""
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
    """Given the versions that went and came, join them by path."""
    top = int(max(gone_paths.max(initial=0), come_paths.max(initial=0)))
    before, after = np.zeros(top + 1, np.uint32), np.zeros(top + 1, np.uint32)  # path ids are dense
    before[gone_paths] = gone
    after[come_paths] = come
    paths = np.flatnonzero(before | after).astype(np.uint32)
    return Comparison(paths, before[paths], after[paths])


def _without_twins(snapshot: Snapshot, comparison: Comparison) -> Comparison:
    """Drop pairs where one side comes from the CLI listing and shows nothing that the exact side contradicts."""
    twin = columns.load(snapshot, VERSION_TWIN)
    before, after = comparison.before, comparison.after
    both = (before != 0) & (after != 0)
    same = (columns.take(twin, before) == after) | (columns.take(twin, after) == before)
    return comparison.restricted(~(both & same))


def _rows(snapshot: Snapshot, comparison: Comparison) -> list[Change]:
    versions = [*comparison.before.tolist(), *comparison.after.tolist()]
    found = {row.version: row.entry for row in snapshot.entries(version for version in versions if version)}
    changes = []
    for before, after in zip(comparison.before.tolist(), comparison.after.tolist(), strict=True):
        old, new = found.get(before), found.get(after)
        kind = ChangeKind.ADDED if old is None else ChangeKind.REMOVED if new is None else ChangeKind.MODIFIED
        some = new or old
        assert some is not None
        changes.append(Change(some.path, kind, old, new))
    return changes
