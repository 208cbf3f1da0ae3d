"""Zip files written as a stream, read back with the standard library."""

import io
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.downloads.zip_stream import Member, ZipStream

REGULAR = stat.S_IFREG | 0o640

names = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0/\\"), min_size=1, max_size=30)
members = st.lists(
    st.tuples(names, st.lists(st.binary(max_size=200), max_size=4)), max_size=6, unique_by=lambda m: m[0]
)


def written(entries: list[tuple[Member, list[bytes]]]) -> bytes:
    with ZipStream() as writer:
        pieces = [piece for member, blocks in entries for piece in writer.streamed(member, iter(blocks))]
        return b"".join([*pieces, *writer.end()])


@given(members)
def test_every_member_is_read_back_unchanged(entries: list[tuple[str, list[bytes]]]) -> None:
    content = written([(Member(name.encode(), REGULAR, 1e9), blocks) for name, blocks in entries])

    with zipfile.ZipFile(io.BytesIO(content)) as found:
        assert found.testzip() is None
        assert found.namelist() == [name for name, _ in entries]
        assert [found.read(info) for info in found.infolist()] == [b"".join(blocks) for _, blocks in entries]


def test_text_is_compressed_and_incompressible_data_is_stored() -> None:
    """Both are read back completely, even if a file continues differently from how it began."""
    text, noise = b"again and again\n" * 20_000, os.urandom(300_000)
    blocks = {"text": [text], "noise": [noise, noise], "first noise": [noise, text], "first text": [text, noise]}
    content = written([(Member(name.encode(), REGULAR, 1e9), parts) for name, parts in blocks.items()])

    with zipfile.ZipFile(io.BytesIO(content)) as found:
        assert found.testzip() is None
        assert {name: found.read(name) for name in found.namelist()} == {
            name: b"".join(parts) for name, parts in blocks.items()
        }
        assert found.getinfo("text").compress_size < len(text) / 50
        assert 2 * len(noise) < found.getinfo("noise").compress_size < 2 * len(noise) + 1000


def test_folders_links_modes_and_times_are_preserved() -> None:
    with ZipStream() as writer:
        content = b"".join(
            [
                *writer.short(Member(b"folder/", stat.S_IFDIR | 0o750, 1_600_000_000)),
                *writer.short(Member(b"folder/link", stat.S_IFLNK | 0o777, 1_600_000_000), b"../target"),
                *writer.streamed(Member(b"folder/file", REGULAR, 1_600_000_001), iter([b"x"])),
                *writer.end(),
            ]
        )

    with zipfile.ZipFile(io.BytesIO(content)) as found:
        folder, link, file = found.infolist()
        assert folder.is_dir()
        assert [info.external_attr >> 16 for info in (folder, link, file)] == [
            stat.S_IFDIR | 0o750,
            stat.S_IFLNK | 0o777,
            REGULAR,
        ]
        assert found.read(link) == b"../target"
        assert file.date_time == (2020, 9, 13, 12, 26, 40)
        assert file.extra.endswith((1_600_000_001).to_bytes(4, "little"))


def test_names_that_are_not_valid_utf_8_stay_distinct() -> None:
    content = written([(Member(b"caf\xe9", REGULAR, 0), [b"1"]), (Member(b"caf\xe8", REGULAR, 0), [b"2"])])

    with zipfile.ZipFile(io.BytesIO(content)) as found:
        assert [name.encode("cp437") for name in found.namelist()] == [b"caf\xe9", b"caf\xe8"]
        assert [found.read(info) for info in found.infolist()] == [b"1", b"2"]


@pytest.mark.parametrize("modified", [-1e12, 0, 5e9, 1e12])
def test_a_time_outside_the_zip_calendar_is_clamped(modified: float) -> None:
    content = written([(Member(b"a", REGULAR, modified), [b"1"])])

    with zipfile.ZipFile(io.BytesIO(content)) as found:
        assert 1980 <= found.infolist()[0].date_time[0] <= 2107


def test_more_members_than_the_old_format_can_count_are_all_found() -> None:
    with ZipStream() as writer:
        pieces = [piece for n in range(70_000) for piece in writer.short(Member(b"%d" % n, REGULAR, 0))]
        content = b"".join([*pieces, *writer.end()])

    with zipfile.ZipFile(io.BytesIO(content)) as found:
        assert len(found.infolist()) == 70_000


def test_members_beyond_four_gibibytes_are_found(tmp_path: Path) -> None:
    """A member's offset takes 64 bits if necessary. A sparse hole stands in for the data before it."""
    before = 5 << 30
    with ZipStream() as writer:
        writer._offset = before
        content = b"".join([*writer.streamed(Member(b"late", REGULAR, 0), iter([b"found"])), *writer.end()])
    path = tmp_path / "large.zip"
    with path.open("wb") as file:
        file.seek(before)
        file.write(content)

    with zipfile.ZipFile(path) as found:
        assert found.infolist()[0].header_offset == before
        assert found.read("late") == b"found"


def test_a_large_file_is_announced_with_64_bit_sizes() -> None:
    """Its actual size does not matter here: the announced size determines the format."""
    content = written([(Member(b"large", REGULAR, 0, size=6 << 30), [b"only", b"this"])])

    with zipfile.ZipFile(io.BytesIO(content)) as found:
        assert found.infolist()[0].extract_version == 45
        assert found.read("large") == b"onlythis"


def test_a_stream_without_its_end_is_not_a_valid_zip_file() -> None:
    with ZipStream() as writer:
        content = b"".join(writer.streamed(Member(b"a", REGULAR, 0), iter([b"x"])))

    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(io.BytesIO(content))


def test_pieces_are_never_much_larger_than_the_blocks_they_come_from() -> None:
    """So memory does not grow with the size of the file."""

    def blocks() -> Iterator[bytes]:
        block = os.urandom(1 << 20)
        for _ in range(8):
            yield block

    with ZipStream() as writer:
        largest = max(len(piece) for piece in writer.streamed(Member(b"a", REGULAR, 0, 8 << 20), blocks()))

    assert largest < 3 << 20
