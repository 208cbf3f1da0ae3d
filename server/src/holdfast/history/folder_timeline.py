"""Each name of a folder through time: which archives contain it, and as which version."""

from itertools import groupby
from operator import itemgetter

from backup_engine.frozen import frozen
from holdfast.history import cursor
from holdfast.history.answers import PathHistory, Presence
from holdfast.history.names import directory_of
from holdfast.history.page_room import PageRoom
from holdfast.history.presence import holders
from holdfast.history.schema import ROOT_ID
from holdfast.history.store import Snapshot

_NAMES_AT_ONCE = 25
_VERSIONS_AT_ONCE = 500
_Name = tuple[bytes, list[int]]
"""The name with its versions."""


@frozen
class FolderTimelinePage:
    histories: list[PathHistory]
    """Ordered by the bytes of the name, without names that no archive contains any more."""
    total: int
    """Number of names the folder ever had in indexed archives."""
    next_cursor: str | None


def folder_timeline(snapshot: Snapshot, directory: bytes, limit: int, after_cursor: str | None) -> FolderTimelinePage:
    wanted = directory_of(directory.removesuffix(b"/") or directory)
    after = cursor.name_of(after_cursor, "lanes") if after_cursor else None
    number = snapshot.find_directories([wanted]).get(wanted)
    if number is None:
        return FolderTimelinePage([], 0, None)
    total = versions = 0
    asked: list[_Name] = []
    page = _Page(snapshot)
    for name, rows in groupby(snapshot.versions_in_directory(number), key=itemgetter(0)):
        if number == ROOT_ID and name == b".":  # the entry of the root itself, in archives of "."
            continue
        total += 1
        if (after is None or name > after) and page.names + len(asked) <= limit and page.has_room:
            asked.append((name, [version for _, version in rows]))
            versions += len(asked[-1][1])
            if len(asked) == _NAMES_AT_ONCE or versions >= _VERSIONS_AT_ONCE:
                page.add(asked, limit)
                asked, versions = [], 0
    page.add(asked, limit)
    return FolderTimelinePage(
        page.histories, total, None if page.last is None else cursor.encode("lanes", page.last.hex())
    )


class _Page:
    """The histories of names in order, as far as there is room."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._engine_ids = {row.id: row.engine_id for row in snapshot.archives()}
        self._room = PageRoom()
        self._before = b""
        self.histories: list[PathHistory] = []
        self.names = 0
        self.last: bytes | None = None
        """The last name of the page if there are more; else None."""

    @property
    def has_room(self) -> bool:
        return self.last is None

    def add(self, names: list[_Name], limit: int) -> None:
        found = self._histories([version for _, versions in names for version in versions])
        for name, versions in names:
            if not self.has_room:
                return
            history = next((found[version] for version in versions if version in found), None)
            if self.names == limit or (history is not None and not self._room.take_history(history)):
                self.last = self._before
                return
            self.names += 1
            self._before = name
            if history is not None:
                self.histories.append(history)

    def _histories(self, versions: list[int]) -> dict[int, PathHistory]:
        """Return the history of each version's path, without versions that no archive contains any more."""
        where = holders(self._snapshot, versions)
        found: dict[bytes, PathHistory] = {}
        of_version: dict[int, PathHistory] = {}
        for version, _, entry in self._snapshot.entries([one for one in versions if where.get(one)]):
            history = found.setdefault(entry.path, PathHistory(entry.path, []))
            history.presence.extend(Presence(self._engine_ids[one], version, entry) for one in where[version])
            of_version[version] = history
        return of_version
