"""Moving an extracted tree into place, on a real file system."""

import errno
import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from backup_jobs.restore import tree_mover
from backup_jobs.restore.tree_mover import MoveResult, TreeMover, count_files
from tests.support.trees import look_at, make_difficult_tree

MODES = ("skip", "replace", "fail")
LONG_AGO = 1_000_000_000_123_456_789


@contextmanager
def opened(*folders: Path) -> Iterator[list[int]]:
    descriptors = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY) for folder in folders]
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def folders_of(tree: Path) -> dict[bytes, tuple[int, int]]:
    """Times and modes of all folders, as recorded before anything is moved."""
    return {
        path: (seen.modified, seen.mode) for path, seen in look_at(tree).items() if stat.S_ISDIR(seen.type) and path
    }


def place(
    tree: Path,
    target: Path,
    overwrite: str,
    folders: dict[bytes, tuple[int, int]] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> MoveResult:
    known = folders_of(tree) if folders is None else folders
    moving = TreeMover(overwrite, known, is_cancelled, lambda _moved: None)
    with opened(tree, target) as (source, destination):
        moving.contents(source, destination, b"")
    return moving.result


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("overwrite", MODES)
def test_a_tree_moved_into_an_empty_folder_is_unchanged(tmp_path: Path, target: Path, overwrite: str) -> None:
    tree = tmp_path / "difficult"
    make_difficult_tree(tree)
    before = look_at(tree)

    placed = place(tree, target, overwrite)

    after = look_at(target)
    assert placed == MoveResult()
    assert {path: seen for path, seen in after.items() if path} == {path: seen for path, seen in before.items() if path}
    assert list(tree.iterdir()) == []


def test_existing_folders_are_merged_and_get_their_archived_attributes(tree: Path, target: Path) -> None:
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "new").write_text("new")
    os.setxattr(tree / "a" / "b", "user.note", b"archived")
    (tree / "a" / "b").chmod(0o751)
    os.utime(tree / "a" / "b", ns=(LONG_AGO, LONG_AGO))
    (target / "a" / "b").mkdir(parents=True)
    (target / "a" / "b" / "old").write_text("old")

    place(tree, target, "replace")

    merged = look_at(target)
    assert {b"a/b/new", b"a/b/old"} <= merged.keys()
    assert (merged[b"a/b"].mode, merged[b"a/b"].modified) == (0o751, LONG_AGO)
    assert merged[b"a/b"].attributes == (("user.note", b"archived"),)


def test_a_folder_that_is_kept_keeps_its_attributes(tree: Path, target: Path) -> None:
    (tree / "a").mkdir(mode=0o700)
    (tree / "a" / "new").touch()
    (target / "a").mkdir(mode=0o755)

    place(tree, target, "skip")

    assert stat.S_IMODE((target / "a").stat().st_mode) == 0o755
    assert (target / "a" / "new").exists()


def test_a_folder_that_is_not_in_the_archive_keeps_its_attributes(tree: Path, target: Path) -> None:
    """The engine creates the parent folders of what it extracts; their attributes do not apply to existing ones."""
    (tree / "home" / "user").mkdir(parents=True, mode=0o700)
    (tree / "home" / "user" / "file").touch()
    (target / "home").mkdir(mode=0o755)
    os.utime(target / "home", ns=(LONG_AGO, LONG_AGO))

    place(tree, target, "replace", folders={})

    assert stat.S_IMODE((target / "home").stat().st_mode) == 0o755
    assert (target / "home" / "user" / "file").exists()


def test_skip_keeps_existing_files_and_reports_them(tree: Path, target: Path) -> None:
    for folder, word in ((tree, "archived"), (target, "present")):
        (folder / "file").write_text(word)
    (tree / "other").write_text("archived")

    placed = place(tree, target, "skip")

    assert (target / "file").read_text() == "present"
    assert (target / "other").read_text() == "archived"
    assert (placed.skipped.files, placed.skipped.size) == (1, len("archived"))
    assert placed.skipped.named == [(b"file", "kept the existing file")]
    assert placed.failed.files == 0


