"""The expected results of the index, computed naively from plain dictionaries; and random archives."""

import random
import stat
from dataclasses import dataclass, field, replace

from holdfast.history.answers import ChangeKind, ChangePage, unchanged
from holdfast.history.entry import Entry
from holdfast.history.index import HistoryIndex

Files = dict[bytes, Entry]
Changes = dict[bytes, tuple[ChangeKind, Entry | None, Entry | None]]

ODD_NAMES = [
    b"plain.txt",
    b"Plain.TXT",
    b"caf\xe9.txt",
    b"caf\xc3\xa9.txt",
    b"new\nline",
    b"tab\there",
    b"quote'\"both",
    b"back\\slash",
    b"what?",
    b"per%cent_under",
    "Straße".encode(),
    b"STRASSE",
    "Kelvin\u212a".encode(),
    "日本語".encode(),
    b"\xff\xfe",
    b"a",
    b"ab",
    b"abc",
    b"...",
    b" ",
]


def a_file(
    path: bytes, *, size: int = 10, mtime: int = 1_700_000_000_000_001, content: int = 7, mode: int = 0o644
) -> Entry:
    return Entry(path, stat.S_IFREG | mode, 1000, 100, "user", "users", size, mtime, b"", content if size else 0)


def a_directory(path: bytes, *, mtime: int = 1_700_000_000_000_000) -> Entry:
    return Entry(path, stat.S_IFDIR | 0o755, 1000, 100, "user", "users", 0, mtime)


def a_link(path: bytes, target: bytes) -> Entry:
    return Entry(path, stat.S_IFLNK | 0o777, 0, 0, None, None, len(target), 1_600_000_000_000_000, target)


def archive_of(*entries: Entry) -> Files:
    return {entry.path: entry for entry in entries}


@dataclass
class Model:
    archives: dict[str, Files] = field(default_factory=dict)

    def changes(self, before: str, after: str, prefix: bytes = b"") -> Changes:
        old, new = self.archives[before], self.archives[after]
        found: Changes = {}
        for path in old.keys() | new.keys():
            if prefix and path != prefix and not path.startswith(prefix + b"/"):
                continue
            left, right = old.get(path), new.get(path)
            if left is None:
                found[path] = (ChangeKind.ADDED, left, right)
            elif right is None:
                found[path] = (ChangeKind.REMOVED, left, right)
            elif not unchanged(left, right):
                found[path] = (ChangeKind.MODIFIED, left, right)
        return found

    def history(self, path: bytes) -> dict[str, Entry]:
        return {name: files[path] for name, files in self.archives.items() if path in files}

    def browse(self, archive: str, directory: bytes) -> list[tuple[bytes, Entry | None]]:
        """Names and entries in a folder; None for a folder that is known only from its children."""
        start = directory + b"/" if directory else b""
        found: dict[bytes, Entry | None] = {}
        for path, entry in self.archives[archive].items():
            if not path.startswith(start) or path == b".":
                continue
            name, slash, _ = path[len(start) :].partition(b"/")
            if slash:
                found.setdefault(name, None)
            else:
                found[name] = entry
        return sorted(found.items())

    def search(self, query: str) -> set[bytes]:
        needle = query.casefold()
        found = set()
        for path in {path for files in self.archives.values() for path in files}:
            text = b"/" + path if "/" in needle else path.rpartition(b"/")[2]
            if needle in text.decode("utf-8", "surrogateescape").casefold():
                found.add(path)
        return found


