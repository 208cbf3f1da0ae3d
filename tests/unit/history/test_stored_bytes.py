"""Stored bytes of sets of archives, computed from the chunks of their files."""

import random
from collections.abc import Collection
from itertools import pairwise

import pytest

from holdfast.history import stored_bytes
from holdfast.history.index import HistoryIndex
from tests.unit.history.model import Files, a_directory, a_file, archive_of, changed, random_archive
from tests.unit.history.sources import FakeChunks, chunks_of, listing_of

SIZES = (0, 2, 999, 1000, 5000)


def with_sizes(rng: random.Random, files: Files) -> Files:
    sized = {path: one._replace(size=rng.choice(SIZES)) if one.content else one for path, one in files.items()}
    return {path: one._replace(content=one.content if one.size else 0) for path, one in sized.items()}


def _first_byte(chunk: list[object]) -> int:
    """The stored size that the tests' source reports for a chunk."""
    assert isinstance(chunk[0], bytes)
    return chunk[0][0]


def by_hand(archives: dict[str, Files], wanted: Collection[str]) -> int:
    """The stored bytes of the distinct chunks of all files."""
    chunks = {
        str(chunk[0]): chunk[2]
        for name in wanted
        for entry in archives[name].values()
        if entry.type == "-" and not entry.link and entry.size
        for chunk in chunks_of(entry)
    }
    return sum(int(str(size)) for size in chunks.values())


@pytest.mark.parametrize("seed", range(3))
def test_the_bytes_of_archives_are_those_of_their_distinct_chunks(index: HistoryIndex, seed: int) -> None:
    rng = random.Random(seed)
    files, archives = with_sizes(rng, random_archive(rng)), dict[str, Files]()
    for day in range(5):
        archives[f"day{day}"] = files
        index.ingest_chunks(f"day{day}", FakeChunks().add(f"day{day}", files.values()), series="daily")
        files = with_sizes(rng, changed(rng, files))
    sets = [rng.sample(sorted(archives), rng.randint(0, 5)) for _ in range(8)]

    assert index.stored_bytes(sets) == [by_hand(archives, wanted) for wanted in sets]
    days = sorted(archives)
    so_far = [by_hand(archives, days[: number + 1]) for number in range(len(days))]
    assert index.added_bytes(days) == [so_far[0], *(later - earlier for earlier, later in pairwise(so_far))]


def test_with_engine_2_chunks_have_the_sizes_that_the_repository_reports(index: HistoryIndex) -> None:
    entry = a_file(b"a", size=2500)
    source = FakeChunks().add("first", [entry])
    source.major = 2
    index.ingest_chunks("first", source, series="daily")
    assert index.stored_bytes([["first"]]) == [sum(_first_byte(chunk) for chunk in chunks_of(entry))]
    assert index.damage() == []


def test_no_bytes_are_returned_without_chunks_or_above_the_limit_of_versions(
    index: HistoryIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = archive_of(a_directory(b"d"), a_file(b"d/a", size=1000))
    index.ingest_chunks("chunked", FakeChunks().add("chunked", files.values()), series="daily")
    index.ingest_listing("listed", listing_of([a_file(b"d/b", size=1000)]))

    assert index.stored_bytes([["chunked"]]) == [500]
    assert index.added_bytes(["chunked", "listed"]) is None
    assert index.stored_bytes([["chunked", "listed"]]) is None
    assert index.stored_bytes([["chunked", "not indexed"]]) is None
    monkeypatch.setattr(stored_bytes, "MOST_VERSIONS", 1)
    assert index.stored_bytes([["chunked"]]) is None