def test_replace_replaces_files_and_links_but_never_the_target_of_a_link(
    tree: Path, target: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("outside")
    (tree / "file").write_text("archived")
    (tree / "link").write_text("archived")
    (tree / "gone").symlink_to("archived-target")
    (target / "file").write_text("present")
    (target / "link").symlink_to(outside)
    (target / "gone").symlink_to(outside)

    placed = place(tree, target, "replace")

    assert placed == MoveResult()
    assert (target / "file").read_text() == "archived"
    assert not (target / "link").is_symlink()
    assert (target / "gone").readlink() == Path("archived-target")
    assert outside.read_text() == "outside"


@pytest.mark.parametrize("overwrite", MODES)
def test_a_folder_is_never_replaced_by_a_file(tree: Path, target: Path, overwrite: str) -> None:
    (tree / "name").write_text("archived")
    (target / "name").mkdir()
    (target / "name" / "precious").write_text("precious")

    placed = place(tree, target, overwrite)

    left = placed.skipped if overwrite == "skip" else placed.failed
    assert (target / "name" / "precious").read_text() == "precious"
    assert left.named == [(b"name", "a folder already exists there")]


@pytest.mark.parametrize("overwrite", MODES)
def test_a_file_or_link_is_never_replaced_by_a_folder(tree: Path, target: Path, tmp_path: Path, overwrite: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("file", "link"):
        (tree / name).mkdir()
        (tree / name / "one").write_text("1")
        (tree / name / "two").write_text("22")
    (target / "file").write_text("present")
    (target / "link").symlink_to(outside)

    placed = place(tree, target, overwrite)

    left = placed.skipped if overwrite == "skip" else placed.failed
    assert (left.files, left.size) == (4, 6)
    assert [path for path, _ in left.named] == [b"file", b"link"]
    assert (target / "file").read_text() == "present"
    assert list(outside.iterdir()) == []


def test_a_link_swapped_in_during_the_move_is_not_followed(
    tree: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the folder was checked and before it is opened, another process replaces it with a link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (tree / "folder").mkdir()
    (tree / "folder" / "file").write_text("archived")
    (target / "folder").mkdir()
    real = tree_mover._mode_at

    def look_and_swap(folder: int, name: bytes) -> int:
        mode = real(folder, name)
        if name == b"folder" and not (target / "folder").is_symlink():
            (target / "folder").rmdir()
            (target / "folder").symlink_to(outside)
        return mode

    monkeypatch.setattr(tree_mover, "_mode_at", look_and_swap)
    placed = place(tree, target, "replace")

    assert placed.failed.files == 1
    assert list(outside.iterdir()) == []


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    tree: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "file").write_text("archived")
    real = os.link

    def late(*arguments: Any, **more: Any) -> None:
        (target / "file").write_text("came meanwhile")
        real(*arguments, **more)

    monkeypatch.setattr(os, "link", late)
    placed = place(tree, target, "fail")

    assert (target / "file").read_text() == "came meanwhile"
    assert placed.failed.named == [(b"file", "a file already exists there")]


@pytest.mark.parametrize("refusal", [errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_files_are_moved_on_file_systems_without_hard_links(
    tree: Path, target: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    (tree / "file").write_text("archived")
    (tree / "there").write_text("archived")
    (target / "there").write_text("present")

    def refuse(*arguments: Any, **more: Any) -> None:
        raise OSError(refusal, os.strerror(refusal))

    monkeypatch.setattr(os, "link", refuse)
    placed = place(tree, target, "skip")

    assert (target / "file").read_text() == "archived"
    assert (target / "there").read_text() == "present"
    assert placed.skipped.files == 1


def test_a_file_that_belongs_on_another_file_system_is_named_and_left(
    tree: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "file").write_text("archived")

    def refuse(*arguments: Any, **more: Any) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "rename", refuse)
    placed = place(tree, target, "replace")

    assert placed.failed.named == [(b"file", tree_mover.OTHER_FILE_SYSTEM)]
    assert (tree / "file").exists()


def test_a_cancelled_move_leaves_the_rest_in_place(tree: Path, target: Path) -> None:
    for number in range(20):
        (tree / f"file-{number:02d}").write_text("archived")
    asked = iter(range(100))

    placed = place(tree, target, "replace", is_cancelled=lambda: next(asked) >= 7)

    assert placed.cancelled
    assert sorted(path.name for path in target.iterdir()) == [f"file-{number:02d}" for number in range(7)]
    assert len(list(tree.iterdir())) == 13


def test_folders_nested_too_deeply_are_left_and_named(tree: Path, target: Path) -> None:
    deep = Path(*["d"] * (tree_mover.DEEPEST + 5))
    (tree / deep).mkdir(parents=True)
    (tree / deep / "file").touch()
    (target / deep).mkdir(parents=True)

    placed = place(tree, target, "replace", folders={})

    assert (placed.failed.files, placed.failed.named[0][1]) == (1, tree_mover.TOO_DEEP)


class Killed(BaseException):
    """Stands for the end of the process at this instant."""


@contextmanager
def killed_after(calls: int) -> Iterator[None]:
    """Let the process 'die' before or after a call that changes something."""
    remaining = [calls]
    patch = pytest.MonkeyPatch()

    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            remaining[0] -= 1
            if remaining[0] == 0:
                raise Killed
            result = real(*arguments, **more)
            if remaining[0] == 1:
                remaining[0] = -1
                raise Killed
            return result

        return call

    for name in ("link", "unlink", "rename", "rmdir", "utime", "fchmod"):
        patch.setattr(os, name, deadly(getattr(os, name)))
    try:
        yield
    except Killed:
        pass
    finally:
        patch.undo()


def make_two_sides(tree: Path, target: Path, seed: int) -> None:
    """A tree and a destination that share some names."""
    generator = random.Random(seed)
    for side in (tree, target):
        for number in range(6):
            folder = side / f"d{number % 3}" / f"e{number}"
            if generator.random() < 0.8:
                folder.mkdir(parents=True)
                for name in range(4):
                    if generator.random() < 0.6:
                        (folder / f"f{name}").write_text(f"{side.name} {number} {name}")
                os.utime(folder, ns=(LONG_AGO + number, LONG_AGO + number))
    first = next((path for path in tree.rglob("f*") if path.is_file()), None)
    if first is not None:
        os.link(first, tree / "hard")


@pytest.mark.parametrize("overwrite", MODES)
@pytest.mark.parametrize("seed", range(4))
def test_a_move_killed_at_any_instant_and_repeated_has_the_same_result(
    tmp_path: Path, overwrite: str, seed: int
) -> None:
    def sides(name: str) -> tuple[Path, Path, dict[bytes, tuple[int, int]]]:
        tree, target = tmp_path / name / "tree", tmp_path / name / "target"
        for folder in (tree, target):
            folder.mkdir(parents=True)
        make_two_sides(tree, target, seed)
        return tree, target, folders_of(tree)

    tree, target, folders = sides("undisturbed")
    total = files_in(tree)
    undisturbed = place(tree, target, overwrite, folders)
    expected = comparable(target)

    for instant in range(1, 60, 3):
        tree, target, folders = sides(f"killed-{instant}")
        with killed_after(instant):
            place(tree, target, overwrite, folders)
        again = place(tree, target, overwrite, folders)

        assert comparable(target) == expected
        assert again.skipped == undisturbed.skipped
        assert again.failed == undisturbed.failed
        assert files_in(tree) == undisturbed.skipped.files + undisturbed.failed.files <= total


def files_in(folder: Path) -> int:
    with opened(folder) as (descriptor,):
        return count_files(descriptor)[0]


def comparable(folder: Path) -> dict[bytes, tuple[Any, ...]]:
    """What a second run must reproduce: everything except folder times that were not set explicitly."""
    return {
        path: (seen.type, seen.mode, seen.content, seen.names, seen.modified if seen.modified < LONG_AGO + 1000 else 0)
        for path, seen in look_at(folder).items()
    }
