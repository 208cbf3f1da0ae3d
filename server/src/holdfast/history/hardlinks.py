"""Hard links in comparisons and histories. The engine stores the content with the first name that it finds; the other
names only point to it.

When the first name is removed, another one takes its place: its record changes from a pointer to a file, although the
file itself has not changed. When the content changes, the pointers stay the same. The engine's own comparison follows
the pointers, and so does this one.
"""

import numpy as np
import numpy.typing as npt

from holdfast.history import bits, columns
from holdfast.history.answers import PathHistory, Presence
from holdfast.history.bits import Ids, Packed
from holdfast.history.entry import Entry
from holdfast.history.presence import histories, version_in
from holdfast.history.schema import VERSION_LINK
from holdfast.history.store import Snapshot, VersionRow


def unchanged_behind_links(
    snapshot: Snapshot, before: Ids, after: Ids, old: Packed, new: Packed
) -> npt.NDArray[np.bool_]:
    """Given pairs of versions of a path in two archives, return which differ only in which name points to which."""
    link = columns.load(snapshot, VERSION_LINK)
    linked = (columns.take(link, before) != 0) | (columns.take(link, after) != 0)
    linked &= (before != 0) & (after != 0)
    same = np.zeros(len(before), np.bool_)
    places = np.flatnonzero(linked)
    if not len(places):
        return same
    some_before, some_after = before[places], after[places]
    behind_before = behind_links(snapshot, some_before, link, old)
    behind_after = behind_links(snapshot, some_after, link, new)
    ids = {
        version for row in (some_before.tolist(), some_after.tolist(), behind_before, behind_after) for version in row
    }
    entries = {found.version: found.entry for found in snapshot.entries(ids - {0})}
    rows = zip(some_before.tolist(), some_after.tolist(), behind_before, behind_after, strict=True)
    same[places] = [_same(*(entries.get(version) for version in row)) for row in rows]
    return same


def changed_behind_links(
    snapshot: Snapshot, paths: Ids, before: Ids, after: Ids, old: Packed, new: Packed
) -> npt.NDArray[np.uint32]:
    """Given the paths that differ, return the pointers to them that are the same in both archives, if the content
    differs.
    """
    link = columns.load(snapshot, VERSION_LINK)
    pointers = np.flatnonzero(link).astype(np.uint32)
    if not len(pointers):
        return pointers
    pointers = pointers[np.isin(link[pointers], paths[(before != 0) & (after != 0)])]
    pointers = pointers[bits.member_mask(old, pointers) & bits.member_mask(new, pointers)]
    if not len(pointers):
        return pointers
    place = np.searchsorted(paths, columns.take(link, pointers))
    pairs = list(zip(before[place].tolist(), after[place].tolist(), strict=True))
    entries = {
        found.version: found.entry for found in snapshot.entries({version for pair in pairs for version in pair})
    }
    return pointers[np.array([_content_differs(entries[one], entries[other]) for one, other in pairs], np.bool_)]


def with_link_contents(snapshot: Snapshot, history: PathHistory) -> PathHistory:
    """Return the history of a path, with pointers replaced by the size and content of the file they point to."""
    pointers = {one.version for one in history.presence if one.entry.is_hard_link}
    if not pointers:
        return history
    versions = np.fromiter(pointers, np.uint32, len(pointers))
    targets = columns.take(columns.load(snapshot, VERSION_LINK), versions).tolist()
    target_of = dict(zip(versions.tolist(), targets, strict=True))
    held = {
        (path, one.archive): one.entry
        for path, found in histories(snapshot, set(targets) - {0}).items()
        for one in found.presence
    }

    def behind(one: Presence) -> Presence:
        file = held.get((target_of.get(one.version, 0), one.archive))
        if file is None:
            return one
        return one._replace(entry=_with_content_of(one.entry, file))

    return PathHistory(history.path, [behind(one) for one in history.presence])


def linked_file(snapshot: Snapshot, archive: int, pointer: VersionRow) -> VersionRow:
    """Return the file that a hard link points to, under the link's own name; the link itself if there is none."""
    target = columns.read(snapshot, VERSION_LINK, np.array([pointer.version]))
    file = version_in(snapshot, archive, int(target[0]))
    if file is None or file.entry.is_hard_link:
        return pointer
    return file._replace(entry=_with_content_of(pointer.entry, file.entry))


def _with_content_of(pointer: Entry, file: Entry) -> Entry:
    return pointer._replace(size=file.size, link=b"", content=file.content, flags=file.flags)


def _content_differs(before: Entry, after: Entry) -> bool:
    return before.size != after.size or bool(before.content and after.content and before.content != after.content)


def behind_links(snapshot: Snapshot, versions: Ids, link: npt.NDArray[np.uint32], members: Packed) -> list[int]:
    """Given versions of an archive, return the version with the content of each; 0 if the archive has none."""
    target = columns.take(link, versions)
    pairs = snapshot.versions_of_paths(np.unique(target[target != 0]).tolist())
    candidates = np.fromiter((version for _, version in pairs), np.uint32, len(pairs))
    inside = bits.member_mask(members, candidates).tolist()
    holder = {path: version for (path, version), is_member in zip(pairs, inside, strict=True) if is_member}
    return [
        holder.get(path, 0) if path else version
        for version, path in zip(versions.tolist(), target.tolist(), strict=True)
    ]


def _same(before: Entry | None, after: Entry | None, behind_before: Entry | None, behind_after: Entry | None) -> bool:
    if before is None or after is None or behind_before is None or behind_after is None:
        return False
    if (before[1:6], before.mtime) != (after[1:6], after.mtime):
        return False
    return not _content_differs(behind_before, behind_after)
