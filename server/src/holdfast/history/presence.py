"""Which archives contain a path, and as which version."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from holdfast.history import bits
from holdfast.history.answers import PathHistory, Presence
from holdfast.history.bits import CHUNK_BITS, CHUNK_BYTES, CHUNK_IDS
from holdfast.history.names import split_path
from holdfast.history.store import Snapshot, VersionRow


def path_id(snapshot: Snapshot, path: bytes) -> int:
    """Return the id of a path; 0 if it was never indexed."""
    directory, name = split_path(path)
    directories, names = snapshot.find_directories([directory]), snapshot.find_names([name])
    if not directories or not names:
        return 0
    pair = (directories[directory], names[name])
    return snapshot.find_paths([pair]).get(pair, 0)


def version_at(snapshot: Snapshot, engine_id: str, path: bytes) -> VersionRow | None:
    """Return the version at a path of an archive; None if there is none, or the archive does not list that folder
    itself.
    """
    for found, data in snapshot.entries_at(engine_id, *split_path(path)):
        if bits.holds(data, found.version & (CHUNK_IDS - 1)):
            return found
    return None


def version_in(snapshot: Snapshot, archive: int, path: int) -> VersionRow | None:
    """Like `version_at`, by the local archive id and the path id."""
    versions = [version for _, version in snapshot.versions_of_paths([path])]
    stored = dict(snapshot.bits(archive, {version >> CHUNK_BITS for version in versions}))
    for version in versions:
        data = stored.get(version >> CHUNK_BITS)
        if data is not None and bits.holds(data, version & (CHUNK_IDS - 1)):
            return snapshot.entries([version])[0]
    return None


def holders(snapshot: Snapshot, versions: Iterable[int], within: Collection[int] | None = None) -> dict[int, list[int]]:
    """Given versions, return for each the archives that contain it, in ascending order of their local ids."""
    by_chunk: dict[int, list[int]] = defaultdict(list)
    for version in versions:
        by_chunk[version >> CHUNK_BITS].append(version)
    found: dict[int, list[int]] = {}
    for chunk, members in by_chunk.items():
        rows = snapshot.bits_of_all(chunk)
        if within is not None:
            rows = [row for row in rows if row[0] in within]
        for version in members:
            position = version & (CHUNK_IDS - 1)
            place, bit = position >> 3, 1 << (position & 7)
            found[version] = [
                archive
                for archive, data in rows
                if (data[place] & bit if len(data) == CHUNK_BYTES else bits.holds(data, position))
            ]
    return found


def histories(snapshot: Snapshot, paths: Collection[int]) -> dict[int, PathHistory]:
    """Given path ids, return the history of each, without paths that no archive contains."""
    versions = dict(_version_and_path(snapshot, paths))
    where = holders(snapshot, versions)
    alive = [version for version, archives in where.items() if archives]
    engine_ids = {row.id: row.engine_id for row in snapshot.archives()}
    found: dict[int, dict[int, Presence]] = defaultdict(dict)
    names: dict[int, bytes] = {}
    for version, path, entry in snapshot.entries(alive):
        names[path] = entry.path
        present = found[path]
        for archive in where[version]:
            present[archive] = Presence(engine_ids[archive], version, entry)
    return {
        path: PathHistory(names[path], [present[archive] for archive in sorted(present)])
        for path, present in found.items()
    }


def _version_and_path(snapshot: Snapshot, paths: Collection[int]) -> list[tuple[int, int]]:
    return [(version, path) for path, version in snapshot.versions_of_paths(paths)]
