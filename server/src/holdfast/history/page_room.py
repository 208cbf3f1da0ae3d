"""Limits on the size of a page, whatever its entry limit: an archive can have names, links and owners of many
kilobytes.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Generic, TypeVar

from holdfast.history.answers import PathHistory
from holdfast.history.entry import Entry
from holdfast.history.store import Snapshot, VersionRow

MOST_TEXT = 1024 * 1024
"""Bytes of paths, links and owners on a page. The answer contains each of them several times, and escaped."""
MOST_PRESENCES = 50_000
"""Number of (archive, entry) pairs in the histories of a page."""
_AT_ONCE = 50
_FEW = 1000

T = TypeVar("T")


def text_of(entry: Entry) -> int:
    """Return the size of an entry's text, which may be large."""
    return len(entry.path) + len(entry.link) + 4 * (len(entry.user or "") + len(entry.group or ""))


class PageRoom:
    """The space left on a page. There is always room for a first entry."""

    def __init__(self) -> None:
        self._text, self._presences, self._is_empty = MOST_TEXT, MOST_PRESENCES, True

    def take(self, text: int, presences: int = 0) -> bool:
        """Use up space; return whether there was enough."""
        self._text -= text
        self._presences -= presences
        had_room = self._is_empty or (self._text >= 0 and self._presences >= 0)
        self._is_empty = False
        return had_room

    def take_history(self, history: PathHistory) -> bool:
        texts = {presence.version: text_of(presence.entry) for presence in history.presence}
        return self.take(len(history.path) + sum(texts.values()), len(history.presence))


def entries_with_room(snapshot: Snapshot, versions: Iterable[int], room: PageRoom) -> list[VersionRow]:
    """Return the entries of these versions in order, as far as there is room."""
    found: list[VersionRow] = []
    remaining = iter(versions)
    while some := list(islice(remaining, _AT_ONCE)):
        entries = {row.version: row for row in snapshot.entries(some)}
        for version in some:
            if not room.take(text_of(entries[version].entry)):
                return found
            found.append(entries[version])
    return found


class FirstNames(Generic[T]):
    """Collects the first names of a page, and whether there are more. Only a few names are kept, however many there
    are.
    """

    def __init__(self, limit: int, weight: Callable[[bytes, T], int]) -> None:
        self._limit = limit
        self._weight = weight
        self._found: dict[bytes, T] = {}
        self._text = 0
        self._last: bytes | None = None

    def wants(self, name: bytes) -> bool:
        """Return False if the name is on a later page."""
        return self._last is None or name <= self._last

    def get(self, name: bytes) -> T | None:
        return self._found.get(name)

    def put(self, name: bytes, value: T) -> None:
        self.drop(name)
        self._found[name] = value
        self._text += self._weight(name, value)
        if len(self._found) > 2 * self._limit + _FEW or self._text > 4 * MOST_TEXT:
            self._cut()

    def drop(self, name: bytes) -> None:
        if (older := self._found.pop(name, None)) is not None:
            self._text -= self._weight(name, older)

    def page(self) -> tuple[list[tuple[bytes, T]], bool]:
        """Return the names of the page in order, and whether there are more."""
        names = sorted(self._found)
        kept = names[: self._fitting(names)]
        return [(name, self._found[name]) for name in kept], len(kept) < len(names)

    def _fitting(self, names: list[bytes]) -> int:
        room = PageRoom()
        number = 0
        for name in names[: self._limit]:
            if not room.take(self._weight(name, self._found[name])):
                break
            number += 1
        return number

    def _cut(self) -> None:
        """Drop names of later pages. Two more than fit are kept, as one may be the root itself, which is dropped in the
        end.
        """
        names = sorted(self._found)
        for name in names[self._fitting(names) + 2 :]:
            self.drop(name)
        if len(self._found) < len(names):
            self._last = max(self._found)
