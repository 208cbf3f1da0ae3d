"""The index compared with a naive computation of the same results."""

import io
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from holdfast.history.answers import ChangeKind, unchanged
from holdfast.history.changes import Comparer, Comparison
from holdfast.history.entry import Entry, listed
from holdfast.history.errors import ArchiveNotIndexed, InvalidCursor, ListingFailed
from holdfast.history.excludes import Excludes
from holdfast.history.index import HistoryIndex
from holdfast.history.listing import Listing
from tests.unit.history.model import (
    Files,
    Model,
    a_directory,
    a_file,
    a_link,
    all_changes,
    archive_of,
    changed,
    check_browse,
    check_changes,
    check_everything,
    check_search,
    random_archive,
)
from tests.unit.history.sources import FakeChunks, listing_of, record

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(2, 6))]
"""Two seeds are enough to notice most mistakes; the campaign looks for rare ones."""


def add_listing(index: HistoryIndex, model: Model, name: str, files: Files, base: str | None = None) -> None:
    index.ingest_listing(name, listing_of(files.values()), base=base)
    model.archives[name] = {path: listed(entry) for path, entry in files.items()}


def add_chunks(index: HistoryIndex, model: Model, name: str, files: Files, series: str = "daily") -> None:
    index.ingest_chunks(name, FakeChunks().add(name, files.values()), series=series)
    model.archives[name] = {path: as_item(index, path, name, entry) for path, entry in files.items()}


def as_item(index: HistoryIndex, path: bytes, archive: str, entry: Entry) -> Entry:
    """Content ids are keyed per index: take them from it; they are still compared between archives."""
    found = index.path_history(path).in_archive(archive)
    assert found is not None
    assert bool(found.entry.content) == bool(entry.content and not entry.link)
    return entry._replace(content=found.entry.content)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_archives_ingested_in_any_order_with_any_base_match_the_model(index: HistoryIndex, seed: int) -> None:
    rng = random.Random(seed)
    model = Model()
    days = [random_archive(rng)]
    for _ in range(5):
        days.append(changed(rng, days[-1]))
    order = rng.sample(range(len(days)), len(days))
    for day in order:
        base = rng.choice([None, *model.archives])
        add_listing(index, model, f"day{day}", days[day], base)
    check_everything(index, model, rng)


@pytest.mark.parametrize("seed", SEEDS)
def test_archives_ingested_by_both_routes_match_the_model(index: HistoryIndex, seed: int) -> None:
    rng = random.Random(100 + seed)
    model = Model()
    files = random_archive(rng)
    for day in range(6):
        if rng.random() < 0.5:
            add_listing(index, model, f"day{day}", files, rng.choice([None, *model.archives]))
        else:
            add_chunks(index, model, f"day{day}", files, rng.choice(["one", "two"]))
        files = changed(rng, files)
    check_everything(index, model, rng)


@pytest.mark.parametrize("seed", SEEDS)
def test_removal_and_sweep_leave_other_archives_unchanged(index: HistoryIndex, seed: int) -> None:
    rng = random.Random(200 + seed)
    model = Model()
    files = random_archive(rng)
    for day in range(8):
        (add_listing if rng.random() < 0.5 else add_chunks)(index, model, f"day{day}", files)
        files = changed(rng, files)
        if day in (3, 5):
            for name in rng.sample(sorted(model.archives), 2):
                assert index.remove([name]) == 1
                del model.archives[name]
            check_everything(index, model, rng, pairs=2)
            assert index.sweep().versions > 0
    check_everything(index, model, rng)
    assert index.damage() == []


