"""What would be lost if some archives were deleted: the content that only they have."""

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

from backup_engine.frozen import frozen
from holdfast.history import bits, columns, cursor
from holdfast.history.answers import PathHistory
from holdfast.history.bits import Ids, Packed
from holdfast.history.page_room import PageRoom
from holdfast.history.presence import histories
from holdfast.history.schema import VERSION_PATH, VERSION_TWIN
from holdfast.history.store import Snapshot
from holdfast.history.union import union

MOST_WEIGHED = 1_000_000
"""Most versions for which sizes are added up. Beyond it the sum is None."""
_AT_ONCE = 25


@frozen
class LossPage:
    paths: int
    """Files and folders that are in no staying archive in any version."""
    versions: int
    """Versions of files and folders that are in no staying archive, including those of lost paths."""
    bytes: int | None
    """Size of the files among these versions, before compression; None if there are too many to add up."""
    lost: list[PathHistory]
    """One page of the lost paths, with all archives that contain them."""
    next_cursor: str | None


def losses(
    snapshot: Snapshot, going: Collection[str], staying: Collection[str], limit: int, after_cursor: str | None
) -> LossPage:
    after = int(cursor.decode(after_cursor, "losses", int)[0]) if after_cursor else 0
    (gone, _), (kept, _) = union(snapshot, going), union(snapshot, staying)
    versions = _lost_versions(snapshot, gone, kept)
    paths = _lost_paths(snapshot, versions, kept)
    behind = paths[paths > after]
    shown = _shown(snapshot, behind[:limit].tolist())
    last = shown[-1][0] if shown else 0
    return LossPage(
        paths=len(paths),
        versions=len(versions),
        bytes=snapshot.file_bytes(versions.tolist()) if len(versions) <= MOST_WEIGHED else None,
        lost=[history for _, history in shown],
        next_cursor=cursor.encode("losses", last) if (behind > last).any() else None,
    )


def _shown(snapshot: Snapshot, paths: list[int]) -> list[tuple[int, PathHistory]]:
    """Return paths with their histories, as far as there is room on a page."""
    shown: list[tuple[int, PathHistory]] = []
    room = PageRoom()
    for first in range(0, len(paths), _AT_ONCE):
        some = paths[first : first + _AT_ONCE]
        found = histories(snapshot, some)
        for path in (one for one in some if one in found):
            if not room.take_history(found[path]):
                return shown
            shown.append((path, found[path]))
    return shown


def _lost_versions(snapshot: Snapshot, gone: Packed, kept: Packed) -> Ids:
    """Return the versions that are only in going archives.

    A file that was read exactly on one side and from the listing on the other counts as the same.
    """
    lost = bits.unpack(bits.without(gone, kept))
    lost = lost[~np.isin(lost, np.array(snapshot.implicit_versions(), np.uint32))]
    twin = columns.load(snapshot, VERSION_TWIN)
    if not twin.any():
        return lost
    listed = columns.take(twin, bits.unpack(kept))
    same = np.isin(lost, listed[listed != 0])
    own = columns.take(twin, lost)
    same |= (own != 0) & bits.member_mask(kept, own)
    return lost[~same]


def _lost_paths(snapshot: Snapshot, versions: Ids, kept: Packed) -> npt.NDArray[np.uint32]:
    path = columns.load(snapshot, VERSION_PATH)
    paths = np.unique(columns.take(path, versions))
    still_there = np.zeros(int(paths.max(initial=0)) + 1, np.bool_)
    for part in _parts(bits.unpack(kept)):
        held = columns.take(path, part)
        still_there[held[held < len(still_there)]] = True
    return np.asarray(paths[(paths != 0) & ~still_there[paths]], np.uint32)


def _parts(ids: Ids, size: int = 1 << 20) -> Iterable[Ids]:
    return (ids[first : first + size] for first in range(0, len(ids), size))