def random_archive(rng: random.Random, size: int = 36) -> Files:
    directories = [b""]
    files: Files = {}
    for _ in range(size // 4):
        parent = rng.choice(directories)
        path = (parent + b"/" if parent else b"") + _name(rng)
        if path not in directories:
            directories.append(path)
            if rng.random() < 0.8:  # some parents are not listed
                files[path] = a_directory(path, mtime=rng.randrange(10**15))
    while len(files) < size:
        parent = rng.choice(directories)
        path = (parent + b"/" if parent else b"") + _name(rng)
        if path not in directories:
            files[path] = _random_entry(rng, path)
    if rng.random() < 0.3:
        files[b"."] = a_directory(b".")
    return files


def changed(rng: random.Random, files: Files) -> Files:
    """The archive of the next day: some files changed, added, removed."""
    result = dict(files)
    for path in rng.sample(sorted(files), max(1, len(files) // 8)):
        roll = rng.random()
        if roll < 0.3:
            del result[path]
        elif roll < 0.6:
            result[path] = _random_entry(rng, path)
        else:
            result[path] = files[path]._replace(mtime=rng.randrange(10**15))
    for _ in range(len(files) // 10):
        parent = rng.choice([path.rpartition(b"/")[0] for path in files])
        path = (parent + b"/" if parent else b"") + _name(rng)
        result.setdefault(path, _random_entry(rng, path))
    return result


def _name(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return rng.choice(ODD_NAMES)
    return bytes(rng.choice(b"abcdefABC.-_") for _ in range(rng.randrange(1, 9))) + b"x"


def _random_entry(rng: random.Random, path: bytes) -> Entry:
    roll = rng.random()
    if roll < 0.1:
        return a_link(path, rng.choice([b"target", b"lost\xe9", b"why?", b"dir/x"]))
    if roll < 0.15:
        return a_file(path, size=0)._replace(link=rng.choice([b"first/name", b"odd\xff"]))
    return a_file(
        path,
        size=rng.choice([0, 1, 5]),
        mtime=rng.choice([1, 2, 10**15]),
        content=rng.randrange(1, 3),
        mode=rng.choice([0o600, 0o644, 0o4755]),
    )


def all_changes(index: HistoryIndex, before: str, after: str, prefix: bytes = b"", limit: int = 7) -> ChangePage:
    """Read every page and return them as one."""
    page = index.changes(before, after, prefix=prefix, limit=limit)
    rows = list(page.changes)
    while page.next_cursor:
        page = index.changes(before, after, prefix=prefix, limit=limit, cursor=page.next_cursor)
        rows += page.changes
    return replace(page, changes=rows)


def check_everything(index: HistoryIndex, model: Model, rng: random.Random, *, pairs: int = 6) -> None:
    """Compare every kind of query of the index with the model."""
    assert {one.engine_id for one in index.archives()} == model.archives.keys()
    for name, files in model.archives.items():
        assert {entry.path: entry for entry in index.entries(name)} == files
        check_browse(index, model, name)
    names = sorted(model.archives)
    for _ in range(pairs if len(names) > 1 else 0):
        before, after = rng.sample(names, 2)
        prefixes = [b"", *{path.rpartition(b"/")[0] for path in model.archives[after]}]
        check_changes(index, model, before, after, b"")
        check_changes(index, model, before, after, rng.choice(prefixes))
    for path in {path for files in model.archives.values() for path in files}:
        assert {one.archive: one.entry for one in index.path_history(path).presence} == model.history(path)
    for query in (
        "a",
        "AB",
        "plain",
        "straße",
        "STRASSE",
        "é",
        "日本",
        "/",
        "a/",
        "x/",
        "/a",
        "b/a",
        "%",
        "_",
        "\\",
        "\udcff",
        "kelvink",
        "?",
    ):
        check_search(index, model, query)


def check_changes(index: HistoryIndex, model: Model, before: str, after: str, prefix: bytes) -> None:
    page = all_changes(index, before, after, prefix)
    expected = model.changes(before, after, prefix)
    assert {row.path: (row.kind, row.before, row.after) for row in page.changes} == expected
    assert len(page.changes) == len(expected)
    assert sum(page.totals.values()) == len(expected)


def check_browse(index: HistoryIndex, model: Model, archive: str) -> None:
    directories = {b""}
    for path in model.archives[archive]:
        while path := path.rpartition(b"/")[0]:
            directories.add(path)
    for directory in directories:
        expected = model.browse(archive, directory)
        found = []
        page = index.browse(archive, directory, limit=5)
        while True:
            assert page.exists
            found += page.entries
            if page.next_cursor is None:
                break
            page = index.browse(archive, directory, limit=5, cursor=page.next_cursor)
        start = directory + b"/" if directory else b""
        assert [(entry.path[len(start) :], None if entry.is_implicit else entry) for entry in found] == expected


def check_search(index: HistoryIndex, model: Model, query: str) -> None:
    found: list[bytes] = []
    page = index.search(query, limit=4)
    while True:
        found += [hit.path for hit in page.hits]
        if page.next_cursor is None:
            break
        page = index.search(query, limit=4, cursor=page.next_cursor)
    assert len(found) == len(set(found))
    assert set(found) == model.search(query)
