"""The folder that a restore writes into, and the private one inside it."""

import os
import stat
from pathlib import Path

import pytest

from backup_jobs.restore import private_tree as destination
from backup_jobs.restore.private_tree import DestinationUnusable, PrivateTree

UUID = "0123456789abcdef0123456789abcdef"


def test_a_destination_and_its_missing_parents_are_created_for_their_owner_only(tmp_path: Path) -> None:
    with destination.opened(bytes(tmp_path / "a" / "b"), make=True) as descriptor:
        assert os.fstat(descriptor).st_ino == (tmp_path / "a" / "b").stat().st_ino

    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")] == [0o700, 0o700]


@pytest.mark.parametrize("place", ["link", "link/below", "folder/link/below"])
def test_a_link_on_the_path_is_refused_and_nothing_is_created_behind_it(tmp_path: Path, place: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "folder").mkdir()
    for link in (tmp_path / "link", tmp_path / "folder" / "link"):
        link.symlink_to(outside)

    for attempt in (destination.inspect, lambda path: destination.opened(path, make=True).__enter__()):
        with pytest.raises(DestinationUnusable) as refusal:
            attempt(bytes(tmp_path / place))

        assert refusal.value.key == "restore.destination_is_link"
    assert list(outside.iterdir()) == []


def test_a_file_on_the_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for attempt in (destination.inspect, lambda path: destination.opened(path, make=True).__enter__()):
        with pytest.raises(DestinationUnusable) as refusal:
            attempt(bytes(tmp_path / "file" / "below"))

        assert refusal.value.key == "restore.destination_unusable"


def test_inspecting_a_missing_destination_accepts_it_and_creates_nothing(tmp_path: Path) -> None:
    destination.inspect(bytes(tmp_path / "not" / "yet"))

    assert not (tmp_path / "not").exists()


def test_the_root_is_a_folder_like_any_other() -> None:
    with destination.opened(b"/") as descriptor:
        assert os.fstat(descriptor).st_ino == Path("/").stat().st_ino


def test_the_private_folder_is_for_its_owner_only_and_starts_empty(tmp_path: Path) -> None:
    private = PrivateTree(bytes(tmp_path / "new"), UUID)
    private.make()
    (tmp_path / "new" / private.name / "tree" / "left over").touch()

    private.make()

    folder = tmp_path / "new" / f".holdfast-restore-{UUID}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list((folder / "tree").iterdir()) == []
    assert private.path == bytes(folder / "tree")


def test_a_private_folder_is_removed_with_its_content_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    private = PrivateTree(bytes(tmp_path), UUID)
    private.make()
    (tmp_path / private.name / "tree" / "link").symlink_to(outside)
    (tmp_path / private.name / "tree" / "closed").mkdir(mode=0o000)

    private.remove()
    private.remove()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside"]
    assert (outside / "precious").exists()


def test_a_link_in_place_of_the_private_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "tree").mkdir(parents=True)
    (outside / "tree" / "precious").touch()
    private = PrivateTree(bytes(tmp_path), UUID)
    (tmp_path / private.name).symlink_to(outside)

    with pytest.raises(DestinationUnusable), private.tree():
        pytest.fail("the tree behind a link was opened")
    private.remove()

    assert (outside / "tree" / "precious").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_accepted_as_the_private_one(tmp_path: Path) -> None:
    private = PrivateTree(bytes(tmp_path), UUID)
    private.make()
    os.chown(tmp_path / private.name / "tree", 1234, 1234)

    with pytest.raises(DestinationUnusable), private.tree():
        pytest.fail("the tree of somebody else was opened")


def test_only_folders_with_a_private_name_count_as_leftovers(tmp_path: Path) -> None:
    PrivateTree(bytes(tmp_path), UUID).make()
    for name in (".holdfast-restore-", ".holdfast-restore-notes", f"{UUID}", f"x.holdfast-restore-{UUID}"):
        (tmp_path / name).mkdir()

    with destination.opened(bytes(tmp_path)) as descriptor:
        assert destination.leftovers(descriptor) == {UUID: f".holdfast-restore-{UUID}"}


def test_the_deepest_real_folder_is_found_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to(tmp_path / "a" / "b")

    assert destination.deepest_folder(bytes(tmp_path), [b"a", b"b", b"c"]) == bytes(tmp_path / "a" / "b")
    assert destination.deepest_folder(bytes(tmp_path), [b"a", b"link", b"c"]) == bytes(tmp_path / "a")
