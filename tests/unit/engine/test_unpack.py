"""Unpacking a tar stream: never outside the folder, and a truncated stream is never taken for complete."""

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from backup_engine.far.pipe_into import joint_code
from backup_engine.far.unpack import BROKEN_OFF, BrokenOff, Unpacker, nanoseconds, opened

Entry = tuple[str, bytes, str, str]
"""Name, type, content, target of a link."""


def stream_of(*entries: Entry) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        for name, kind, content, target in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.size, entry.linkname = kind, len(content), target
            entry.mode = 0o750 if kind == tarfile.DIRTYPE else 0o640
            tar.addfile(entry, io.BytesIO(content.encode()))
    return written.getvalue()


def a_file(name: str, content: str = "content") -> Entry:
    return name, tarfile.REGTYPE, content, ""


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "tree").mkdir()
    descriptor = opened(os.fsencode(tmp_path / "tree"))
    yield descriptor
    os.close(descriptor)


def unpack(tree: int, stream: bytes) -> dict[bytes, str]:
    told: dict[bytes, str] = {}
    Unpacker(tree, told.__setitem__).unpack(io.BytesIO(stream))
    return told


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "/../outside", "a//b/../../../outside", "."])
def test_a_path_that_leads_out_of_the_folder_is_refused_and_the_rest_is_unpacked(
    tmp_path: Path, tree: int, name: str
) -> None:
    told = unpack(tree, stream_of(a_file(name), a_file("good")))

    assert list(told.values()) == ["the path leads out of the folder"]
    assert [path.name for path in tmp_path.iterdir()] == ["tree"]
    assert (tmp_path / "tree" / "good").read_text() == "content"


def test_nothing_is_written_through_a_link_in_the_archive(tmp_path: Path, tree: int) -> None:
    (tmp_path / "outside").mkdir()
    link = ("link", tarfile.SYMTYPE, "", str(tmp_path / "outside"))
    told = unpack(tree, stream_of(link, a_file("link/file"), ("link/folder", tarfile.DIRTYPE, "", "")))

    assert set(told) == {b"link/file", b"link/folder"}
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("target", ["../secret", "link"])
def test_a_hard_link_never_points_outside_the_folder(tmp_path: Path, tree: int, target: str) -> None:
    (tmp_path / "secret").write_text("secret")
    link = ("link", tarfile.SYMTYPE, "", str(tmp_path / "secret"))
    unpack(tree, stream_of(link, ("name", tarfile.LNKTYPE, "", target)))

    name = tmp_path / "tree" / "name"
    assert name.is_symlink() or not name.exists()
    assert (tmp_path / "secret").stat().st_nlink == 1


def test_a_stream_cut_at_any_point_is_not_taken_for_complete(tree: int) -> None:
    whole = stream_of(a_file("one", "1" * 700), a_file("two", ""), a_file("three", "3" * 100))
    end = whole.rstrip(b"\0")
    last = -(-len(end) // 512) * 512
    for length in {0, 1, 511, 512, 513, 1024, 1536, 2048, 2049, last - 1, last, last + 512}:
        with pytest.raises(BrokenOff):
            unpack(tree, whole[:length])
    assert unpack(tree, whole) == {}


def test_sparse_files_keep_their_holes_and_folders_keep_their_modification_time(tmp_path: Path, tree: int) -> None:
    content = "a" * 5000 + "\0" * (1 << 20) + "b"
    told = unpack(tree, stream_of(("folder", tarfile.DIRTYPE, "", ""), a_file("folder/sparse", content)))

    file = tmp_path / "tree" / "folder" / "sparse"
    assert (told, file.read_text(), file.stat().st_mode & 0o777) == ({}, content, 0o640)
    assert file.stat().st_blocks * 512 < 100_000
    assert file.parent.stat().st_mtime == 0


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("946684800.123456789", 946684800123456789), ("5", 5 * 10**9), ("-1.5", -1500000000), ("0.1234567891", 123456789)],
)
def test_times_are_read_with_nanosecond_precision(text: str, wanted: int) -> None:
    assert nanoseconds(text, 0) == wanted


@pytest.mark.parametrize(
    ("made", "received", "wanted"),
    [
        (0, 0, 0),
        (1, 0, 1),
        (0, 1, 1),
        (2, 0, 2),
        (0, 2, 2),
        (0, BROKEN_OFF, 2),
        (1, BROKEN_OFF, 2),
        (31, BROKEN_OFF, 31),
        (255, BROKEN_OFF, 255),
        (2, 255, 255),
        (143, 255, 143),
        (143, BROKEN_OFF, 143),
        (2, 1, 2),
    ],
)
def test_the_joint_exit_code_is_that_of_the_side_that_failed(made: int, received: int, wanted: int) -> None:
    assert joint_code(made, received) == wanted