def test_a_stored_comparison_is_kept_until_one_of_its_archives_is_removed(index: HistoryIndex) -> None:
    model = Model()
    rng = random.Random(7)
    files = random_archive(rng)
    for day in ("one", "two", "three"):
        add_listing(index, model, day, files, base={"two": "one", "three": "two"}.get(day))
        files = changed(rng, files)

    def kept(before: str, after: str) -> Comparison | None:
        with index._store.read() as snapshot:
            rows = snapshot.archive(before), snapshot.archive(after)
            data = snapshot.comparison(rows[0].id, rows[1].id) if rows[0] and rows[1] else None
        return Comparison.load(data) if data is not None else None

    with index._store.read() as snapshot:
        rows = snapshot.archive("two"), snapshot.archive("three")
        assert rows[0] is not None
        assert rows[1] is not None
        computed = Comparer().computed(snapshot, rows[0], rows[1])
    stored = kept("two", "three")
    assert stored is not None
    assert [column.tolist() for column in (stored.paths, stored.before, stored.after)] == [
        column.tolist() for column in (computed.paths, computed.before, computed.after)
    ]
    assert len(stored.paths) > 0
    assert kept("one", "three") is None
    index.remove(["one"])
    assert kept("two", "three") is not None
    index.remove(["two"])
    with index._store.read() as snapshot:
        assert snapshot.rows("SELECT count(*) FROM comparison")[0][0] == 0  # type: ignore[attr-defined]


def test_swept_rows_are_gone_and_their_ids_are_reused(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "old", archive_of(*(a_file(b"old/%d" % number) for number in range(50))))
    add_listing(index, model, "kept", archive_of(a_file(b"kept/a"), a_directory(b"kept")))
    before = index.stats()
    index.remove(["old"])
    swept = index.sweep()
    assert (swept.versions, swept.paths, swept.directories, swept.names) == (51, 51, 1, 51)
    del model.archives["old"]
    add_listing(index, model, "new", archive_of(*(a_file(b"new/%d" % number) for number in range(50))))
    assert index.stats().versions == before.versions
    check_everything(index, model, random.Random(1))


def test_a_swept_name_is_found_again_only_when_it_returns(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "one", archive_of(a_file(b"dir/unusual-name")))
    index.remove(["one"])
    model.archives.clear()
    check_search(index, model, "unusual")
    index.sweep()
    check_search(index, model, "unusual")
    add_listing(index, model, "two", archive_of(a_file(b"other/unusual-name")))
    check_search(index, model, "unusual")
    check_search(index, model, "other/un")


def test_removing_everything_and_sweeping_leaves_an_empty_working_index(index: HistoryIndex) -> None:
    model = Model()
    rng = random.Random(5)
    add_chunks(index, model, "one", random_archive(rng))
    index.remove(["one"])
    model.archives.clear()
    index.sweep()
    stats = index.stats()
    assert (stats.archives, stats.versions, stats.paths) == (0, 0, 0)
    add_chunks(index, model, "two", random_archive(rng))
    check_everything(index, model, rng)


def test_indexing_an_archive_again_replaces_its_entries(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "one", archive_of(a_file(b"a"), a_file(b"b")))
    add_listing(index, model, "two", archive_of(a_file(b"a")))
    assert len(all_changes(index, "one", "two").changes) == 1
    add_listing(index, model, "one", archive_of(a_file(b"a"), a_file(b"c"), a_file(b"d")))
    check_everything(index, model, random.Random(1))


def test_a_failed_listing_indexes_nothing_and_keeps_the_old_entries(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "one", archive_of(a_file(b"a")))
    with pytest.raises(ListingFailed):
        index.ingest_listing("one", listing_of([a_file(b"other")], code=2))
    with pytest.raises(ListingFailed):
        index.ingest_listing("two", listing_of([a_file(b"other")], code=2))
    check_everything(index, model, random.Random(1))


