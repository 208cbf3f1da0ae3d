"""Moving restored files into place."""

import os
from pathlib import Path

import pytest

from backup_engine.listing import ListedFile
from backup_engine.requests import InvalidRequest
from backup_jobs.restore.existing_files import UnknownFiles
from backup_jobs.restore.extract import destination_of, paths_of
from backup_jobs.restore.layout import Placement
from backup_jobs.restore.private_tree import DestinationUnusable, PrivateTree
from backup_jobs.restore.survey import Survey
from backup_jobs.restore.survey import survey as surveyed
from backup_protocol import RestoreBlock


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def extracted(target: Path, *names: str) -> PrivateTree:
    """A private tree with files that each hold their own name."""
    private = PrivateTree(os.fsencode(target), "0" * 32)
    private.make()
    for name in names:
        file = Path(os.fsdecode(private.path)) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return private


def content(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text()
        for file in folder.rglob("*")
        if file.is_file() and ".holdfast-restore" not in str(file)
    }


def never() -> bool:
    return False


def test_everything_is_placed_at_its_archived_path_below_the_destination(target: Path) -> None:
    private = extracted(target, "home/a", "home/b/c", "d")

    placed = private.place((), "skip", never)
    private.remove()

    assert content(target) == {"home/a": "home/a", "home/b/c": "home/b/c", "d": "d"}
    assert (placed.skipped.files, placed.failed.files) == (0, 0)
    assert sorted(os.listdir(target)) == ["d", "home"]


def test_contents_only_leaves_out_parent_folders_and_also_accepts_single_files(target: Path) -> None:
    private = extracted(target, "home/anna/a", "home/anna/b/c", "etc/hosts")

    private.place((b"etc/hosts", b"home/anna"), "skip", never)

    assert content(target) == {"a": "home/anna/a", "b/c": "home/anna/b/c", "hosts": "etc/hosts"}


@pytest.mark.parametrize(("overwrite", "kept"), [("skip", "mine"), ("replace", "home/a")])
def test_an_existing_file_is_kept_or_replaced_depending_on_the_mode(target: Path, overwrite: str, kept: str) -> None:
    (target / "home").mkdir(parents=True)
    (target / "home" / "a").write_text("mine")
    private = extracted(target, "home/a", "home/b")

    placed = private.place((), overwrite, never)

    assert content(target) == {"home/a": kept, "home/b": "home/b"}
    assert placed.skipped.files == (1 if overwrite == "skip" else 0)


def test_conflicts_are_found_before_anything_is_moved(target: Path) -> None:
    (target / "home").mkdir(parents=True)
    (target / "home" / "a").write_text("mine")
    private = extracted(target, "home/a", "home/b")

    assert private.conflicts(()) == [(b"home/a", "a file already exists there")]
    assert content(target) == {"home/a": "mine"}


@pytest.mark.parametrize("overwrite", ["skip", "replace"])
def test_an_existing_link_is_never_followed(target: Path, tmp_path: Path, overwrite: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target.mkdir()
    (target / "home").symlink_to(outside)
    private = extracted(target, "home/a")

    placed = private.place((), overwrite, never)

    assert list(outside.iterdir()) == []
    assert placed.skipped.files + placed.failed.files == 1


def test_a_destination_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with pytest.raises(DestinationUnusable):
        PrivateTree(os.fsencode(tmp_path / "link"), "0" * 32).make()


def test_a_cancelled_move_can_be_resumed(target: Path) -> None:
    private = extracted(target, *(f"folder/{number}" for number in range(10)))
    (target / "folder").mkdir()
    answers = iter([False] * 4 + [True] * 100)

    first = private.place((), "skip", lambda: next(answers))
    assert first.cancelled
    assert 0 < len(content(target)) < 10
    assert private.count()[0] == 10 - len(content(target))

    assert private.place((), "skip", never).skipped.files == 0
    assert len(content(target)) == 10


@pytest.mark.parametrize("destination", ["", "relative", "/a/../b", "/a\0b"])
def test_an_invalid_destination_is_refused(destination: str) -> None:
    with pytest.raises(InvalidRequest):
        destination_of(RestoreBlock(destination=destination))


def test_requested_paths_become_bytes_and_paths_below_another_are_dropped() -> None:
    block = RestoreBlock(paths=("/home/", "home/anna", {"path_b64": "L3dlaXJkL/8="}))

    assert paths_of(block) == (b"home", b"weird/\xff")
    for bad in ("..", "a/../b", "/", {"path_b64": "!"}, {"other": 1}, 7):
        with pytest.raises(InvalidRequest):
            paths_of(RestoreBlock(paths=(bad,)))


def survey(items: list[ListedFile], roots: tuple[bytes, ...], *, contents_only: bool) -> Survey:
    return surveyed(items, Placement(roots, contents_only), UnknownFiles())


def listed(path: bytes, kind: str = "-", size: int = 1) -> ListedFile:
    return ListedFile(path, kind, size)


def test_the_survey_counts_files_and_bytes_and_names_missing_paths() -> None:
    items = [listed(b"home", "d", 0), listed(b"home/a", size=5), listed(b"home/b", size=7), listed(b"home/l", "l", 9)]

    found = survey(items, (b"etc", b"home"), contents_only=False)

    assert (found.files, found.size, found.missing) == (3, 12, [b"etc"])


def test_unsafe_paths_and_links_in_the_way_are_found_before_the_extraction() -> None:
    items = [listed(b"../etc/passwd"), listed(b"home", "l", 0), listed(b"home/x")]

    found = survey(items, (), contents_only=False)

    assert found.unsafe == [b"../etc/passwd"]
    assert found.links_in_the_way == [b"home"]


def test_names_from_several_folders_that_would_collide_are_found() -> None:
    items = [listed(b"a", "d"), listed(b"a/x"), listed(b"b", "d"), listed(b"b/x"), listed(b"c/file")]

    assert survey(items, (b"a", b"b", b"c/file"), contents_only=True).collisions == [b"b/x"]
    assert survey(items, (b"a", b"b", b"c/file"), contents_only=False).collisions == []
