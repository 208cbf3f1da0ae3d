"""The chunks of files: stored by the chunk route, shared by equal content, removed with the last archive using them."""

import random

import numpy as np
import pytest

from holdfast.history import columns
from holdfast.history.index import HistoryIndex
from holdfast.history.schema import CHUNK_SEGMENT, CHUNK_SIZE, CHUNK_STORED, MORE_CHUNKS, VERSION_CHUNK
from tests.unit.history.model import Files, a_directory, a_file, archive_of, changed, random_archive
from tests.unit.history.sources import FakeChunks, chunks_of, item, listing_of


def add(index: HistoryIndex, name: str, files: Files, series: str = "daily") -> None:
    index.ingest_chunks(name, FakeChunks().add(name, files.values()), series=series)


def check(index: HistoryIndex, archives: dict[str, Files]) -> None:
    """Check that every file of every archive has its own chunks, in order."""
    for name, files in archives.items():
        for path, entry in files.items():
            if entry.type != "-" or entry.link:
                continue
            found = index.file(name, path)
            assert found is not None
            assert found.chunks is not None
            wanted = [(chunk[0], chunk[1]) for chunk in chunks_of(entry)] if entry.size else []
            assert [tuple(chunk) for chunk in found.chunks] == wanted
    assert index.damage() == []


def numbers_in_use(index: HistoryIndex) -> int:
    with index._store.read() as snapshot:
        return int(np.count_nonzero(columns.load(snapshot, CHUNK_SIZE)))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(1, 20))])
def test_files_keep_their_own_chunks_through_removals_and_sweeps(index: HistoryIndex, seed: int) -> None:
    rng = random.Random(seed)
    files = random_archive(rng)
    archives: dict[str, Files] = {}
    for day in range(8):
        add(index, f"day{day}", files, rng.choice(["one", "two"]))
        archives[f"day{day}"] = files
        files = {
            path: entry._replace(size=rng.choice([0, 1, 999, 1000, 5000])) if entry.content else entry
            for path, entry in changed(rng, files).items()
        }
        files = {path: entry._replace(content=entry.content if entry.size else 0) for path, entry in files.items()}
        if rng.random() < 0.5:
            gone = rng.choice(sorted(archives))
            index.remove([gone])
            del archives[gone]
            index.sweep()
        check(index, archives)
    index.remove(archives)
    index.sweep()
    assert numbers_in_use(index) == 0


def test_equal_content_shares_rows_until_the_last_archive_is_removed(index: HistoryIndex) -> None:
    add(index, "one", archive_of(a_file(b"a", size=2500, content=1), a_file(b"copy", size=2500, content=1)))
    assert numbers_in_use(index) == 3
    add(index, "two", archive_of(a_file(b"b", size=1500, content=1)))
    assert numbers_in_use(index) == 4, "the first piece is that of the others"
    index.remove(["one", "two"])
    swept = index.sweep()
    assert swept.chunks == 4
    assert numbers_in_use(index) == 0
    with index._store.read() as snapshot:
        assert snapshot.column(MORE_CHUNKS) == []
    add(index, "three", archive_of(a_file(b"c", size=2500, content=9)))
    check(index, {"three": archive_of(a_file(b"c", size=2500, content=9))})


def test_files_with_few_or_many_chunks_have_them_in_order(index: HistoryIndex) -> None:
    files = archive_of(*(a_file(b"%d" % count, size=1000 * count, content=count) for count in (1, 31, 32, 33, 80)))
    add(index, "one", files)
    check(index, {"one": files})


def test_sizes_and_segments_are_stored_with_each_chunk(index: HistoryIndex) -> None:
    entry = a_file(b"a", size=2500, content=5)
    add(index, "one", archive_of(entry))
    expected = {(chunk[0][0], chunk[1], chunk[2]) for chunk in chunks_of(entry)}  # type: ignore[index]
    with index._store.read() as snapshot:
        kinds = (CHUNK_SEGMENT, CHUNK_SIZE, CHUNK_STORED)
        rows = zip(*(columns.load(snapshot, kind)[1:4].tolist() for kind in kinds), strict=True)
        assert set(rows) == expected