def test_the_last_of_two_entries_with_the_same_path_wins(index: HistoryIndex) -> None:
    first, second = a_file(b"twice", size=1), a_file(b"twice", size=2)
    index.ingest_listing("one", listing_of([first, a_file(b"x"), second, a_file(b"y")]))
    assert {entry.path: entry.size for entry in index.entries("one")} == {b"twice": 2, b"x": 10, b"y": 10}
    index.ingest_chunks("two", FakeChunks().add("two", [second, first]), series="s")
    assert [entry.size for entry in index.entries("two")] == [1]
    index.sweep()
    index.ingest_chunks("three", FakeChunks().add("three", [second, first, a_file(b"z")]), series="s")
    assert {entry.path: entry.size for entry in index.entries("three")} == {b"twice": 1, b"z": 10}


def test_changed_content_with_equal_size_and_time_is_detected_by_the_chunk_route_only(index: HistoryIndex) -> None:
    index.ingest_chunks("c1", FakeChunks().add("c1", [a_file(b"f", content=1)]), series="s")
    index.ingest_chunks("c2", FakeChunks().add("c2", [a_file(b"f", content=2)]), series="s")
    index.ingest_listing("l1", listing_of([a_file(b"f", content=1)]))
    index.ingest_listing("l2", listing_of([a_file(b"f", content=2)]))
    page = index.changes("c1", "c2")
    assert [row.kind for row in page.changes] == [ChangeKind.MODIFIED]
    for before, after in [("l1", "l2"), ("l1", "c1"), ("l1", "c2"), ("c1", "l2"), ("c2", "l1")]:
        assert index.changes(before, after).changes == []


def test_a_link_target_that_the_listing_cannot_print_equals_the_exact_one(index: HistoryIndex) -> None:
    index.ingest_listing("listed", listing_of([a_link(b"link", b"caf\xe9"), a_link(b"other", b"what?")]))
    exact = [a_link(b"link", b"caf\xe9"), a_link(b"other", b"what?")]
    index.ingest_chunks("exact", FakeChunks().add("exact", exact), series="s")
    index.ingest_chunks("moved", FakeChunks().add("moved", [a_link(b"link", b"caf\xe8x"), exact[1]]), series="s")
    assert index.changes("listed", "exact").changes == []
    assert [row.path for row in index.changes("listed", "moved").changes] == [b"link"]
    assert [row.path for row in index.changes("exact", "moved").changes] == [b"link"]
    assert [archive.lossy for archive in index.archives()] == [True, False, False]


def test_a_prefix_matches_whole_path_components(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "one", archive_of(a_file(b"a/b/c"), a_file(b"a/bc"), a_file(b"a/b")))
    add_listing(index, model, "two", archive_of(a_directory(b"z")))
    for prefix in (b"a", b"a/b", b"a/bc", b"a/b/c", b"b", b"a/b/", b"nowhere", b""):
        check_changes(index, model, "one", "two", prefix.removesuffix(b"/"))
    assert {row.path for row in index.changes("one", "two", prefix=b"a/b/").changes} == {b"a/b", b"a/b/c"}


def test_only_the_requested_kinds_are_listed_but_all_are_counted(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "one", archive_of(a_file(b"gone"), a_file(b"same"), a_file(b"new", size=1)))
    add_listing(index, model, "two", archive_of(a_file(b"come"), a_file(b"same"), a_file(b"new", size=2)))
    page = index.changes("one", "two", kinds=[ChangeKind.ADDED, ChangeKind.MODIFIED])
    assert {row.path for row in page.changes} == {b"come", b"new"}
    assert page.totals == {ChangeKind.ADDED: 1, ChangeKind.REMOVED: 1, ChangeKind.MODIFIED: 1}


def test_pages_stay_consistent_while_archives_are_added_and_removed(index: HistoryIndex) -> None:
    model = Model()
    files = archive_of(*(a_file(b"dir/%03d" % number) for number in range(100)))
    add_listing(index, model, "empty", archive_of(a_file(b"x")))
    add_listing(index, model, "full", files)
    add_listing(index, model, "other", archive_of(*(a_file(b"gone/%d" % number) for number in range(100))))
    first = index.changes("empty", "full", limit=40)
    seen = index.browse("full", b"dir", limit=40)
    found = index.search("0", limit=10)
    index.remove(["other"])
    index.sweep()
    add_listing(index, model, "later", archive_of(*(a_file(b"dir/%03d-later" % number) for number in range(100))))
    paths = [row.path for row in first.changes]
    while first.next_cursor:
        first = index.changes("empty", "full", limit=40, cursor=first.next_cursor)
        paths += [row.path for row in first.changes]
    assert sorted(paths) == sorted([*files, b"x"])
    rest = index.browse("full", b"dir", limit=100, cursor=seen.next_cursor)
    assert [entry.path for entry in [*seen.entries, *rest.entries]] == sorted(files)
    more = index.search("0", limit=500, cursor=found.next_cursor)
    assert {hit.path for hit in [*found.hits, *more.hits]} >= {path for path in files if b"0" in path}


def test_a_foreign_cursor_is_refused(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "one", archive_of(*(a_file(b"%d" % number) for number in range(10))))
    add_listing(index, model, "two", archive_of(a_file(b"x")))
    cursor = index.changes("one", "two", limit=3).next_cursor
    assert cursor is not None
    calls: list[Callable[[], object]] = [
        lambda: index.browse("one", b"", cursor=cursor),
        lambda: index.search("x", cursor=cursor),
        lambda: index.changes("one", "two", cursor="AAAA"),
        lambda: index.changes("one", "two", cursor="\u00e9"),
        lambda: index.changes("one", "two", cursor=cursor[:-3]),
    ]
    for call in calls:
        with pytest.raises(InvalidCursor):
            call()


def test_queries_about_an_archive_that_is_not_indexed_are_refused(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "one", archive_of(a_file(b"a")))
    calls: list[Callable[[], object]] = [
        lambda: index.changes("one", "none"),
        lambda: index.browse("none", b""),
        lambda: list(index.entries("none")),
    ]
    for call in calls:
        with pytest.raises(ArchiveNotIndexed):
            call()
    assert index.path_history(b"nowhere/at all").presence == []
    assert not index.browse("one", b"nowhere").exists
    assert not index.browse("one", b"a").exists


def test_long_paths_absolute_looking_paths_and_the_root_entry_stay_distinct(index: HistoryIndex) -> None:
    model = Model()
    deep = b"/".join([b"d" * 255] * 15) + b"/" + b"f" * 255
    files = archive_of(
        a_file(deep),
        a_file(b"/etc/passwd"),
        a_file(b"etc/passwd"),
        a_file(b"//etc/double"),
        a_directory(b"."),
        a_file(b"x" * 4096),
    )
    add_listing(index, model, "one", files)
    assert {entry.path for entry in index.entries("one")} == set(files)
    assert all(index.path_history(path).presence for path in files)
    assert [entry.path for entry in index.browse("one", b"etc").entries] == [b"etc/passwd"]
    assert [entry.path for entry in index.browse("one", b"/etc").entries] == [b"/etc/passwd"]
    assert {entry.path for entry in index.browse("one", b"").entries} == {b"/", b"d" * 255, b"etc", b"x" * 4096}


def test_an_archive_of_dot_paths_can_be_browsed(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "one", archive_of(a_file(b"./a/b"), a_directory(b".")))
    assert [entry.path for entry in index.browse("one", b"").entries] == [b"."]
    assert [entry.path for entry in index.browse("one", b".").entries] == [b"./a"]
    assert [entry.path for entry in index.browse("one", b"./a").entries] == [b"./a/b"]


def test_twenty_thousand_entries_of_one_folder_are_paged_in_order(index: HistoryIndex) -> None:
    one = record(a_file(b"big/NUMBER"))
    text = b"".join(one.replace(b"NUMBER", b"%06d" % number) + b"\0" for number in range(20_000))
    index.ingest_listing("big", Listing(io.BytesIO(text), lambda: 0))
    page = index.browse("big", b"big", limit=5000)
    found = [entry.path for entry in page.entries]
    while page.next_cursor:
        page = index.browse("big", b"big", limit=5000, cursor=page.next_cursor)
        found += [entry.path for entry in page.entries]
    assert found == [b"big/%06d" % number for number in range(20_000)]


