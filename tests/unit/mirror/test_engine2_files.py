"""What a mirror of an engine 2 repository lacks, and what must not be copied to it."""

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


def test_a_listing_is_parsed_whatever_its_names_contain() -> None:
    assert listing_of(["12:packs/aa/one", "0:packs/a:b", "no size", ""]) == {PACK_1: 12, "packs/a:b": 0}


def test_missing_and_incomplete_files_are_lacking() -> None:
    found = compared({PACK_1: 10, PACK_2: 20, INDEX_1: 5}, {PACK_1: 10, PACK_2: 7, INDEX_1: 5})

    assert (dict(found.lacking), found.surplus, found.lost, found.is_equal) == ({PACK_2: 20}, False, (), False)
    assert compared({PACK_1: 10}, {PACK_1: 10}).is_equal


@pytest.mark.parametrize(
    ("here", "there", "lost"),
    [
        ({INDEX_1: 5}, {INDEX_1: 5, PACK_1: 10}, (PACK_1,)),
        ({INDEX_1: 5, INDEX_2: 5}, {INDEX_1: 5, PACK_1: 10}, (PACK_1,)),
        ({INDEX_2: 5}, {INDEX_1: 5, PACK_1: 10}, ()),  # a compaction rewrote the index
        ({}, {INDEX_1: 5, PACK_1: 10}, ()),  # an interrupted compaction has only removed the index
        ({INDEX_1: 5}, {INDEX_1: 5, PACK_1: 10, MARK: 0}, ()),  # a sync was interrupted during its deletions
        ({INDEX_1: 5}, {PACK_1: 10}, ()),  # the first sync was interrupted
    ],
)
def test_missing_packs_are_lost_if_their_index_still_exists(
    here: dict[str, int], there: dict[str, int], lost: tuple[str, ...]
) -> None:
    found = compared(here, there)

    assert found.lost == lost
    assert found.surplus


def test_a_file_whose_content_does_not_match_its_name_is_damaged(tmp_path: Path) -> None:
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


def test_damaged_and_lost_files_are_suspicious() -> None:
    assert sanity.of_contents({"damaged": [], "lost": []}) == []
    told = sanity.of_contents({"damaged": [PACK_1], "lost": [PACK_2]})

    assert [word for word, _ in told] == ["damaged", "segments_missing"]
    assert PACK_1 in told[0][1]
    assert PACK_2 in told[1][1]