def test_an_archive_indexed_from_its_listing_has_no_chunks_and_empty_files_need_none(index: HistoryIndex) -> None:
    files = archive_of(a_file(b"a"), a_file(b"empty", size=0), a_directory(b"d"))
    index.ingest_listing("one", listing_of(files.values()))
    found, empty = index.file("one", b"a"), index.file("one", b"empty")
    assert found is not None
    assert found.chunks is None
    assert empty is not None
    assert empty.chunks == []
    assert index.file("one", b"nothing") is None


def test_a_hard_link_has_the_chunks_of_the_name_that_holds_the_content(index: HistoryIndex) -> None:
    first = a_file(b"d/first", size=1500, content=3)
    second = a_file(b"second", size=0)._replace(link=b"d/first")
    add(index, "one", archive_of(first, second))
    found = index.file("one", b"second")
    assert found is not None
    assert found.entry.path == b"second"
    assert found.entry.size == 1500
    assert found.chunks == index.file("one", b"d/first").chunks  # type: ignore[union-attr]
    lone = a_file(b"second", size=0)._replace(link=b"d/gone")
    add(index, "two", archive_of(lone))
    found = index.file("two", b"second")
    assert found is not None
    assert found.entry.is_hard_link


@pytest.mark.parametrize(
    "chunks",
    [
        [[b"short", 10, 5]],
        [[b"x" * 32, 9, 5]],
        [[b"x" * 32, -10, 5], [b"y" * 32, 20, 5]],
        [[b"x" * 32, 0, 5], [b"y" * 32, 10, 5]],
        [[b"x" * 32, 2**40, 5]],
        [[b"x" * 32]],
        [[b"x" * 32, 10, -5]],
    ],
)
def test_an_implausible_chunk_list_is_dropped_but_the_file_is_kept(
    index: HistoryIndex, chunks: list[list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.history.sources.chunks_of", lambda _entry: chunks)
    source = FakeChunks()
    source.add_stream("one", item(a_file(b"a")))
    index.ingest_chunks("one", source, series="daily")
    found = index.file("one", b"a")
    assert found is not None
    assert found.chunks is None
    assert index.damage() == []


def test_chunk_ids_with_the_same_prefix_are_never_confused(
    index: HistoryIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {b"a": b"12345678" + b"a" * 24, b"b": b"12345678" + b"b" * 24, b"c": b"12345678" + b"c" * 24}
    monkeypatch.setattr("tests.unit.history.sources.chunks_of", lambda entry: [[ids[entry.path], entry.size, 1]])
    add(index, "one", archive_of(a_file(b"a"), a_file(b"b")))
    add(index, "two", archive_of(a_file(b"c")))
    found = {path: index.file(archive, path) for archive, path in (("one", b"a"), ("one", b"b"), ("two", b"c"))}
    for path, file in found.items():
        assert file is not None
        assert file.chunks is None or file.chunks[0].id == ids[path]
    assert sum(file.chunks is not None for file in found.values() if file) == 1


def test_a_chunk_table_that_does_not_match_the_files_is_reported(index: HistoryIndex) -> None:
    add(index, "one", archive_of(a_file(b"a", content=1), a_file(b"b", content=2)))
    first = _column(index)
    versions = np.flatnonzero(first)
    with index._store.write() as transaction:
        columns.update(transaction, VERSION_CHUNK, versions, first[versions][::-1].copy())
    assert len(index.damage()) == 2
    with index._store.write() as transaction:
        columns.update(transaction, VERSION_CHUNK, versions, np.array([77, 78]))
    assert all("not there" in problem for problem in index.damage())


def _column(index: HistoryIndex) -> columns.Numbers:
    with index._store.read() as snapshot:
        return columns.load(snapshot, VERSION_CHUNK)
