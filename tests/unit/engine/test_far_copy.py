"""The copy of the far side on a machine must be complete, even after a power cut."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backup_engine.far import run


def copied_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the script that copies the far side, and return the folder of the copy."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(run.sources())))
    umask = os.umask(0o077)
    try:
        exec(run.copy_script(), {})
    finally:
        os.umask(umask)
    return home / run.FOLDER / run.version()


def test_every_file_is_on_disk_before_the_copy_is_marked_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    renamed: dict[str, list[Path]] = {}
    fsync, replace = os.fsync, os.replace

    def sync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    def rename(source: str, target: str) -> None:
        renamed[Path(target).name] = [*synced]
        assert Path(source) in synced
        replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", rename)
    folder = copied_to(tmp_path, monkeypatch)

    *others, ready = run.sources()
    assert list(renamed) == [*others, ready]
    assert renamed[ready][-2] == folder, "after the other files and before the mark"


@pytest.mark.parametrize("name", run.sources())
def test_a_copy_with_a_missing_file_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (copied_to(tmp_path, monkeypatch) / name).unlink()

    assert started() == run.NOT_COPIED


@pytest.mark.parametrize("name", [*run.sources()][:-1])
def test_a_copy_with_an_empty_file_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    os.truncate(copied_to(tmp_path, monkeypatch) / name, 0)

    assert started() == run.NOT_COPIED


def test_a_complete_copy_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied_to(tmp_path, monkeypatch)

    assert started() == 0


def started() -> int:
    command = ["/bin/sh", "-c", run.side_command(sys.executable)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode
