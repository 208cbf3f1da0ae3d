"""What a mirror of engine 2 lacks, and what must not be copied to it."""

import hashlib
from pathlib import Path

import pytest

from holdfast.mirror import sanity
from holdfast.mirror.engine2_files import MARK, compared, damaged, listing_here, listing_of

INDEX_1, INDEX_2, PACK_1, PACK_2 = "index/one", "index/two", "packs/aa/one", "packs/bb/two"


def put(repository: Path, folder: str, content: bytes) -> str:
    name = hashlib.sha256(content).hexdigest()
    file = repository / folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return f"{folder}/{name}"


def test_a_listing_is_read_with_whatever_the_names_hold() -> None:
    assert listing_of(["12:packs/aa/one", "0:packs/a:b", "no size", ""]) == {PACK_1: 12, "packs/a:b": 0}


def test_what_is_not_there_or_not_whole_is_lacking() -> None:
    found = compared({PACK_1: 10, PACK_2: 20, INDEX_1: 5}, {PACK_1: 10, PACK_2: 7, INDEX_1: 5})

    assert (dict(found.lacking), found.surplus, found.lost, found.is_equal) == ({PACK_2: 20}, False, (), False)
    assert compared({PACK_1: 10}, {PACK_1: 10}).is_equal


@pytest.mark.parametrize(
    ("here", "there", "lost"),
    [
        ({INDEX_1: 5}, {INDEX_1: 5, PACK_1: 10}, (PACK_1,)),
        ({INDEX_1: 5, INDEX_2: 5}, {INDEX_1: 5, PACK_1: 10}, (PACK_1,)),
        ({INDEX_2: 5}, {INDEX_1: 5, PACK_1: 10}, ()),  # a compaction wrote the index anew
        ({}, {INDEX_1: 5, PACK_1: 10}, ()),  # one that was cut off removes it first
        ({INDEX_1: 5}, {INDEX_1: 5, PACK_1: 10, MARK: 0}, ()),  # a sync was cut off before it had deleted all
        ({INDEX_1: 5}, {PACK_1: 10}, ()),  # the first one was cut off
    ],
)
def test_packs_are_lost_when_they_are_gone_and_the_index_is_the_same(
    here: dict[str, int], there: dict[str, int], lost: tuple[str, ...]
) -> None:
    found = compared(here, there)

    assert found.lost == lost
    assert found.surplus


def test_a_file_that_is_not_what_it_is_called_is_damaged(tmp_path: Path) -> None:
    whole, cut = put(tmp_path, "packs/4e", b"whole"), put(tmp_path, "packs/5f", b"cut")
    key = put(tmp_path, "keys", b"a key")
    (tmp_path / cut).write_bytes(b"cu")
    (tmp_path / "packs" / "5f" / "half.tmp").write_bytes(b"unfinished")
    here = listing_here(tmp_path)
    read: list[int] = []

    assert here == {whole: 5, cut: 2, key: 5}
    assert damaged(tmp_path, here, read.append) == [cut]
    assert sum(read) == 12
    (tmp_path / whole).unlink()
    assert set(damaged(tmp_path, here, read.append)) == {whole, cut}


def test_what_is_damaged_or_lost_is_suspicious() -> None:
    assert sanity.of_contents({"damaged": [], "lost": []}) == []
    told = sanity.of_contents({"damaged": [PACK_1], "lost": [PACK_2]})

    assert [word for word, _ in told] == ["damaged", "segments_missing"]
    assert PACK_1 in told[0][1]
    assert PACK_2 in told[1][1]
