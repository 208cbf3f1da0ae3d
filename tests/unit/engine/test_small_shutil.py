"""Finding programs and removing folders without `shutil`."""

import shutil
from pathlib import Path

from backup_engine.small_shutil import remove_tree, which


def test_a_program_is_found_in_the_same_place_as_by_shutil(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "tool").write_text("#!/bin/sh\n")
    (second / "tool").chmod(0o755)
    (first / "folder").mkdir()
    path = f"{first}:{second}"

    assert which("tool", path) == shutil.which("tool", path=path) == str(second / "tool")
    assert which("folder", path) is which("missing", path) is None
    assert which("sh") == shutil.which("sh")


def test_a_folder_is_removed_with_its_content_and_its_links_are_not_followed(tmp_path: Path) -> None:
    kept, gone = tmp_path / "kept", tmp_path / "gone"
    (kept / "deep").mkdir(parents=True)
    (kept / "deep" / "file").write_text("kept")
    (gone / "deep" / "empty").mkdir(parents=True)
    (gone / "deep" / "file").write_text("gone")
    (gone / "to-folder").symlink_to(kept)
    (gone / "to-file").symlink_to(kept / "deep" / "file")
    (gone / "to-nothing").symlink_to("nothing")

    remove_tree(gone)
    remove_tree(tmp_path / "missing")

    assert not gone.exists()
    assert (kept / "deep" / "file").read_text() == "kept"
