"""The shim measures the space where a repository is stored; the near side of an ssh run passes it on."""

import json
import os
from pathlib import Path

from backup_engine import shim
from backup_engine.far.request import ended_file
from backup_engine.far.run import space_in
from backup_engine.process import Spool


def test_the_space_of_a_folder_is_that_of_its_file_system(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    space = shim.space_of(str(tmp_path))

    assert space["total_bytes"] == disk.f_blocks * disk.f_frsize
    assert 0 < space["free_bytes"] <= space["total_bytes"]


def test_a_missing_folder_has_no_space_and_raises_nothing(tmp_path: Path) -> None:
    assert shim.space_of(str(tmp_path / "gone")) == {}


def test_a_value_reported_by_a_machine_is_used_only_if_it_is_a_valid_size() -> None:
    assert space_in({"free_bytes": 5, "total_bytes": 9}) == {"free_bytes": 5, "total_bytes": 9}
    for odd in (None, [], {"free_bytes": -1, "total_bytes": 2**63}, {"free_bytes": "5"}, {"free_bytes": 1.5}):
        assert space_in(odd) == {}


def test_the_space_of_another_machine_is_in_the_record_of_the_run(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.folder.mkdir()
    record = {"code": 0, "signal": None, "exec_error": None, "started_at": 1.0, "finished_at": 2.0}
    (spool.folder / "exit.json").write_text(json.dumps(record))
    ended = ended_file(spool.folder)
    ended.parent.mkdir(parents=True, exist_ok=True)
    ended.write_text(json.dumps({"finished_at": 1.5, "free_bytes": 5, "total_bytes": 9}))
    found = spool.exit_record()

    assert found is not None
    assert (found.finished_at, found.free_bytes, found.total_bytes) == (1.5, 5, 9)
    ended.unlink()
    without = spool.exit_record()
    assert without is not None
    assert (without.free_bytes, without.total_bytes) == (None, None)
