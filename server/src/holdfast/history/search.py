"""Find paths by a part of their name, or of the whole path if the text contains a slash."""

from collections.abc import Callable, Collection, Iterator
from heapq import merge
from itertools import chain, islice
from typing import TypeVar

import numpy as np

from holdfast.history import bits, cursor
from holdfast.history.answers import PathHistory, SearchPage
from holdfast.history.ingest import all_chunks
from holdfast.history.names import SHORTEST_SEARCHED, folded, searchable_parts
from holdfast.history.page_room import PageRoom
from holdfast.history.presence import histories
from holdfast.history.store import Snapshot

_FETCH = 500
_CANDIDATES_AT_ONCE = 200
_HISTORIES_AT_ONCE = 25
_WORK_MOST = 15_000  # work of one call; beyond it, the call returns what it has found, with a cursor
_WORK_OF_A_HISTORY = 20

_BY_NAME, _IN_DIRECTORY, _BY_DIRECTORY = 1, 2, 3

Row = TypeVar("Row")
Position = tuple[int, int, int]  # stage, then the two ids that order it
Candidate = tuple[Position, int]  # path id, or 0 if there is no match at this position

_START: Position = (0, 0, 0)


def search(
    snapshot: Snapshot,
    query: str,
    limit: int,
    after_cursor: str | None,
    within: Collection[str] | None,
    missing_from: Collection[str],
) -> SearchPage:
    """Return the next matching paths in an archive of `within` (any, if None) and in none of `missing_from`."""
    position = _position(after_cursor)
    candidates = _Candidates(snapshot, query.casefold()).after(position)
    wanted = _Filter(snapshot, within, missing_from)
    hits: list[PathHistory] = []
    room = PageRoom()
    work = 0
    while looked_at := list(islice(candidates, _CANDIDATES_AT_ONCE)):
        alive = wanted.not_missing({path for _, path in looked_at if path})
        for first in range(0, len(looked_at), _HISTORIES_AT_ONCE):
            group = looked_at[first : first + _HISTORIES_AT_ONCE]
            paths = [path for _, path in group if path in alive]
            found = wanted.within(histories(snapshot, paths)) if paths else {}
            work += len(group) + len(paths) * _WORK_OF_A_HISTORY
            for place, (position, path) in enumerate(group, first + 1):
                if path in found:
                    hits.append(found[path])
                    has_room = room.take_history(found[path])
                    if len(hits) == limit or not has_room:
                        rest = [*looked_at[place:], *islice(candidates, _CANDIDATES_AT_ONCE)]
                        return SearchPage(hits, cursor.encode("search", *position) if rest else None, False)
            if work > _WORK_MOST:
                return SearchPage(hits, cursor.encode("search", *position), True)
    return SearchPage(hits, None, False)


def _position(after_cursor: str | None) -> Position:
    if not after_cursor:
        return _START
    stage, first, second = (int(part) for part in cursor.decode(after_cursor, "search", int, int, int))
    return stage, first, second


class _Filter:
    def __init__(self, snapshot: Snapshot, within: Collection[str] | None, missing_from: Collection[str]) -> None:
        self._snapshot = snapshot
        self._within = None if within is None else set(within)
        absent = set(missing_from)
        rows = [row for row in snapshot.archives() if row.engine_id in absent] if absent else []
        self._absent = [bits.decode(snapshot.bits(row.id, all_chunks(snapshot))) for row in rows]

    def not_missing(self, paths: set[int]) -> set[int]:
        """Return the paths that none of the `missing_from` archives contains."""
        if not self._absent or not paths:
            return paths
        pairs = self._snapshot.versions_of_paths(paths)
        versions = np.fromiter((version for _, version in pairs), np.uint32, len(pairs))
        present = np.zeros(len(pairs), np.bool_)
        for packed in self._absent:
            present |= bits.member_mask(packed, versions)
        return paths - {path for (path, _), inside in zip(pairs, present.tolist(), strict=True) if inside}

    def within(self, found: dict[int, PathHistory]) -> dict[int, PathHistory]:
        if self._within is None:
            return found
        return {
            path: history
            for path, history in found.items()
            if any(presence.archive in self._within for presence in history.presence)
        }