def test_both_routes_leave_out_excluded_paths_and_add_them_again_when_no_longer_excluded(index: HistoryIndex) -> None:
    files = [a_file(b"home/u/.cache/x"), a_file(b"home/u/.cachet"), a_directory(b"home/u/.cache"), a_file(b"keep")]
    skip = Excludes(["home/*/.cache"])
    chunks = FakeChunks().add("c", files).add("c2", files).add("c3", files)
    index.ingest_listing("l", listing_of(files), excludes=skip)
    index.ingest_chunks("c", chunks, series="s", excludes=skip)
    index.ingest_chunks("c2", chunks, series="s", excludes=skip)
    for archive in ("l", "c", "c2"):
        assert {entry.path for entry in index.entries(archive)} == {b"home/u/.cachet", b"keep"}
    index.ingest_listing("l2", listing_of(files), base="l")
    result = index.ingest_chunks("c3", chunks, series="s")
    assert result.fallback == "other patterns are excluded now"
    for archive in ("l2", "c3"):
        assert {entry.path for entry in index.entries(archive)} == {entry.path for entry in files}
    index.ingest_listing("l3", listing_of(files), base="l2", excludes=skip)
    assert {entry.path for entry in index.entries("l3")} == {b"home/u/.cachet", b"keep"}


def test_search_can_be_limited_to_archives_and_to_paths_missing_from_others(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "a1", archive_of(a_file(b"deleted.txt"), a_file(b"kept.txt")))
    add_listing(index, model, "b1", archive_of(a_file(b"elsewhere.txt")))
    add_listing(index, model, "a2", archive_of(a_file(b"kept.txt"), a_file(b"new.txt")))
    assert {hit.path for hit in index.search(".txt", within=["a1", "a2"]).hits} == {
        b"deleted.txt",
        b"kept.txt",
        b"new.txt",
    }
    assert {hit.path for hit in index.search(".txt", missing_from=["a2", "b1"]).hits} == {b"deleted.txt"}
    assert index.search(".txt", within=["b1"], missing_from=["b1"]).hits == []


