from pathlib import Path

import pytest

from backup_engine.system_folders import overlaps_system


@pytest.mark.parametrize("target", [b"/etc", b"/etc/ssh", b"/", b"/var", b"/usr/local", b"/var/spool/cron/crontabs"])
def test_a_target_in_or_above_a_system_folder_overlaps_it(target: bytes) -> None:
    assert overlaps_system(target, here=False)
    assert overlaps_system(target, here=True)


@pytest.mark.parametrize("target", [b"/home/anna", b"/etcetera", b"/srv/etc", b"/var/lib/data", b"/tmp/x"])
def test_other_folders_do_not_overlap_system_folders(target: bytes) -> None:
    assert not overlaps_system(target, here=False)
    assert not overlaps_system(target, here=True)


def test_a_link_to_a_system_folder_is_resolved_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "another").symlink_to("/etc")
    assert overlaps_system(bytes(tmp_path / "another" / "ssh"), here=True)
