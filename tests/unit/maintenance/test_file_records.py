"""The engine's listing of files, read from its spool."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backup_engine.results import GarbledOutput
from holdfast.maintenance import file_records
from holdfast.maintenance.file_records import Extent, FileRecord, choose, extent_of, read_records, unsafe_paths

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30)


def line(mode: str, size: int, path: str, target: str = "") -> bytes:
    return f"{mode}\t0\t0\troot\troot\t{size}\t2026-01-01T00:00:00.000000\t{path}\0{target}\0".encode()


def written(tmp_path: Path, content: bytes) -> Path:
    file = tmp_path / "listing"
    file.write_bytes(content)
    return file


@given(names=st.lists(NAMES, max_size=20), block=st.integers(1, 64))
def test_records_are_read_as_they_were_listed_wherever_the_blocks_are_cut(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], block: int
) -> None:
    listing = written(
        tmp_path_factory.mktemp("listing"),
        b"".join(line("-rw-r--r--", number, name, "a\ttarget\n") for number, name in enumerate(names)),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_records, "BLOCK_BYTES", block)
        found = list(read_records(listing))

    assert found == [FileRecord("-rw-r--r--", number, name) for number, name in enumerate(names)]


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_truncated_listing_is_refused(tmp_path: Path, cut: int) -> None:
    whole = line("-rw-r--r--", 1, "a") + line("-rw-r--r--", 2, "b")

    with pytest.raises(GarbledOutput):
        list(read_records(written(tmp_path, whole[:-cut])))


def test_a_record_without_a_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GarbledOutput):
        list(read_records(written(tmp_path, b"-rw-r--r--\t0\t0\troot\troot\tbig\ttime\ta\0\0")))


def test_only_files_with_their_own_content_count() -> None:
    records = [
        FileRecord("drwxr-xr-x", 0, "d"),
        FileRecord("-rw-r--r--", 7, "d/a"),
        FileRecord("hrw-r--r--", 0, "d/hard"),
        FileRecord("lrwxrwxrwx", 3, "d/link"),
        FileRecord("-rw-r--r--", 5, "d/b"),
    ]

    assert extent_of(records) == Extent(2, 12)


def test_a_sample_depends_only_on_its_seed_and_is_in_archive_order() -> None:
    records = [FileRecord("-rw-r--r--", 1, f"file-{number:03}") for number in range(200)]

    chosen = choose(records, 20, "a seed")

    assert chosen == choose(records, 20, "a seed")
    assert chosen != choose(records, 20, "another seed")
    assert [record.path for record in chosen] == sorted({record.path for record in chosen})
    assert len(chosen) == 20


def test_a_sample_contains_all_of_a_few_files_except_names_that_cannot_be_passed_to_the_engine() -> None:
    named = [FileRecord("-rw-r--r--", 1, "a"), FileRecord("-rw-r--r--", 1, "b")]
    unnamed = [FileRecord("-rw-r--r--", 1, "caf?"), FileRecord("-rw-r--r--", 1, "two\nlines")]
    others = [FileRecord("drwxr-xr-x", 0, "d"), FileRecord("hrw-r--r--", 0, "h")]

    assert choose([*unnamed, *named, *others], 10, "seed") == named


def test_each_file_has_about_the_same_chance() -> None:
    records = [FileRecord("-rw-r--r--", 1, str(number)) for number in range(10)]

    found = Counter(record.path for seed in range(2000) for record in choose(records, 3, str(seed)))

    assert all(450 < found[record.path] < 750 for record in records), found


def test_names_that_lead_outside_a_destination_are_found() -> None:
    unsafe = ["../evil", "a/../../b", "/etc/passwd", "a//b", "", "nul\0", "a/.", ".."]
    safe = ["etc/passwd", "a..b/..c", ".hidden", "..."]
    records = [FileRecord("-rw-r--r--", 1, name) for name in [*unsafe, *safe]]

    assert list(unsafe_paths(records)) == unsafe
    assert list(unsafe_paths([FileRecord("drwxr-xr-x", 0, "."), FileRecord("-rw-r--r--", 0, ".")])) == ["."]
