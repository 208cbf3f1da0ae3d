"""An archive can contain more levels of folders than Python's recursion limit or a process's limit of open files: it is
still handled.
"""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from backup_agent.restore_to import NotAllowedThere, Place, RestoreTo
from backup_jobs.restore.private_tree import PrivateTree
from backup_jobs.restore.unrestorable import remove_unrestorable
from backup_jobs.restore.walking import OPEN, remove, walk

LEVELS = 1500
NAME = b"a-folder"
OPEN_FILES = 600


@pytest.fixture(autouse=True)
def few_open_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def private(tmp_path: Path) -> Iterator[PrivateTree]:
    (tmp_path / "target").mkdir()
    private = PrivateTree(os.fsencode(tmp_path / "target"), "0" * 32)
    private.make()
    yield private
    private.remove()
    assert not list(tmp_path.glob("target/.holdfast-restore-*"))
    above = os.open(tmp_path, OPEN)
    remove(above, b"target")
    os.close(above)
    assert not (tmp_path / "target").exists()


def deepen(folder: Path) -> None:
    """Create very many nested folders, with a file in the innermost."""
    here = os.open(folder, OPEN)
    for _ in range(LEVELS):
        os.mkdir(NAME, dir_fd=here)
        below = os.open(NAME, OPEN, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open(b"file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)


def tree_of(private: PrivateTree) -> Path:
    return Path(os.fsdecode(private.path))


def files_below(folder: Path) -> list[bytes]:
    descriptor = os.open(folder, OPEN)
    try:
        return [
            os.path.join(visited.path, os.fsencode(name))
            for visited in walk(descriptor)
            for name in os.listdir(visited.folders[0])
            if os.fsencode(name) != NAME
        ]
    finally:
        os.close(descriptor)


def test_a_very_deep_tree_is_counted_cleaned_and_moved(private: PrivateTree, tmp_path: Path) -> None:
    deepen(tree_of(private))
    os.mkfifo(tree_of(private) / "fifo")

    with private.tree() as tree:
        assert remove_unrestorable(tree).special == [b"fifo"]
    assert private.count() == (1, 0)
    placed = private.place((), "skip", lambda: False)

    assert (placed.skipped.files, placed.failed.files) == (0, 0)
    assert files_below(tmp_path / "target" / os.fsdecode(NAME)) == [b"/".join([NAME] * (LEVELS - 1) + [b"file"])]


def test_a_very_deep_tree_is_compared_with_an_existing_one_down_to_the_last_file(
    private: PrivateTree, tmp_path: Path
) -> None:
    deepen(tree_of(private))
    deepen(tmp_path / "target")

    deepest = b"/".join([NAME] * LEVELS + [b"file"])
    assert [path for path, _ in private.conflicts(())] == [deepest]
    placed = private.place((), "replace", lambda: False)

    assert placed.failed.files == 1
    assert placed.failed.named[0][1] == "the folders are nested too deeply"


def test_an_agent_checks_a_very_deep_tree_against_an_existing_one(private: PrivateTree, tmp_path: Path) -> None:
    deepen(tree_of(private))
    deepen(tmp_path / "target")
    rule = RestoreTo()
    rule.require_tree(private, os.fsencode(tmp_path / "target"), ())

    rule._system = [Place.of(tmp_path / "target" / "/".join([os.fsdecode(NAME)] * 400))]
    with pytest.raises(NotAllowedThere):
        rule.require_tree(private, os.fsencode(tmp_path / "target"), ())


def test_a_walk_ends_if_a_folder_is_moved_away_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "tree" / "one" / "two").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    descriptor = os.open(tmp_path / "tree", OPEN)

    def walk_and_move() -> None:
        for visited in walk(descriptor):
            if visited.path == b"one/two":
                (tmp_path / "tree" / "one" / "two").rename(tmp_path / "elsewhere" / "two")

    with pytest.raises(OSError, match="a folder was moved"):
        walk_and_move()
    os.close(descriptor)
