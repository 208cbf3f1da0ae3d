"""The private files that ssh requires."""

import stat
from pathlib import Path

from holdfast.machines.keys import keep_private


def test_a_file_that_a_power_cut_left_empty_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "ssh" / "askpass"
    keep_private(file, "content", 0o700)
    file.write_text("")
    keep_private(file, "content", 0o700)

    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("content", 0o700)
    assert list(file.parent.iterdir()) == [file]


def test_a_file_with_the_right_content_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "askpass"
    keep_private(file, "content")
    before = file.stat().st_ino
    keep_private(file, "content")

    assert file.stat().st_ino == before
