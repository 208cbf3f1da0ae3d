"""Where each archived path is restored to."""

import pytest

from backup_jobs.restore.layout import Placement


@pytest.mark.parametrize("path", [b"home", b"home/user/file"])
def test_the_whole_path_is_kept_below_the_destination(path: bytes) -> None:
    assert Placement((b"home",), contents_only=False).target(path, is_directory=False) == path


@pytest.mark.parametrize(
    ("path", "is_directory", "target"),
    [
        (b"home/user", True, None),
        (b"home/user/file", False, b"file"),
        (b"home/user/folder/file", False, b"folder/file"),
        (b"etc/hosts", False, b"hosts"),
        (b"home/user2", False, b"home/user2"),
    ],
)
def test_contents_land_directly_in_the_destination(path: bytes, is_directory: bool, target: bytes | None) -> None:
    placement = Placement((b"home/user", b"etc/hosts"), contents_only=True)

    assert placement.target(path, is_directory=is_directory) == target


def test_contents_only_of_a_whole_archive_keeps_full_paths() -> None:
    assert Placement((), contents_only=True).target(b"home/user", is_directory=True) == b"home/user"


@pytest.mark.parametrize(
    ("roots", "contents_only", "may"),
    [((b"a", b"b"), True, True), ((b"a",), True, False), ((b"a", b"b"), False, False), ((), True, False)],
)
def test_only_the_contents_of_several_folders_may_collide(
    roots: tuple[bytes, ...], contents_only: bool, may: bool
) -> None:
    assert Placement(roots, contents_only).may_collide is may
