"""Turn parsed entries into version ids: find each in the index, or add it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count

import numpy as np

from holdfast.history import columns
from holdfast.history.bits import Ids
from holdfast.history.entry import IMPLICIT, INEXACT, Entry, listed, printable
from holdfast.history.folder_sizes import stored_bytes
from holdfast.history.names import ROOT, entry_of, key32, rendered, split_path
from holdfast.history.schema import (
    DIRECTORY_ENTRY,
    DIRECTORY_PARENT,
    PATH_DIRECTORY,
    VERSION_BYTES,
    VERSION_LINK,
    VERSION_PATH,
    VERSION_TWIN,
)
from holdfast.history.store import OwnerKey, Row, Snapshot, Transaction, VersionKey

_KNOWN_MOST = 250_000  # names and directories that are remembered between batches
_KNOWN_BYTES_MOST = 16 * 1024 * 1024

Pair = tuple[int, int]  # directory id, name id


class Dictionary:
    """Interns batches of entries. Requires the right to write (`Store.exclusive`).

    Ids are counted in memory, not in the store.
    """

    def __init__(self, snapshot: Snapshot, *, mixed: bool) -> None:
        self._mixed = mixed  # the index contains both exact versions and versions from the CLI listing
        self._next = {table: snapshot.top_id(table) + 1 for table in ("directory", "name", "owner", "path")}
        self._next["name"] = max(self._next["name"], last_name_swept(snapshot) + 1)
        self._owners = snapshot.owners()
        self._directories: dict[bytes, int] = {}
        self._names: dict[bytes, int] = {}
        self._version_ids = _free_ids(snapshot)
        self.directory_bytes = 0  # of new directories
        self._remembered_bytes = 0

    def intern(self, transaction: Transaction, entries: Sequence[Entry]) -> Ids:
        """Return the version ids of these entries, adding missing ones."""
        batch = _Batch(transaction, self._next)
        places = [split_path(entry.path) for entry in entries]
        linked = {entry.link: split_path(entry.link) for entry in entries if entry.is_hard_link}
        new_directories = self._intern_directories(batch, {directory for directory, _ in (*places, *linked.values())})
        own_entries = {directory: entry_of(directory) for directory in new_directories}
        others = [*linked.values(), *own_entries.values()]
        self._intern_names(batch, dict.fromkeys(name for _, name in (*places, *others)))
        pairs = [self._pair(place) for place in places]
        paths = self._intern_paths(batch, [*pairs, *(self._pair(place) for place in others)])
        self._tie_directories(batch, own_entries, paths)
        keys = [self._version_key(batch, paths[pair], entry) for pair, entry in zip(pairs, entries, strict=True)]
        versions = self._intern_versions(batch, keys, entries)
        for key, entry in zip(keys, entries, strict=True):
            if entry.is_hard_link:
                batch.set_number(VERSION_LINK, versions[key], paths[self._pair(linked[entry.link])])
        batch.write()
        self._forget_if_many()
        return np.fromiter((versions[key] for key in keys), np.uint32, len(keys))

    def _pair(self, place: tuple[bytes, bytes]) -> Pair:
        return self._directories[place[0]], self._names[place[1]]

    def _take_id(self, table: str) -> int:
        taken = self._next[table]
        self._next[table] = taken + 1
        return taken

    def _intern_directories(self, batch: "_Batch", wanted: Iterable[bytes]) -> list[bytes]:
        """Look up or add all these directories and their parents; return the new ones, parents first."""
        unknown: set[bytes] = set()
        for directory in wanted:
            above = directory
            while above not in self._directories and above not in unknown:
                unknown.add(above)
                above = entry_of(above)[0] if above else ROOT
        found = batch.transaction.find_directories(list(unknown))
        self._directories |= found
        self._remembered_bytes += sum(map(len, unknown))
        new = sorted(unknown - found.keys(), key=len)
        for directory in new:
            number = self._directories[directory] = self._take_id("directory")
            batch.rows["directory"].append((number, key32(directory), directory))
            self.directory_bytes += len(directory)
        return new

    def _intern_names(self, batch: "_Batch", wanted: Iterable[bytes]) -> None:
        unknown = [name for name in wanted if name not in self._names]
        found = batch.transaction.find_names(unknown)
        self._names |= found
        self._remembered_bytes += sum(map(len, unknown))
        for name in unknown:
            if name not in found:
                number = self._names[name] = self._take_id("name")
                batch.rows["name"].append((number, key32(name), name, None if name.isascii() else rendered(name)))

    def _intern_paths(self, batch: "_Batch", pairs: list[Pair]) -> dict[Pair, int]:
        old = [pair for pair in pairs if not (batch.is_new("directory", pair[0]) or batch.is_new("name", pair[1]))]
        paths = batch.transaction.find_paths(old)
        for pair in pairs:  # in the order of the archive, so that the ids follow it
            if pair not in paths:
                number = paths[pair] = self._take_id("path")
                batch.rows["path"].append((number, *pair))
                batch.set_number(PATH_DIRECTORY, number, pair[0])
        return paths

    def _tie_directories(
        self, batch: "_Batch", own_entries: dict[bytes, tuple[bytes, bytes]], paths: dict[Pair, int]
    ) -> None:
        for directory, place in own_entries.items():
            number = self._directories[directory]
            batch.set_number(DIRECTORY_PARENT, number, self._directories[place[0]])
            batch.set_number(DIRECTORY_ENTRY, number, paths[self._pair(place)])

    def _version_key(self, batch: "_Batch", path: int, entry: Entry) -> VersionKey:
        owner = self._owner(batch, entry)
        return VersionKey(path, owner, entry.size, entry.mtime, entry.link, entry.content, entry.flags)

    def _owner(self, batch: "_Batch", entry: Entry) -> int:
        key = OwnerKey(*entry[1:6])
        number = self._owners.get(key)
        if number is None:
            number = self._owners[key] = self._take_id("owner")
            batch.rows["owner"].append((number, *key))
        return number

    def _intern_versions(
        self, batch: "_Batch", keys: list[VersionKey], entries: Sequence[Entry]
    ) -> dict[VersionKey, int]:
        old = [key for key in dict.fromkeys(keys) if not batch.is_new("path", key.path)]
        versions = batch.transaction.find_versions(old)
        added: list[tuple[VersionKey, Entry]] = []
        for key, entry in zip(keys, entries, strict=True):
            if key not in versions:
                number = versions[key] = next(self._version_ids)
                batch.rows["version"].append((number, *key))
                batch.set_number(VERSION_PATH, number, key.path)
                batch.set_number(VERSION_BYTES, number, stored_bytes(entry.file_bytes))
                batch.adds_implicit |= key.flags == IMPLICIT
                if not batch.is_new("path", key.path):
                    added.append((key, entry))
        if self._mixed:
            self._tie_twins(batch, added, versions)
        return versions

    def _tie_twins(
        self, batch: "_Batch", added: list[tuple[VersionKey, Entry]], versions: dict[VersionKey, int]
    ) -> None:
        """Link each exact version with the version of the CLI listing that may be the same unchanged file."""
        shown = {key: _listed_key(key, entry) for key, entry in added if not key.flags}
        candidates = batch.transaction.find_versions([other for key, other in shown.items() if other != key])
        for key, other in shown.items():
            if other in candidates:
                batch.set_number(VERSION_TWIN, versions[key], candidates[other])
        inexact = [key for key, _ in added if key.flags & INEXACT]
        for key, exact, link in batch.transaction.exact_versions_like(inexact):
            if printable(link) == key.link:
                batch.set_number(VERSION_TWIN, exact, versions[key])

    def _forget_if_many(self) -> None:
        is_much = self._remembered_bytes > _KNOWN_BYTES_MOST
        if is_much or len(self._directories) > _KNOWN_MOST:
            self._directories.clear()
        if is_much or len(self._names) > _KNOWN_MOST:
            self._names.clear()
        if is_much:
            self._remembered_bytes = 0


def last_name_swept(snapshot: Snapshot) -> int:
    """Return the highest name id at the last sweep of names, so that no id is reused and readers of new names miss
    none.
    """
    return int(snapshot.meta().get("last_name", b"0"))


def _listed_key(key: VersionKey, entry: Entry) -> VersionKey:
    shown = listed(entry)
    return key._replace(link=shown.link, content=0, flags=shown.flags)


def _free_ids(snapshot: Snapshot) -> Iterator[int]:
    """Yield ids that a sweep freed, then new ones, so that ids stay dense."""
    top = snapshot.top_id("version")
    taken = columns.load(snapshot, VERSION_PATH)[: top + 1]
    return chain((np.flatnonzero(taken[1:] == 0) + 1).tolist(), count(top + 1))


class _Batch:
    """The rows and numbers that one transaction will write."""

    def __init__(self, transaction: Transaction, next_ids: dict[str, int]) -> None:
        self.transaction = transaction
        self._first_new = dict(next_ids)
        self.adds_implicit = False
        self.rows: dict[str, list[Row]] = {"directory": [], "name": [], "owner": [], "path": [], "version": []}
        self._numbers: dict[int, tuple[list[int], list[int]]] = {}

    def is_new(self, table: str, number: int) -> bool:
        return number >= self._first_new[table]

    def set_number(self, kind: int, number: int, value: int) -> None:
        ids, values = self._numbers.setdefault(kind, ([], []))
        ids.append(number)
        values.append(value)

    def write(self) -> None:
        for table, rows in self.rows.items():
            if rows:
                self.transaction.insert(table, rows)
        for kind, (ids, values) in self._numbers.items():
            columns.update(self.transaction, kind, np.array(ids, np.int64), np.array(values, np.int64))
        if self.adds_implicit:  # readers that keep a list of them have to read it again
            number = int(self.transaction.meta().get("implicit", b"0"))
            self.transaction.set_meta("implicit", str(number + 1).encode())
