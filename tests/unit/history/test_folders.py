"""Folders sorted, filtered and with sizes, and changes by folder, compared with a naive computation."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from holdfast.history import bits
from holdfast.history.answers import BrowsePage, BrowseSort, ChangeKind, EntryFacts, GroupPage, unchanged
from holdfast.history.entry import Entry
from holdfast.history.errors import InvalidCursor
from holdfast.history.folder_sizes import complete_sizes
from holdfast.history.index import HistoryIndex
from tests.unit.history.model import Files, Model, a_directory, a_file, a_link, archive_of, changed, random_archive
from tests.unit.history.sources import listing_of
from tests.unit.history.test_index import add_chunks, add_listing

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(2, 8))]


def directories_of(files: Files) -> set[bytes]:
    found = {b""}
    for path in files:
        while path := path.rpartition(b"/")[0]:
            found.add(path)
    return found


def pages(ask: Callable[[str | None], Any]) -> Iterator[Any]:
    cursor: str | None = None
    while True:
        page = ask(cursor)
        yield page
        if (cursor := page.next_cursor) is None:
            return


def below(files: Files, folder: bytes) -> list[Entry]:
    return [entry for path, entry in files.items() if path.startswith(folder + b"/")]


def weight(files: Files, folder: bytes) -> int:
    return sum(entry.size for entry in below(files, folder) if entry.type == "-" and not entry.link)


def rank(model: Model, archive: str, sort: BrowseSort, path: bytes, entry: Entry | None) -> int:
    if sort in (BrowseSort.MODIFIED, BrowseSort.MODIFIED_DOWN):
        found = entry.mtime if entry else 0
    else:
        found = (entry.size if entry else 0) + weight(model.archives[archive], path)
    return -found if sort in (BrowseSort.SIZE_DOWN, BrowseSort.MODIFIED_DOWN) else found


def expected_names(model: Model, archive: str, directory: bytes, sort: BrowseSort, text: str) -> list[bytes]:
    start = directory + b"/" if directory else b""
    listed = [
        (name, entry)
        for name, entry in model.browse(archive, directory)
        if text.casefold() in name.decode("utf-8", "surrogateescape").casefold()
    ]
    if sort in (BrowseSort.NAME, BrowseSort.NAME_DOWN):
        return sorted((name for name, _ in listed), reverse=sort is BrowseSort.NAME_DOWN)
    ordered = sorted((rank(model, archive, sort, start + name, entry), name) for name, entry in listed)
    return [name for _, name in ordered]


def expected_facts(model: Model, archive: str, before: str, path: bytes) -> EntryFacts:
    files, old = model.archives[archive], model.archives[before]
    entry, earlier = files.get(path), old.get(path)
    is_folder = entry is None or entry.is_directory
    change = None
    if entry is not None and earlier is None:
        change = ChangeKind.ADDED
    elif entry is not None and earlier is not None and not unchanged(earlier, entry):
        change = ChangeKind.MODIFIED
    return EntryFacts(
        compared=entry is not None,
        change=change,
        item_count=len(model.browse(archive, path)) if is_folder else None,
        subtree_size=weight(files, path) if is_folder else None,
    )


def check_folders(index: HistoryIndex, model: Model, rng: random.Random) -> None:
    for archive, files in model.archives.items():
        before = rng.choice(sorted(model.archives))
        for directory in directories_of(files):
            start = directory + b"/" if directory else b""
            sort, text = rng.choice(list(BrowseSort)), rng.choice(["", "", "a", "A", "é", "x", "straße", "\udcff"])
            found: list[bytes] = []
            for page in pages(
                lambda cursor, archive=archive, directory=directory, sort=sort, text=text, before=before: index.browse(
                    archive,
                    directory,
                    limit=3,
                    cursor=cursor,
                    sort=sort,
                    text=text,
                    sizes=True,
                    against=before,
                )
            ):
                assert isinstance(page, BrowsePage)
                found += [entry.path.removeprefix(start) for entry in page.entries]
                for entry in page.entries:
                    assert page.facts[entry.path] == expected_facts(model, archive, before, entry.path)
                assert page.total == len(expected_names(model, archive, directory, sort, text))
            assert found == expected_names(model, archive, directory, sort, text), (directory, sort, text)


def file_bytes(entry: Entry | None) -> int:
    return entry.size if entry is not None and entry.type == "-" and not entry.link else 0


Group = tuple[dict[ChangeKind, int], int, int]


def expected_groups(
    model: Model, before: str, after: str, folder: bytes, kinds: list[ChangeKind]
) -> dict[bytes, Group]:
    start = folder + b"/" if folder else b""
    groups: dict[bytes, Group] = {}
    for path, (kind, left, right) in model.changes(before, after, folder).items():
        if not path.startswith(start) or (kinds and kind not in kinds):
            continue
        child = start + path[len(start) :].partition(b"/")[0]
        counts, more, less = groups.get(child, (dict.fromkeys(ChangeKind, 0), 0, 0))
        counts[kind] += 1
        growth = file_bytes(right) - file_bytes(left)
        groups[child] = (counts, more + max(growth, 0), less + max(-growth, 0))
    return groups


def check_groups(index: HistoryIndex, model: Model, rng: random.Random) -> None:
    for _ in range(8):
        before, after = rng.choice(sorted(model.archives)), rng.choice(sorted(model.archives))
        folder = rng.choice(sorted(directories_of(model.archives[after]) | directories_of(model.archives[before])))
        kinds = rng.choice([[], [], [ChangeKind.ADDED], [ChangeKind.REMOVED, ChangeKind.MODIFIED]])
        found = {}
        names: list[bytes] = []
        for page in pages(
            lambda cursor, before=before, after=after, folder=folder, kinds=kinds: index.change_groups(
                before, after, folder=folder, kinds=kinds, limit=2, cursor=cursor
            )
        ):
            assert isinstance(page, GroupPage)
            for group in page.groups:
                assert group.bytes is not None
                found[group.path] = (group.counts, group.bytes.added, group.bytes.removed)
                names.append(group.path)
        assert found == expected_groups(model, before, after, folder, kinds)
        assert names == sorted(found)
        flat = index.changes(before, after, prefix=folder)
        rows = model.changes(before, after, folder).values()
        growth = [file_bytes(right) - file_bytes(left) for _, left, right in rows]
        assert flat.bytes == page.bytes
        assert flat.totals == page.totals
        assert flat.bytes is not None
        assert flat.bytes.added == sum(one for one in growth if one > 0)
        assert flat.bytes.removed == -sum(one for one in growth if one < 0)
        assert flat.bytes.net == sum(growth)


@pytest.mark.parametrize("seed", SEEDS)
def test_folders_and_groups_of_random_archives_match_a_naive_computation(index: HistoryIndex, seed: int) -> None:
    rng = random.Random(300 + seed)
    model = Model()
    files = random_archive(rng, 60)
    for day in range(4):
        (add_listing if rng.random() < 0.5 else add_chunks)(index, model, f"day{day}", files)
        files = changed(rng, files)
    check_folders(index, model, rng)
    check_groups(index, model, rng)
    index.remove(["day1"])
    del model.archives["day1"]
    index.sweep()
    add_listing(index, model, "later", files)
    check_folders(index, model, rng)
    check_groups(index, model, rng)


def test_a_folder_is_as_large_as_all_files_below_it(index: HistoryIndex) -> None:
    files = archive_of(
        a_directory(b"top"),
        a_directory(b"top/empty"),
        a_file(b"top/a", size=3),
        a_file(b"top/deep/er/b", size=40),
        a_link(b"top/link", b"a"),
        a_file(b"top/second name", size=0)._replace(link=b"top/a"),
        a_file(b"other", size=500),
    )
    add_chunks(index, Model(), "one", files)
    page = index.browse("one", b"", sizes=True)
    assert page.facts[b"top"] == EntryFacts(item_count=5, subtree_size=43)
    assert page.facts[b"other"] == EntryFacts()
    inside = index.browse("one", b"top", sizes=True).facts
    assert (inside[b"top/deep"].item_count, inside[b"top/deep"].subtree_size) == (1, 40)
    assert (inside[b"top/empty"].item_count, inside[b"top/empty"].subtree_size) == (0, 0)
    assert index.browse("one", b"").facts[b"top"] == EntryFacts()


def test_an_index_of_an_earlier_release_has_no_folder_sizes_until_its_next_archive(index: HistoryIndex) -> None:
    model = Model()
    files = archive_of(a_file(b"dir/a", size=3), a_file(b"dir/b", size=4))
    add_chunks(index, model, "one", files)
    with index._store.write() as transaction:
        transaction.delete("numbers", [14 << 32])
        transaction._connection.execute("DELETE FROM meta WHERE key = 'version_bytes'")  # type: ignore[attr-defined]
    facts = index.browse("one", b"", sizes=True).facts[b"dir"]
    assert (facts.item_count, facts.subtree_size) == (None, None)
    assert [entry.path for entry in index.browse("one", b"", sort=BrowseSort.SIZE).entries] == [b"dir"]
    add_listing(index, model, "two", archive_of(a_file(b"dir/a", size=3), a_file(b"new", size=9)))
    assert index.browse("one", b"", sizes=True).facts[b"dir"].subtree_size == 7
    assert index.browse("two", b"", sizes=True).facts[b"dir"].subtree_size == 3
    grown = index.changes("one", "two").bytes
    assert grown is not None
    assert (grown.added, grown.removed, grown.net) == (9, 4, 5)
    complete_sizes(index._store)


def test_changes_in_an_index_of_an_earlier_release_have_no_byte_counts(index: HistoryIndex) -> None:
    model = Model()
    add_chunks(index, model, "one", archive_of(a_file(b"dir/a", size=3)))
    add_chunks(index, model, "two", archive_of(a_file(b"dir/a", size=5)))
    with index._store.write() as transaction:
        transaction._connection.execute("DELETE FROM meta WHERE key = 'version_bytes'")  # type: ignore[attr-defined]
    assert index.changes("one", "two").bytes is None
    (group,) = index.change_groups("one", "two").groups
    assert (group.path, group.type, group.bytes, group.counts[ChangeKind.MODIFIED]) == (b"dir", "d", None, 1)


def test_impossibly_large_file_sizes_do_not_overflow(index: HistoryIndex) -> None:
    files = archive_of(*(a_file(b"dir/%d" % number, size=2**63 - 1) for number in range(5)))
    index.ingest_listing("small", listing_of([a_file(b"dir/0", size=1)]))
    index.ingest_listing("huge", listing_of(files.values()))
    size = index.browse("huge", b"", sizes=True).facts[b"dir"].subtree_size
    assert size is not None
    assert size > 2**63
    grown = index.changes("small", "huge").bytes
    assert grown is not None
    assert grown.added > 2**63
    assert len(index.browse("huge", b"dir", sort=BrowseSort.SIZE_DOWN, limit=2).entries) == 2


def test_names_that_are_left_out_are_not_counted(index: HistoryIndex) -> None:
    add_chunks(index, Model(), "one", archive_of(a_file(b"a"), a_file(b"b"), a_file(b"c")))
    page = index.browse("one", b"", without=[b"b"], limit=1)
    assert (page.total, [entry.path for entry in page.entries]) == (2, [b"a"])
    rest = index.browse("one", b"", without=[b"b"], cursor=page.next_cursor)
    assert [entry.path for entry in rest.entries] == [b"c"]


@pytest.mark.parametrize("sort", list(BrowseSort))
def test_a_cursor_is_valid_for_its_sort_order_only(index: HistoryIndex, sort: BrowseSort) -> None:
    add_chunks(index, Model(), "one", archive_of(*(a_file(b"%d" % number, size=number) for number in range(4))))
    cursor = index.browse("one", b"", sort=sort, limit=2).next_cursor
    assert cursor is not None
    for other in BrowseSort:
        if other is not sort:
            with pytest.raises(InvalidCursor):
                index.browse("one", b"", sort=other, cursor=cursor)


def test_the_type_of_a_group_is_that_in_the_later_archive(index: HistoryIndex) -> None:
    model = Model()
    before = archive_of(a_file(b"x/was a file"), a_file(b"x/gone"), a_file(b"x/folder/a"), a_directory(b"x"))
    after = archive_of(
        a_directory(b"x/was a file"), a_file(b"x/was a file/a"), a_file(b"x/folder/b"), a_link(b"x/link", b"a")
    )
    add_chunks(index, model, "one", before)
    add_chunks(index, model, "two", after)
    found = {group.path: group.type for group in index.change_groups("one", "two", folder=b"x").groups}
    assert found == {b"x/folder": "d", b"x/gone": "-", b"x/link": "l", b"x/was a file": "d"}
    assert index.change_groups("one", "two", folder=b"x/gone").groups == []
    assert index.change_groups("one", "two", folder=b"nowhere").groups == []


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.5, 1.0])
def test_packed_ids_are_unpacked_unchanged(share: float) -> None:
    rng = np.random.default_rng(3)
    ids = np.flatnonzero(rng.random(50_000) < share).astype(np.uint32)
    unpacked = bits.unpack(bits.pack(ids))
    assert unpacked.dtype == np.uint32
    assert unpacked.tolist() == ids.tolist()