class _Candidates:
    """Paths whose text matches, in a fixed order, from any position on.

    Without a slash, the text is searched for in names. With a slash, a match either ends in the name (the part after
    the last slash begins the name, the rest ends the directory) or is entirely in the directory; these are two separate
    stages. A path is searched with a slash in front, so that `/etc` finds `etc` at the root.
    """

    def __init__(self, snapshot: Snapshot, needle: str) -> None:
        self._snapshot = snapshot
        self._needle = needle
        self._above, slash, self._begin = needle.rpartition("/")
        self._has_slash = bool(slash)
        self._found: dict[tuple[tuple[str, ...], int], list[tuple[int, bytes]]] = {}
        """The last page of directories: the one that decides between the two ways is also the first page of one of
        them.
        """

    def after(self, position: Position) -> Iterator[Candidate]:
        stage, first, second = position
        if stage != _IN_DIRECTORY and (not self._has_slash or self._begin):
            way = stage or self._better_way()
            yield from (self._by_name if way == _BY_NAME else self._by_directory)(first, second)
            first = second = 0
        if self._has_slash:
            yield from self._inside_directory(first, second)

    def _better_way(self) -> int:
        """Choose how to find matches that end in a name: by names with that beginning, or by the directories above
        them.
        """
        if not self._has_slash or len(self._above) + 1 < SHORTEST_SEARCHED:
            return _BY_NAME
        if len(self._begin) < SHORTEST_SEARCHED:
            return _BY_DIRECTORY
        found = self._directories_like(tuple(searchable_parts(self._above + "/")), 0)
        return _BY_DIRECTORY if len(found) < _FETCH else _BY_NAME

    def _by_directory(self, first: int, second: int) -> Iterator[Candidate]:
        for directory, directory_path in self._directories(self._above + "/", first):
            if not self._ends_above(directory_path):
                yield (_BY_DIRECTORY, directory, 0), 0
                continue
            for number, name in self._paths_in(directory, second if directory == first else 0):
                yield (_BY_DIRECTORY, directory, number), number if self._in_name(name) else 0

    def _by_name(self, first: int, second: int) -> Iterator[Candidate]:
        for names in self._names(self._begin, first):
            matching = [number for number, name in names if self._in_name(name)]
            others = (((_BY_NAME, number, 0), 0) for number, name in names if not self._in_name(name))
            yield from merge(others, self._of_names(matching, (first, second)) if matching else ())

    def _of_names(self, names: list[int], after: tuple[int, int]) -> Iterator[Candidate]:
        for number, directory, path, above in self._paths_named(names, after):
            matches = not self._has_slash or self._ends_above(above)
            yield (_BY_NAME, number, directory), path if matches else 0

    def _inside_directory(self, first: int, second: int) -> Iterator[Candidate]:
        for directory, path in self._directories(self._needle, first):
            if self._needle not in folded(b"/" + path):
                yield (_IN_DIRECTORY, directory, 0), 0
                continue
            ends_above = bool(self._begin) and self._ends_above(path)
            for number, name in self._paths_in(directory, second if directory == first else 0):
                already_shown = ends_above and self._in_name(name)
                yield (_IN_DIRECTORY, directory, number), 0 if already_shown else number

    def _in_name(self, name: bytes) -> bool:
        return folded(name).startswith(self._begin) if self._has_slash else self._needle in folded(name)

    def _ends_above(self, directory: bytes) -> bool:
        return folded(b"/" + directory).endswith(self._above + "/")

    def _names(self, text: str, first: int) -> Iterator[list[tuple[int, bytes]]]:
        parts, after = searchable_parts(text), max(first - 1, 0)
        return _pages(lambda last: self._snapshot.names_like(parts, last[0] if last else after, _FETCH))

    def _directories(self, text: str, first: int) -> Iterator[tuple[int, bytes]]:
        parts, after = searchable_parts(text), max(first - 1, 0)
        pages = _pages(lambda last: self._directories_like(tuple(parts), last[0] if last else after))
        return chain.from_iterable(pages)

    def _directories_like(self, parts: tuple[str, ...], after: int) -> list[tuple[int, bytes]]:
        if (parts, after) not in self._found:
            self._found = {(parts, after): self._snapshot.directories_like(parts, after, _FETCH)}
        return self._found[parts, after]

    def _paths_named(self, names: list[int], after: tuple[int, int]) -> Iterator[tuple[int, int, int, bytes]]:
        pages = _pages(lambda last: self._snapshot.paths_named(names, last[:2] if last else after, _FETCH))
        return chain.from_iterable(pages)

    def _paths_in(self, directory: int, after: int) -> Iterator[tuple[int, bytes]]:
        pages = _pages(lambda last: self._snapshot.paths_in(directory, last[0] if last else after, _FETCH))
        return chain.from_iterable(pages)


def _pages(read: Callable[[Row | None], list[Row]]) -> Iterator[list[Row]]:
    """Yield pages of rows, each after the last row of the previous page, until a page is not full."""
    rows = read(None)
    while rows:
        yield rows
        if len(rows) < _FETCH:
            return
        rows = read(rows[-1])
