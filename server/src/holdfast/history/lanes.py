"""The life of each name of a folder over all archives: in which it is, and as which version."""

from collections import defaultdict

from backup_engine.frozen import frozen
from holdfast.history import cursor
from holdfast.history.answers import PathHistory, Presence
from holdfast.history.names import directory_of
from holdfast.history.presence import holders
from holdfast.history.schema import ROOT_ID
from holdfast.history.store import Snapshot


@frozen
class LanesPage:
    lanes: list[PathHistory]
    """Ordered by the bytes of the name; names that no archive has any more are left out."""
    total: int
    """How many names the folder ever had, as far as they are indexed."""
    next_cursor: str | None


def lanes(snapshot: Snapshot, directory: bytes, limit: int, after_cursor: str | None) -> LanesPage:
    wanted = directory_of(directory.removesuffix(b"/") or directory)
    number = snapshot.find_directories([wanted]).get(wanted)
    if number is None:
        return LanesPage([], 0, None)
    versions: dict[bytes, list[int]] = defaultdict(list)
    for name, version in snapshot.versions_in_directory(number):
        if number != ROOT_ID or name != b".":  # the entry of the root itself, in archives made of "."
            versions[name].append(version)
    names = sorted(versions)
    if after_cursor:
        last = bytes.fromhex(str(cursor.decode(after_cursor, "lanes", str)[0]))
        names = [name for name in names if name > last]
    page = names[:limit]
    found = _histories(snapshot, [version for name in page for version in versions[name]])
    more = cursor.encode("lanes", page[-1].hex()) if len(names) > limit else None
    return LanesPage(found, len(versions), more)


def _histories(snapshot: Snapshot, versions: list[int]) -> list[PathHistory]:
    where = holders(snapshot, versions)
    engine_ids = {row.id: row.engine_id for row in snapshot.archives()}
    found: dict[bytes, list[Presence]] = defaultdict(list)
    for version, _, entry in snapshot.entries([one for one in versions if where.get(one)]):
        found[entry.path] += [Presence(engine_ids[archive], version, entry) for archive in where[version]]
    return [PathHistory(path, presence) for path, presence in sorted(found.items())]