def test_a_search_with_few_hits_stops_early_and_resumes_there(
    index: HistoryIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.history.search._WORK_MOST", 500)
    index.ingest_listing("all", listing_of(a_file(b"dir/%05d.txt" % number) for number in range(2_000)))
    index.ingest_listing("most", listing_of(a_file(b"dir/%05d.txt" % number) for number in range(1_990)))
    page = index.search(".txt", missing_from=["most"], limit=5)
    pages = [page]
    while page.next_cursor:
        page = index.search(".txt", missing_from=["most"], limit=5, cursor=page.next_cursor)
        pages.append(page)
    assert pages[0].truncated
    assert sum(len(one.hits) for one in pages) == 10


def test_unlisted_parent_folders_are_shown_but_not_counted(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "one", archive_of(a_file(b"home/user/docs/a")))
    add_listing(index, model, "two", archive_of(a_file(b"home/user/docs/a"), a_directory(b"home/user")))
    check_browse(index, model, "one")
    assert index.browse("one", b"home").entries[0].is_implicit
    assert not index.browse("two", b"home").entries[0].is_implicit
    assert [archive.entries for archive in index.archives()] == [1, 2]
    assert [row.path for row in index.changes("one", "two").changes] == [b"home/user"]
    assert index.search("home").hits == []


def test_the_number_of_versions_is_the_number_of_distinct_entries(index: HistoryIndex) -> None:
    rng = random.Random(9)
    model = Model()
    files = random_archive(rng)
    for day in range(5):
        add_listing(index, model, f"day{day}", files, f"day{day - 1}")
        files = changed(rng, files)
    distinct = {entry for archive in model.archives.values() for entry in archive.values()}
    implicit = {
        entry.path
        for name in model.archives
        for directory in {path.rpartition(b"/")[0] for path in model.archives[name]} | {b""}
        for entry in _implicit(index, name, directory)
    }
    assert index.stats().versions == len(distinct) + len(implicit)


def _implicit(index: HistoryIndex, archive: str, directory: bytes) -> list[Entry]:
    found: list[Entry] = []
    while True:
        found += [entry for entry in index.browse(archive, directory, limit=1000).entries if entry.is_implicit]
        if not directory:
            return found
        directory = directory.rpartition(b"/")[0]


def hard_link(path: bytes, first: bytes) -> Entry:
    return a_file(path, size=0)._replace(link=first)


@pytest.mark.parametrize("by_chunks", [False, True])
def test_a_hard_link_that_becomes_the_first_name_has_not_changed(index: HistoryIndex, *, by_chunks: bool) -> None:
    days = {
        "both": [a_file(b"a/first", content=5), hard_link(b"b/second", b"a/first"), hard_link(b"b/third", b"a/first")],
        "one gone": [a_file(b"b/second", content=5), hard_link(b"b/third", b"b/second")],
        "other content": [a_file(b"b/second", content=6, size=11), hard_link(b"b/third", b"b/second")],
        "other time": [a_file(b"b/second", content=5, mtime=5), hard_link(b"b/third", b"b/second")._replace(mtime=5)],
        "dangling": [hard_link(b"b/second", b"a/first"), hard_link(b"b/third", b"a/first")],
    }
    for name, entries in days.items():
        if by_chunks:
            index.ingest_chunks(name, FakeChunks().add(name, entries), series="s")
        else:
            index.ingest_listing(name, listing_of(entries))
    found = {name: {row.path: str(row.kind) for row in index.changes("both", name).changes} for name in days}
    gone = {b"a/first": "removed"}
    both_changed = {b"b/second": "modified", b"b/third": "modified"}
    assert found == {
        "both": {},
        "one gone": gone,
        "other content": gone | both_changed,
        "other time": gone | both_changed,
        "dangling": gone,
    }
    assert index.changes("dangling", "one gone").totals[ChangeKind.MODIFIED] == 2
    index.remove(["both"])
    index.sweep()
    assert index.changes("one gone", "other content").totals[ChangeKind.MODIFIED] == 2


@pytest.mark.parametrize("by_chunks", [False, True])
def test_a_hard_link_has_the_history_of_the_file_behind_it(index: HistoryIndex, *, by_chunks: bool) -> None:
    days = {
        "both": [a_file(b"a/first", content=5), hard_link(b"b/second", b"a/first")],
        "one gone": [a_file(b"b/second", content=5)],
        "back": [a_file(b"a/first", content=5), hard_link(b"b/second", b"a/first")],
        "other content": [a_file(b"a/first", content=6, size=11), hard_link(b"b/second", b"a/first")],
        "other time": [a_file(b"a/first", content=6, size=11), hard_link(b"b/second", b"a/first")._replace(mtime=5)],
        "dangling": [hard_link(b"b/second", b"a/first")._replace(mtime=5)],
    }
    for name, entries in days.items():
        if by_chunks:
            index.ingest_chunks(name, FakeChunks().add(name, entries), series="s")
        else:
            index.ingest_listing(name, listing_of(entries))

    found = {one.archive: one.entry for one in index.file_history(b"b/second").presence}

    changed = [after for before, after in pairwise(days) if not unchanged(found[before], found[after])]
    assert changed == ["other content", "other time", "dangling"]
    file = a_file(b"a/first")
    assert [found[name].size for name in days] == [file.size, file.size, file.size, 11, 11, 0]
    assert index.file_history(b"a/first") == index.path_history(b"a/first")
